#!/usr/bin/env python3
"""What a program could gain if each of its layers chose among layouts of several prices, at most.

    mixed_prices.py --bin BUILD/bin --work DIR [--prices 0,0.003,0.03,1] MODEL FLAGS...

FLAGS are those of omnibal-compile for one division with parts and a memory limit. The model is planned at every price. Then
a relaxation is solved exactly, for the layers' numbers of one price and for all prices together: cuts are free, every stage
holds what 1f1b does, a layer may be split between two of its choices of layouts and recomputation, moves between unlike
layers cost nothing, and the step is that of the slowest stage. So the ratio says how much could be gained at most; the
program of the best single price is what `--ranks` finds.
"""
import argparse
import json
import os
import re
import subprocess


def problem_at(price, args):
    """The planning problem at a price, and the predicted step in ms."""
    path = os.path.join(args.work, f"price-{price}.json")
    command = [os.path.join(args.bin, "omnibal-compile"), *args.arguments, "--layout-price", price, "--dry-run", "--emit-problem", path]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    with open(path, encoding="utf-8") as file:
        return json.load(file), float(re.search(r"predicted step: ([0-9.]+) ms", text)[1])


def resident(layer, replicas):
    """Bytes for the whole step; with ZeRO-1 the replicas divide a layer's state."""
    state, count = layer.get("state_bytes", 0), replicas["size"] if replicas.get("zero") else 1
    return layer["param_bytes"] - state + -(-state // count)


def choices(problems, number, in_flight):
    """(bytes, ns) of a layer on a stage, those of the lower convex hull, ascending in bytes."""
    points = sorted((resident(layer, problem["cluster"]["data_parallel"]) + in_flight * option["saved_bytes"],
                     layer["forward_ns"] + layer["input_grad_ns"] + layer["weight_grad_ns"] + option["recompute_ns"])
                    for problem in problems for layer in [problem["layers"][number]] for option in layer["remat"])
    hull = []
    for point in points:
        if hull and point[1] >= hull[-1][1]:
            continue
        while len(hull) > 1 and slope(hull[-2], hull[-1]) >= slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def slope(a, b):
    return (b[1] - a[1]) / (b[0] - a[0])


def least_times(hulls, workspaces, room):
    """By number of layers from the first on, the least time in which they fit; ends where none do."""
    time = held = workspace = 0
    exchanges = []
    for hull, needed in zip(hulls, workspaces):
        held, time, workspace = held + hull[0][0], time + hull[0][1], max(workspace, needed)
        exchanges += [(slope(a, b), b[0] - a[0]) for a, b in zip(hull, hull[1:])]
        left = room - workspace - held
        if left < 0:
            return
        shortest = time
        for gain, more in sorted(exchanges):
            shortest += gain * min(more, left)
            left -= min(more, left)
        yield shortest


def slowest_stage(problems):
    """The least value of the slowest stage's ns."""
    count, stages = len(problems[0]["layers"]), problems[0]["cluster"]["stages"]
    best = [0] + [float("inf")] * count
    for stage in range(stages):
        room = max(p["cluster"]["memory_bytes"][stage] for p in problems)
        hulls = [choices(problems, number, min(problems[0]["microbatches"], stages - stage)) for number in range(count)]
        workspaces = [min(option["workspace_bytes"] for p in problems for option in p["layers"][number]["remat"]) for number in range(count)]
        after = [float("inf")] * (count + 1)
        for begin in range(count):
            for end, time in enumerate(least_times(hulls[begin:], workspaces[begin:], room), begin + 1):
                after[end] = min(after[end], max(best[begin], time))
        best = after
    return best[count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--prices", default="0,0.003,0.03,1")
    args, args.arguments = parser.parse_known_args()
    os.makedirs(args.work, exist_ok=True)
    found = {price: problem_at(price, args) for price in args.prices.split(",")}
    relaxed = {price: slowest_stage([problem]) for price, (problem, _) in found.items()}
    for price, (problem, step) in found.items():
        print(f"price {price}: predicted step {step:.2f} ms, relaxed {relaxed[price] * problem['microbatches'] / 1e6:.2f} ms")
    mixed = slowest_stage([problem for problem, _ in found.values()])
    print(f"all prices: the best of them takes {min(relaxed.values()) / mixed:.4f} of layers that choose for themselves, at most")


if __name__ == "__main__":
    main()
