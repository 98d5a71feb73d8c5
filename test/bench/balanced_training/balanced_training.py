#!/usr/bin/env python3
"""What balanced micro-batches gain: the same model on the same data, random against balanced.

    balanced_training.py --bin BUILD/bin --work DIR [--lengths FILE.csv...] [--samples 128] [--rounds 5]

Two data-parallel ranks, one thread each, pinned to a core. Random: what a plain data loader does: the ranks of a step
take equally many random samples, on average as many as the balanced groups hold. They are packed all the same, so
padding is no part of the gain. Balanced: omnibal-batch with the compiled model's costs. Both run through the same
program and see the same number of samples. Runs alternate; the gain is given by the sum of each step's minimum over the
rounds and by the median run. Predicted: steps last as long as their most expensive rank, by `omnibal-compile
--emit-batch-cost`. More ranks than the machine has cores are simulated with groups of all samples of the tables.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TILES, TOKENS = 9, 1024  # caps of the balanced groups, as 9 / 4096 of the unscaled tables
RANKS = 2


def call(*command, **options):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode}: {' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    return result.stdout


def read_lengths(path):
    with open(path, newline="") as file:
        return np.array([(int(row["vit_num"]), int(row["token_num"])) for row in csv.DictReader(file)], dtype=np.int64)


class Groups:
    """Sample numbers of groups: those of a folder of omnibal-batch, or random ones."""

    def __init__(self, samples, offsets):
        self.samples, self.offsets = samples, offsets

    @classmethod
    def read(cls, folder):
        return cls(*(np.load(os.path.join(folder, name)) for name in ("samples.npy", "groups.npy")))

    @classmethod
    def random(cls, samples, groups, ranks, generator):
        """A plain loader's: the ranks of a step take equally many samples, on average as many as the balanced groups."""
        rows = groups // ranks
        ends = np.round(np.arange(rows + 1) * samples / groups).astype(np.int64) * ranks  # of whole rows
        ends[-1] = samples
        offsets = [0] + [begin + (end - begin) * (r + 1) // ranks for begin, end in zip(ends, ends[1:]) for r in range(ranks)]
        return cls(generator.permutation(samples).astype(np.int64), np.array(offsets, dtype=np.int64))

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        np.save(os.path.join(folder, "samples.npy"), self.samples)
        np.save(os.path.join(folder, "groups.npy"), self.offsets)

    def sums(self, values):
        """Of each group."""
        total = np.concatenate([[0], np.cumsum(values[self.samples])])
        return total[self.offsets[1:]] - total[self.offsets[:-1]]

    def sizes(self):
        return np.diff(self.offsets)


def costs_of(groups, lengths, cost):
    tiles, tokens = lengths[:, 0], lengths[:, 1]
    return groups.sums(cost["tile_ns"] * tiles + cost["token_ns"] * tokens + cost["square_ns"] * tokens * tokens)


def predicted(groups, lengths, cost, ranks):
    """Time of all steps; a step lasts as long as its most expensive rank."""
    return costs_of(groups, lengths, cost).reshape(-1, ranks).max(axis=1).sum()


def balance(args, table, folder, ranks, cost):
    call(os.path.join(args.bin, "omnibal-batch"), table, "--tiles", TILES, "--tokens", TOKENS, "--ranks", ranks, "--seed", 1,
         "--cost", cost, "-o", folder)
    return Groups.read(folder)


def prepare(args):
    """Model, data, program, cost file and both lists of groups."""
    work = args.work
    if not os.path.exists(os.path.join(work, "model", "model.onnx")):
        call(sys.executable, os.path.join(HERE, "make_data.py"), work, *args.lengths, "--samples", args.samples)
    lengths = read_lengths(os.path.join(work, "lengths.csv"))
    compiler = [os.path.join(args.bin, "omnibal-compile"), os.path.join(work, "model", "model.onnx"), "--data-parallel", RANKS,
                "--microbatches", 1, "--cpu", "native", "--remat", "none"]
    cost_file = os.path.join(work, "cost.json")
    call(*compiler, "--tiles", TILES, "--tokens", TOKENS, "--emit-batch-cost", cost_file, "--dry-run")
    with open(cost_file) as file:
        cost = json.load(file)
    groups = {"balanced": balance(args, os.path.join(work, "lengths.csv"), os.path.join(work, "balanced"), RANKS, cost_file)}
    groups["random"] = Groups.random(len(lengths), len(groups["balanced"].sizes()), RANKS, np.random.default_rng(1))
    groups["random"].write(os.path.join(work, "random"))
    # Random groups may exceed the caps. Work follows the real tiles and tokens, so one program with room for both is fair.
    caps = [int(max(g.sums(lengths[:, i]).max() for g in groups.values())) for i in (0, 1)]
    call(*compiler, "--tiles", max(caps[0], TILES), "--tokens", max(caps[1], TOKENS), "-o", os.path.join(work, "program"))
    return lengths, groups, cost, cost_file


def train(args, kind, steps):
    """Log lines of one run on two pinned cores."""
    log = os.path.join(args.work, f"{kind}.jsonl")
    pin = ["bash", "-c", 'exec taskset -c "${OMPI_COMM_WORLD_LOCAL_RANK:-0}" "$0" "$@"']
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    call("mpirun", "--oversubscribe", "--bind-to", "none", "-n", RANKS, *pin, os.path.join(args.bin, "omnibal-run"),
         os.path.join(args.work, "program"), "--weights", os.path.join(args.work, "model", "model.safetensors"), "--data",
         os.path.join(args.work, "data-000000.tar"), "--preprocess", os.path.join(args.work, "preprocessor_config.json"),
         "--batches", os.path.join(args.work, kind), "--steps", steps, "--lr", "1e-3", "--warmup-steps", 5, "--threads", 1,
         "--log", log, env=environment)
    with open(log) as file:
        return [json.loads(line) for line in file]


def losses_at(log, samples_a_step, points):
    """Mean loss of a label token over the steps that bring the samples seen to each point, from the point before it."""
    seen = np.cumsum(samples_a_step)
    result, begin = [], 0
    for point in points:
        end = max(begin + 1, int(np.searchsorted(seen, point, side="right")))
        labels = sum(line["label_tokens"] for line in log[begin:end])
        result.append(sum(line["loss"] * line["label_tokens"] for line in log[begin:end]) / max(1, labels))
        begin = end
    return result


def explain(times, groups, lengths, cost):
    """How much of a step the slower rank's work, the other rank's work and neither decide. Ranks that share nothing would
    not slow each other down; virtual cores often share a core or the memory's bandwidth."""
    rows, seconds, most = [], [], {}
    for kind, measured in times.items():
        work = costs_of(groups[kind], lengths, cost).reshape(-1, RANKS)[1:]
        most[kind] = work.max(axis=1)
        rows += [(m, o, 1.0) for m, o in zip(most[kind], work.sum(axis=1) - most[kind])]
        seconds += list(np.min(measured, axis=0))
    own, other, fixed = np.linalg.lstsq(np.array(rows), np.array(seconds), rcond=None)[0]
    alone = {kind: (own + other) * m.sum() + fixed * len(m) for kind, m in most.items()}
    counted = {kind: groups[kind].sizes().reshape(-1, RANKS)[1:].sum() for kind in most}
    ratio = (alone["random"] / counted["random"]) / (alone["balanced"] / counted["balanced"])
    print(f"a step's time depends to {own / (own + other):.0%} on the slower rank's work, to {other / (own + other):.0%} on the "
          f"other's, plus {fixed * 1e3:.0f} ms;\nif the ranks did not slow each other down, balanced / random would be {ratio:.3f}")


def measure(args, lengths, groups, cost):
    # The balanced folder composes each further epoch anew; the random one, which has no settings, repeats.
    steps = {kind: len(g.sizes()) // RANKS for kind, g in groups.items()}
    times = {kind: [] for kind in groups}
    logs = {}
    for round_number in range(args.rounds):
        for kind in groups:
            logs[kind] = train(args, kind, steps[kind])
            # The first step pays for first use of memory.
            times[kind].append([line["step_ms"] / 1e3 for line in logs[kind]][1:])
            print(f"round {round_number + 1}, {kind}: {sum(times[kind][-1]):.2f} s", file=sys.stderr)
    samples = {kind: g.sizes().reshape(-1, RANKS).sum(axis=1) for kind, g in groups.items()}
    count = len(groups["balanced"].sizes())
    print(f"{len(lengths)} samples, {count} micro-batches of {len(lengths) / count:.2f} samples on average, {RANKS} ranks")
    print("samples/s           minimum   median")
    rates = {}
    for kind in times:
        counted = int(samples[kind][1:].sum())
        best = counted / np.min(times[kind], axis=0).sum()
        median = counted / statistics.median(map(sum, times[kind]))
        rates[kind] = (best, median)
        print(f"  {kind:16s} {best:8.2f} {median:8.2f}")
    forecast = predicted(groups["random"], lengths, cost, RANKS) / predicted(groups["balanced"], lengths, cost, RANKS)
    print(f"balanced / random:  {rates['balanced'][0] / rates['random'][0]:8.3f} "
          f"{rates['balanced'][1] / rates['random'][1]:8.3f}   predicted {forecast:.3f}")
    explain(times, groups, lengths, cost)
    points = [len(lengths) * k // 4 for k in (1, 2, 3, 4)]
    print("mean loss between these numbers of samples seen: " + " ".join(f"{p:8d}" for p in [0] + points))
    for kind in groups:
        print(f"  {kind:16s} " + " " * 31 + " ".join(f"{loss:8.4f}" for loss in losses_at(logs[kind], samples[kind], points)))


def simulate(args, cost, cost_file):
    table = os.path.join(args.work, "all-lengths.csv")
    lengths = read_lengths(table)
    print(f"simulated, all {len(lengths)} samples:\n  ranks   balanced / random   idle time random   idle time balanced")
    for ranks in (2, 8, 16, 64, 256):
        balanced = balance(args, table, os.path.join(args.work, f"balanced-{ranks}"), ranks, cost_file)
        random = Groups.random(len(lengths), len(balanced.sizes()), ranks, np.random.default_rng(ranks))
        work = costs_of(balanced, lengths, cost).sum() / ranks
        times = [predicted(groups, lengths, cost, ranks) for groups in (random, balanced)]
        print(f"  {ranks:5d}   {times[0] / times[1]:17.3f}   {1 - work / times[0]:16.1%}   {1 - work / times[1]:18.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--lengths", nargs="+", default=[os.path.join(ROOT, "test", "data", "lengths", "pooled.csv")],
                        help="tables with vit_num, token_num and perhaps count")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-training", action="store_true", help="only predictions and simulations")
    args = parser.parse_args()
    lengths, groups, cost, cost_file = prepare(args)
    if not args.no_training:
        measure(args, lengths, groups, cost)
    simulate(args, cost, cost_file)


if __name__ == "__main__":
    main()
