#!/usr/bin/env python3
"""What a step costs where two replicas divide the optimizer's state, against one where they do not.

    zero.py --bin BUILD/bin --work DIR [--model 55m] [--replicas 2] [--rounds 5] [--steps 6] [--goal 1.03]

The model is that of step_vs_pytorch (make_model.py; it needs PyTorch once). Ranks are threads with one compute
thread each. Runs with and without alternate; figures are the minimum and the median over all steps but the first
two of a run. Losses and gradient norms must be equal in all bits. Fails where the ratio of the minima is above the goal.
"""
import argparse
import sys

import runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser, 1.03)
    parser.add_argument("--replicas", type=int, default=2)
    args = parser.parse_args()
    runs.write_steps(args, runs.export(args), args.replicas)
    for zero in (0, 1):
        runs.compile_program(args, f"zero-{zero}", "--data-parallel", args.replicas, "--zero", zero)
    steps, epilogues, results = {0: [], 1: []}, {0: [], 1: []}, {}
    for number in range(args.rounds):
        for zero in (0, 1) if number % 2 == 0 else (1, 0):
            lines = runs.run(args, f"zero-{zero}", 1)
            steps[zero] += [line["step_ms"] for line in lines]
            epilogues[zero] += [line["epilogue_ms"] for line in lines]
            results[zero] = [(line["loss"], line["grad_norm"]) for line in lines]
        if results[0] != results[1]:
            sys.exit(f"the runs differ: {results[0]} and {results[1]}")
    print("zero  step ms: minimum, median  epilogue ms: minimum, median  persistent bytes a parameter")
    for zero in (0, 1):
        sizes, elements = runs.persistent(args, f"zero-{zero}")
        print(f"{zero}     {runs.least_and_median(steps[zero])}  {runs.least_and_median(epilogues[zero])}  {sum(sizes) / elements:.3f}")
    runs.judge(args, steps[1], steps[0])


if __name__ == "__main__":
    main()
