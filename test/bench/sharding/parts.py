#!/usr/bin/env python3
"""What a step costs where K parts run the one stage with one compute thread each, against one rank with K threads.

    parts.py --bin BUILD/bin --work DIR [--model 55m] [--parts 2] [--price NS] [--rounds 5] [--steps 6] [--goal 1.1]

The model is that of step_vs_pytorch (make_model.py; it needs PyTorch once). Layouts are searched: at the default price
of memory, or at --price. Runs alternate; figures are the minimum and the median over all steps but the first two of a
run. Losses must agree within float32. Fails where the ratio of the minima is above the goal.
"""
import argparse
import math
import sys

import runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_options(parser, 1.1)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--price", help="--layout-price")
    args = parser.parse_args()
    runs.write_steps(args, runs.export(args), 1)
    names = {"one rank": ("one", args.parts), f"{args.parts} parts": ("parts", 1)}
    runs.compile_program(args, "one")
    runs.compile_program(args, "parts", "--model-parallel", args.parts, *(["--layout-price", args.price] if args.price else []))
    steps, results = {kind: [] for kind in names}, {}
    for number in range(args.rounds):
        for kind in list(names) if number % 2 == 0 else list(names)[::-1]:
            lines = runs.run(args, *names[kind])
            steps[kind] += [line["step_ms"] for line in lines]
            results[kind] = [line["loss"] for line in lines]
        for a, b in zip(*results.values(), strict=True):
            if not math.isclose(a, b, rel_tol=1e-3):
                sys.exit(f"the runs differ: {results}")
    print("           step ms: minimum, median  most persistent bytes of a rank")
    for kind, (name, _) in names.items():
        print(f"{kind:10s} {runs.least_and_median(steps[kind])}  {max(runs.persistent(args, name)[0])}")
    one, parts = (max(runs.persistent(args, name)[0]) for name, _ in names.values())
    print(f"persistent bytes {parts / one:.3f}")
    ours, theirs = list(steps.values())[::-1]
    runs.judge(args, ours, theirs)


if __name__ == "__main__":
    main()
