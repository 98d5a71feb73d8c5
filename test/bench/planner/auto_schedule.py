#!/usr/bin/env python3
"""The schedule `auto` against every named schedule, each searched by omnibal-plan, on problems of every kind.

    auto_schedule.py --bin BUILD/bin [--sizes 32x4x8,60x8x16] [--kinds tight,frozen]

Prints the step of each named schedule and of `auto` in ms, how much faster `auto` is than the best of them, its gap and
seconds; fails where it is slower than one.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from planner_scale import KINDS, Maker

NAMED = ("gpipe", "1f1b", "zb-h1", "interleaved:2", "interleaved:3")


def plan(binary, problem, schedule, folder):
    """The plan's object; None where nothing fits."""
    path = os.path.join(folder, "problem.json")
    with open(path, "w") as file:
        json.dump(dict(problem, schedule=schedule), file)
    done = subprocess.run([os.path.join(binary, "omnibal-plan"), path, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--sizes", default="32x4x8,60x8x16,100x16x64", help="layers x stages x micro-batches")
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    print(f"{'problem':36s} " + " ".join(f"{name:>13s}" for name in NAMED) + f" {'auto':>9s} {'faster':>7s} {'gap %':>6s} {'seconds':>7s}")
    slower = 0
    with tempfile.TemporaryDirectory() as folder:
        for size in args.sizes.split(","):
            for kind in args.kinds.split(","):
                for factors in (False, True):
                    problem = Maker(*map(int, size.split("x")), 1, factors=factors, **KINDS[kind]).problem
                    steps = {}
                    for name in NAMED:
                        found = plan(args.bin, problem, name, folder)
                        steps[name] = found["step_ns"] / 1e6 if found else None
                    auto = plan(args.bin, problem, "auto", folder)
                    best = min(step for step in steps.values() if step)
                    slower += auto["step_ns"] / 1e6 > best
                    title = f"{size} {kind}" + (" with factors" if factors else "")
                    print(f"{title:36s} " + " ".join(f"{step:13.1f}" if step else f"{'-':>13s}" for step in steps.values()) +
                          f" {auto['step_ns'] / 1e6:9.1f} {best / (auto['step_ns'] / 1e6):7.3f} {100 * auto['gap']:6.1f} "
                          f"{auto['search']['seconds']:7.2f}", flush=True)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
