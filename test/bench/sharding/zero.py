#!/usr/bin/env python3
"""What a step costs where two replicas divide the optimizer's state, against one where they do not.

    zero.py --bin BUILD/bin --work DIR [--model 55m] [--replicas 2] [--rounds 5] [--steps 6] [--goal 1.03]

The model is that of step_vs_pytorch (make_model.py; it needs PyTorch once). Ranks are threads with one compute
thread each. Runs with and without alternate; figures are the minimum and the median over all steps but the first
two of a run. Losses and gradient norms must be equal in all bits. Fails where the ratio of the minima is above the goal.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def prepare(args):
    """Exports the model and compiles a program each way."""
    if not os.path.exists(os.path.join(args.work, "steps.jsonl")):
        subprocess.run([sys.executable, os.path.join(HERE, os.pardir, "step_vs_pytorch", "make_model.py"), args.work, args.model], check=True)
    with open(os.path.join(args.work, "steps.jsonl")) as file:
        groups = [group for line in file for group in json.loads(line)["groups"]]
    with open(os.path.join(args.work, "steps-of-replicas.jsonl"), "w") as file:
        for begin in range(0, len(groups) - args.replicas + 1, args.replicas):
            file.write(json.dumps({"groups": groups[begin:begin + args.replicas]}) + "\n")
    for zero in (0, 1):
        subprocess.run([os.path.join(args.bin, "omnibal-compile"), os.path.join(args.work, "model", "model.onnx"), "--tiles", "4", "--tokens",
                        "512", "--data-parallel", str(args.replicas), "--microbatches", "1", "--cpu", "native", "--zero", str(zero), "-o",
                        os.path.join(args.work, f"zero-{zero}")], check=True, stdout=subprocess.DEVNULL)


def run(args, zero):
    """Milliseconds of the steps and of their epilogues, and (loss, gradient norm) of each."""
    log = os.path.join(args.work, "zero.log")
    subprocess.run([os.path.join(args.bin, "omnibal-run"), os.path.join(args.work, f"zero-{zero}"), "--weights",
                    os.path.join(args.work, "model", "model.safetensors"), "--data", os.path.join(args.work, "data-000000.tar"),
                    "--preprocess", os.path.join(args.work, "preprocessor_config.json"), "--steps-file",
                    os.path.join(args.work, "steps-of-replicas.jsonl"), "--steps", str(args.steps + 2), "--threads", "1", "--log", log],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    return [line["step_ms"] for line in lines][2:], [line["epilogue_ms"] for line in lines][2:], \
        [(line["loss"], line["grad_norm"]) for line in lines]


def persistent(args, zero):
    """Bytes that last, and elements that train, of all stages."""
    with open(os.path.join(args.work, f"zero-{zero}", "stages.json")) as file:
        stages = json.load(file)
    elements = 0
    for parameter in (each for stage in stages for each in stage["parameters"] if each["trainable"]):
        count = 1
        for size in parameter["shape"]:
            count *= size
        elements += count
    return sum(stage["persistent_bytes"] for stage in stages), elements


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--model", default="55m")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--goal", type=float, default=1.03, help="0: none")
    args = parser.parse_args()
    prepare(args)
    steps, epilogues, results = {0: [], 1: []}, {0: [], 1: []}, {}
    for number in range(args.rounds):
        for zero in (0, 1) if number % 2 == 0 else (1, 0):
            taken, ends, results[zero] = run(args, zero)
            steps[zero] += taken
            epilogues[zero] += ends
        if results[0] != results[1]:
            sys.exit(f"the runs differ: {results[0]} and {results[1]}")
    print("zero  step ms: minimum, median  epilogue ms: minimum, median  persistent bytes a parameter")
    for zero in (0, 1):
        size, elements = persistent(args, zero)
        print(f"{zero}     {min(steps[zero]):.1f}, {statistics.median(steps[zero]):.1f}  {min(epilogues[zero]):.1f}, "
              f"{statistics.median(epilogues[zero]):.1f}  {size / elements:.3f}")
    ratio = min(steps[1]) / min(steps[0])
    print(f"ratio of the minima {ratio:.3f}, of the medians {statistics.median(steps[1]) / statistics.median(steps[0]):.3f}")
    if args.goal and ratio > args.goal:
        sys.exit(f"above the goal of {args.goal}")


if __name__ == "__main__":
    main()
