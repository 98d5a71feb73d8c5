#!/usr/bin/env python3
"""What balanced micro-batches gain: the same model on the same data, composed by omnibal-batch and as others do it.

    balanced_training.py --bin BUILD/bin --work DIR [--lengths FILE.csv...] [--samples 128] [--rounds 5] [--under "chrt -f 10"]

Two data-parallel ranks, one thread each, pinned to a core. All run through one program, see the same samples and are
packed, so that padding is no part of the gain:

  balanced        omnibal-batch with the compiled model's costs, caps of tiles and tokens
  balanced, wide  the same with as many tiles in a group as `packed` has in its fullest
  packed          what trainers call packing (ms-swift, LLaMA-Factory): packs of at most the token cap, filled with the
                  longest samples that fit, in random order; pictures do not count
  random          a plain data loader's: the ranks of a step take equally many random samples, on average as many as the
                  balanced groups hold

Runs alternate; samples/s are given by the sum of each step's minimum over the rounds and by the median run, the ratio is
to the better of the last two. Predicted: steps last as long as their most expensive rank, by `omnibal-compile
--emit-batch-cost`, and a micro-batch as long as its cost. More ranks than the machine has cores are simulated with groups
of all samples of the tables.
"""
import argparse
import bisect
import csv
import json
import os
import statistics
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import pipelines  # noqa: E402

TILES, TOKENS = 9, 1024  # caps of the balanced groups, as 9 / 4096 of the unscaled tables
RANKS = 2
OURS, RIVALS = ("balanced", "balanced, wide"), ("packed", "random")


def read_lengths(path):
    with open(path, newline="") as file:
        return np.array([(int(row["vit_num"]), int(row["token_num"])) for row in csv.DictReader(file)], dtype=np.int64)


class Groups:
    """Sample numbers of groups: those of a folder of omnibal-batch, or others'."""

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

    @classmethod
    def packed(cls, tokens, cap, ranks, generator):
        """Packs of at most `cap` tokens, each filled with the longest sample that still fits until none does; in random
        order. As a step takes one for each rank, the packs with most samples are halved until their number fits."""
        order = np.argsort(tokens, kind="stable").tolist()
        left, packs = [int(tokens[i]) for i in order], []
        while order:
            room, pack = cap, []
            while (at := bisect.bisect_right(left, room)) > 0:
                room -= left.pop(at - 1)
                pack.append(order.pop(at - 1))
            if not pack:
                sys.exit(f"a sample of {left[0]} tokens is longer than a pack of {cap}")
            packs.append(pack)
        while len(packs) % ranks:
            most = packs.pop(max(range(len(packs)), key=lambda i: len(packs[i])))
            packs += [most[0::2], most[1::2]]
        packs = [packs[i] for i in generator.permutation(len(packs))]
        return cls(np.array(sum(packs, []), dtype=np.int64), np.cumsum([0] + [len(pack) for pack in packs]).astype(np.int64))

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


def balance(args, table, folder, ranks, cost, tiles=TILES):
    pipelines.call(os.path.join(args.bin, "omnibal-batch"), table, "--tiles", tiles, "--tokens", TOKENS, "--ranks", ranks, "--seed", 1,
                   "--cost", cost, "-o", folder)
    return Groups.read(folder)


def compose(args, table, lengths, ranks, cost_file, folder):
    """All ways to compose the table's samples, written below the folder."""
    packed = Groups.packed(lengths[:, 1], TOKENS, ranks, np.random.default_rng(ranks))
    wide = int(packed.sums(lengths[:, 0]).max())
    balanced = balance(args, table, os.path.join(folder, "balanced"), ranks, cost_file)
    groups = {"balanced": balanced,
              "balanced, wide": balance(args, table, os.path.join(folder, "balanced, wide"), ranks, cost_file, max(wide, TILES)),
              "packed": packed, "random": Groups.random(len(lengths), len(balanced.sizes()), ranks, np.random.default_rng(ranks))}
    for kind in RIVALS:
        groups[kind].write(os.path.join(folder, kind))
    return groups


def prepare(args):
    """Lengths, all groups, cost and its file; the model, data and program are written to the work folder."""
    work = args.work
    if not os.path.exists(os.path.join(work, "model", "model.onnx")):
        pipelines.call(sys.executable, os.path.join(HERE, "make_data.py"), work, *args.lengths, "--samples", args.samples)
    lengths = read_lengths(os.path.join(work, "lengths.csv"))
    compiler = [os.path.join(args.bin, "omnibal-compile"), os.path.join(work, "model", "model.onnx"), "--data-parallel", RANKS,
                "--microbatches", 1, "--cpu", "native", "--remat", "none"]
    cost_file = os.path.join(work, "cost.json")
    pipelines.call(*compiler, "--tiles", TILES, "--tokens", TOKENS, "--emit-batch-cost", cost_file, "--dry-run")
    with open(cost_file) as file:
        cost = json.load(file)
    groups = compose(args, os.path.join(work, "lengths.csv"), lengths, RANKS, cost_file, work)
    # Rivals may exceed the caps. Work follows the real tiles and tokens, so one program with room for all is fair.
    caps = [int(max(g.sums(lengths[:, i]).max() for g in groups.values())) for i in (0, 1)]
    pipelines.call(*compiler, "--tiles", max(caps[0], TILES), "--tokens", max(caps[1], TOKENS), "-o", os.path.join(work, "program"))
    return lengths, groups, cost, cost_file


def train(args, kind, steps):
    """Log lines of one run on two pinned cores."""
    return pipelines.Tools(args.bin, args.under).train(args.model, os.path.join(args.work, "program"), args.model.data,
                                                       os.path.join(args.work, f"{kind}.jsonl"), "--batches",
                                                       os.path.join(args.work, kind), "--steps", steps, "--warmup-steps", 5)


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
    print(f"a step's time depends to {own / (own + other):.0%} on the slower rank's work, to {other / (own + other):.0%} on the "
          f"other's, plus {fixed * 1e3:.0f} ms")


def measure(args, lengths, groups, cost):
    # The balanced folders compose each further epoch anew; the others, which have no settings, repeat.
    steps = {kind: len(g.sizes()) // RANKS for kind, g in groups.items()}
    times = {kind: [] for kind in groups}
    logs = {}
    for round_number in range(args.rounds):
        for kind in groups:
            logs[kind] = train(args, kind, steps[kind])
            # The first step pays for first use of memory.
            times[kind].append([line["step_ms"] / 1e3 for line in logs[kind]][1:])
            print(f"round {round_number + 1}, {kind}: {sum(times[kind][-1]):.2f} s", file=sys.stderr)
    report(groups, lengths, cost, times)
    explain(times, groups, lengths, cost)
    samples = {kind: g.sizes().reshape(-1, RANKS).sum(axis=1) for kind, g in groups.items()}
    points = [len(lengths) * k // 4 for k in (1, 2, 3, 4)]
    print("mean loss between these numbers of samples seen: " + " ".join(f"{p:8d}" for p in [0] + points))
    for kind in groups:
        print(f"  {kind:16s} " + " " * 31 + " ".join(f"{loss:8.4f}" for loss in losses_at(logs[kind], samples[kind], points)))


def report(groups, lengths, cost, times):
    """Samples/s of every kind, measured and by cost, and the ratios of ours to the best rival."""
    forecasts = {kind: 1e9 * len(lengths) / predicted(g, lengths, cost, RANKS) for kind, g in groups.items()}
    rates = {}
    print(f"{len(lengths)} samples, {RANKS} ranks\nsamples/s        minimum   median  by cost   micro-batches, samples in one, most tiles, most tokens")
    for kind, g in groups.items():
        counted = int(g.sizes().reshape(-1, RANKS)[1:].sum())
        rates[kind] = counted / np.min(times[kind], axis=0).sum(), counted / statistics.median(map(sum, times[kind])), forecasts[kind]
        tiles, tokens = (int(g.sums(lengths[:, i]).max()) for i in (0, 1))
        print(f"  {kind:14s} " + " ".join(f"{rate:8.2f}" for rate in rates[kind]) +
              f"   {len(g.sizes())}, {len(lengths) / len(g.sizes()):.2f}, {tiles}, {tokens}")
    best = max(RIVALS, key=lambda kind: rates[kind][1])
    for kind in OURS:
        print(f"{kind} / {best}: " + " ".join(f"{a / b:.3f}" for a, b in zip(rates[kind], rates[best])))


def simulate(args, cost, cost_file):
    table = os.path.join(args.work, "all-lengths.csv")
    lengths = read_lengths(table)
    kinds = OURS + RIVALS
    print(f"simulated by cost, all {len(lengths)} samples; ranks, then for each of {', '.join(kinds)}: samples a unit of time, of "
          f"{kinds[0]}; time that ranks wait")
    for ranks in args.ranks:
        groups = compose(args, table, lengths, ranks, cost_file, os.path.join(args.work, f"ranks-{ranks}"))
        times = {kind: predicted(groups[kind], lengths, cost, ranks) for kind in kinds}
        print(f"  {ranks:5d}   " + "   ".join(f"{times[kinds[0]] / times[kind]:.3f} {1 - costs_of(groups[kind], lengths, cost).sum() / ranks / times[kind]:5.1%}"
                                              for kind in kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--lengths", nargs="+", default=[os.path.join(pipelines.ROOT, "test", "data", "lengths", "pooled.csv")],
                        help="tables with vit_num, token_num and perhaps count")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 8, 16, 64, 256], help="of the simulation")
    parser.add_argument("--under", default="", help="command before mpirun, as `chrt -f 10` on a machine that others use too")
    parser.add_argument("--no-training", action="store_true", help="only predictions and simulations")
    args = parser.parse_args()
    args.model = pipelines.Files(args.work)
    lengths, groups, cost, cost_file = prepare(args)
    if not args.no_training:
        measure(args, lengths, groups, cost)
    simulate(args, cost, cost_file)


if __name__ == "__main__":
    main()
