#!/usr/bin/env python3
"""Every combination of reference_losses.py on the shared models: all_combinations.py BIN_FOLDER DATA_FOLDER WORK_FOLDER

Models x opsets x frozen parts x 1, 2, 4 stages x 1, 2 replicas x rematerialization x threads or mpirun.
"""
import itertools
import os
import subprocess
import sys


def main():
    bin_folder, data, work = sys.argv[1:4]
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python", "reference_losses.py")
    failed = total = 0
    for model, graph, variant, stages, replicas, remat, launch in itertools.product(
            ("tiny-internvl", "tiny-llava"), ("model.onnx", "model-opset23.onnx"),
            ("train_all", "freeze_vision", "freeze_llm"), (1, 2, 4), (1, 2), ("none", "full"), ("threads", "mpirun")):
        total += 1
        result = subprocess.run(
            [sys.executable, script, "--bin", bin_folder, "--model", os.path.join(data, model), "--graph", graph, "--variant",
             variant, "--stages", str(stages), "--data-parallel", str(replicas), "--remat", remat, "--launch", launch,
             "--work", work], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            failed += 1
            print(f"FAILED {model} {graph} {variant} {stages}x{replicas} {remat} {launch}\n{result.stdout}", flush=True)
    print(f"{total - failed} of {total} combinations agree with PyTorch")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
