#!/usr/bin/env python3
"""How long training waits for a checkpoint, with copies of what is saved and without.

    checkpoint_pause.py --bin BUILD/bin --model DIR [--rounds 3]

DIR is a model's folder that step_vs_pytorch.py has made (DIR/model, DIR/data-000000.tar, DIR/steps.jsonl). A run saves every
fourth of 16 steps; both ways alternate. Figures are medians of the log's checkpoint_ms, the first save apart: it also takes
the copy's memory from the system.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

EVERY, STEPS = 4, 16


def pauses(args, program, work, buffer):
    """Milliseconds that training waited for each checkpoint, and of its steps."""
    log, checkpoints = os.path.join(work, "run.jsonl"), os.path.join(work, "checkpoints")
    shutil.rmtree(checkpoints, ignore_errors=True)
    subprocess.run([os.path.join(args.bin, "omnibal-run"), program, "--weights", os.path.join(args.model, "model", "model.safetensors"),
                    "--data", os.path.join(args.model, "data-000000.tar"), "--preprocess",
                    os.path.join(args.model, "preprocessor_config.json"), "--steps-file", os.path.join(args.model, "steps.jsonl"),
                    "--steps", str(STEPS + 1), "--log", log, "--checkpoint", checkpoints, "--checkpoint-every", str(EVERY), *buffer],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    folder = os.path.join(checkpoints, sorted(name for name in os.listdir(checkpoints) if name.startswith("step-"))[-1])
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    return [line["checkpoint_ms"] for line in lines if "checkpoint_ms" in line], [line["step_ms"] for line in lines][1:], size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.model) as work:
        program = os.path.join(work, "program")
        subprocess.run([os.path.join(args.bin, "omnibal-compile"), os.path.join(args.model, "model", "model.onnx"), "--tiles", "4",
                        "--tokens", "512", "--stages", "1", "--microbatches", "1", "-o", program], check=True, stdout=subprocess.DEVNULL)
        found = {"training waits": ([], [], []), "beside training": ([], [], [])}
        for _ in range(args.rounds):
            for way, buffer in (("training waits", ("--checkpoint-buffer", "0")), ("beside training", ())):
                waited, steps, size = pauses(args, program, work, buffer)
                found[way][0].append(waited[0])
                found[way][1].extend(waited[1:])
                found[way][2].extend(steps)
        print(f"checkpoint of {size / 1e6:.0f} MB")
        for way, (first, later, steps) in found.items():
            print(f"{way}: first pause {statistics.median(first):.0f} ms, later {statistics.median(later):.0f} ms, "
                  f"step {statistics.median(steps):.0f} ms")
        print(f"ratio {statistics.median(found['training waits'][1]) / statistics.median(found['beside training'][1]):.1f}")


if __name__ == "__main__":
    main()
