#!/usr/bin/env python3
"""What length groups gain in real runs on this machine: host_runs.py --bin BUILD/bin --work DIR [--rounds 3] [--under "chrt -f 10"]

A small model of InternVL's kind; samples of 64 to 4,096 tokens, most of them short, a third with pictures; one pinned thread
a rank, one rank and two. A memory limit that the long samples alone reach: --memory is the share of what a micro-batch of the
longest sample keeps. Candidates, program and balance are from calibrated costs. The rival has one length, the best one, with
cuts and recomputation of its own, and is balanced by the same costs; it is chosen as length groups are, of which it may have
one. Both run one epoch of the same samples; programs run in turn, and a step's time is the least of the rounds.

With --degrees 1,2 and --replicas 2 the rival are length groups of degree 1, as many and by the same costs: what sharing the
micro-batches of long samples gains.

The last table compares steps whose mode is another one than that of the step before with the same steps in an order that
changes the mode once: what a change costs.
"""
import argparse
import json
import os
import re
import statistics
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import pipelines  # noqa: E402

CONFIG = (128, 4, 192, 6, 4096)  # vision width, layers, text width, layers, vocabulary
LONGEST, SHORTEST = 4096, 64
WARM_UP = 2


def lengths_of(samples):
    """Log-normal around 200 tokens, one of twenty log-uniform from 1,024 on; a third has pictures."""
    generator = np.random.default_rng(1)
    lengths = [(4, LONGEST)]
    while len(lengths) < samples:
        if generator.random() < 0.05:
            tokens = int(1024 * (LONGEST / 1024) ** generator.random())
        else:
            tokens = int(np.clip(generator.lognormal(5.3, 0.7), SHORTEST, LONGEST))
        pictures = generator.random() < 1 / 3
        tiles = int(min(8, generator.geometric(0.4), (tokens - 32) // pipelines.TOKENS_PER_TILE)) if pictures else 0
        lengths.append((max(0, tiles), tokens))
    return lengths


def read(path):
    with open(path) as file:
        return json.load(file)


class Case:
    """A number of stages."""

    def __init__(self, bench, stages):
        self.bench, self.stages, self.tools = bench, stages, bench.tools
        self.ranks = stages * bench.args.replicas
        self.flags = ["--stages", stages, "--cpu", "native"]
        self.tables = []
        self.rival = "one" if bench.args.degrees == "1" else "alone"

    def path(self, name):
        return os.path.join(self.bench.args.work, f"{name}-{self.stages}")

    def calibrate(self):
        bench = self.bench
        tiles = max(t for t, _ in bench.lengths)
        for remat in ("none", "selective-1", "selective-2", "selective-3", "full"):
            program, table = self.path(f"measured-{remat}"), self.path(f"{remat}.json")
            if not os.path.exists(table):
                self.tools.compile(bench.model, program, *self.flags, "--tiles", tiles, "--tokens", LONGEST, "--remat", remat)
                measured = self.tools.calibrate(program, table, bench.data, ranks=self.stages)
                print(f"P = {self.stages}, {remat}: noise {measured['noise']:.1%}", file=sys.stderr)
            self.tables += ["--calibration", table]
        for degree in bench.args.degrees.split(",")[1:]:
            for remat in ("none", "full"):
                self.tables += ["--calibration", self.calibrate_degree(degree, remat, tiles)]
        self.limit = self.memory_limit()
        self.flags += ["--data-parallel", bench.args.replicas]

    def calibrate_degree(self, degree, remat, tiles):
        """Of what the ranks of a context group run."""
        table, program, batches = (self.path(f"degree-{degree}-{remat}{end}") for end in (".json", "", "-batches"))
        if not os.path.exists(table):
            with open(self.path("cost.json"), "w") as file:
                json.dump({"tile_ns": 1e6, "token_ns": 1e5, "square_ns": 10}, file)
            pipelines.call(os.path.join(self.bench.args.bin, "omnibal-batch"), self.bench.table, "--length-groups", f"{LONGEST}:{degree}",
                           "--cost", self.path("cost.json"), "--ranks", self.bench.args.replicas, "--tokens-per-step", LONGEST, "-o", batches)
            self.rewrite(os.path.join(batches, "groups.json"), stages=self.stages)
            pipelines.call(os.path.join(self.bench.args.bin, "omnibal-compile"), self.bench.model.onnx, *self.flags, "--data-parallel",
                           self.bench.args.replicas, "--batches", batches, "--remat", remat, "-o", program)
            measured = self.tools.calibrate(program, table, self.bench.data, ranks=self.ranks)
            print(f"P = {self.stages}, degree {degree}, {remat}: noise {measured['noise']:.1%}", file=sys.stderr)
        return table

    @staticmethod
    def rewrite(path, **fields):
        content = read(path) | fields
        with open(path, "w") as file:
            json.dump(content, file)

    def memory_limit(self):
        """Between what the program of the longest sample holds with nothing and with everything recomputed."""
        whole, least = ([stage["arena_bytes"] for stage in read(os.path.join(self.path(f"measured-{remat}"), "stages.json"))]
                        for remat in ("none", "full"))
        return int(max(least) + self.bench.args.memory * (max(whole) - max(least)))

    def choose(self):
        candidates = self.candidates_of(self.bench.args.degrees)
        self.simulated = {"groups": self.make("groups", 3, candidates)}
        if self.rival == "alone":
            candidates = self.candidates_of("1")
        self.simulated[self.rival] = self.make(self.rival, 3 if self.rival == "alone" else 1, candidates)

    def candidates_of(self, degrees):
        candidates = self.path(f"candidates-{degrees}.json")
        text = pipelines.call(os.path.join(self.bench.args.bin, "omnibal-compile"), self.bench.model.onnx, *self.flags, *self.tables,
                              "--lengths", self.bench.table, "--tokens-per-step", self.bench.args.tokens_per_step, "--degrees", degrees,
                              "--memory-limit-bytes", self.limit, "--emit-length-groups", candidates)
        print(text, file=sys.stderr)
        return candidates

    def make(self, name, most, candidates):
        """The simulator's seconds."""
        batches = self.path(f"{name}-batches")
        pipelines.call(os.path.join(self.bench.args.bin, "omnibal-batch"), self.bench.table, "--length-groups", candidates,
                       "--max-groups", most, "--seed", 1, "-o", batches)
        text = pipelines.call(os.path.join(self.bench.args.bin, "omnibal-compile"), self.bench.model.onnx, *self.flags, *self.tables,
                              "--memory-limit-bytes", self.limit, "--batches", batches, "-o", self.path(name))
        print(text, file=sys.stderr)
        return float(re.search(r"predicted epoch: ([\d.]+) ms", text).group(1)) / 1e3

    def estimate(self, name):
        """The balancer's, which knows five numbers a mode, and its groups."""
        groups = read(os.path.join(self.path(f"{name}-batches"), "groups.json"))
        return groups["epoch_ns"] / 1e9, groups

    def steps(self, name):
        return read(os.path.join(self.path(f"{name}-batches"), "batches.json"))["steps"]

    def run(self, program, *flags):
        return self.tools.train(self.bench.model, self.path(program), self.bench.data, self.path("run.jsonl"), *flags, ranks=self.ranks)

    def epochs(self):
        """By program, the least time of every step."""
        logs = {"groups": [], self.rival: []}
        for number in range(self.bench.args.rounds):
            for name in logs:
                # The first steps of a run are slower: they run again at the end, as the next epoch's.
                steps = self.steps(name)
                log = self.run(name, "--batches", self.path(f"{name}-batches"), "--steps", steps)
                logs[name].append([line["pipeline_ms"] for line in log[:steps]])
                print(f"P = {self.stages}, round {number + 1}, {name}: {sum(logs[name][-1]) / 1e3:.2f} s", file=sys.stderr)
        return {name: ([min(times) for times in zip(*rounds)], [statistics.median(times) for times in zip(*rounds)])
                for name, rounds in logs.items()}

    def report(self):
        times = self.epochs()
        (ours, groups), (rival, other) = self.estimate("groups"), self.estimate(self.rival)
        print(f"P = {self.stages}, Q = {self.bench.args.replicas}, {self.limit / 1e6:.0f} MB a rank: {self.described(groups)}; the rival: {self.described(other)}")
        for name, estimated in (("groups", ours), (self.rival, rival)):
            least, middle = (sum(values) / 1e3 for values in times[name])
            print(f"  {name:6s} measured {least:.2f} s (median of rounds {middle:.2f}), predicted {self.simulated[name]:.2f} s "
                  f"({self.simulated[name] / least - 1:+.1%}), the balancer's estimate {estimated:.2f} s ({estimated / least - 1:+.1%})")
        gain = [sum(times[self.rival][k]) / sum(times["groups"][k]) for k in (0, 1)]
        predicted = self.simulated[self.rival] / self.simulated["groups"]
        print(f"  gain measured {gain[0]:.3f} (median of rounds {gain[1]:.3f}), predicted {predicted:.3f}, estimated {rival / ours:.3f}; "
              f"share of the predicted gain {(gain[0] - 1) / (predicted - 1):.2f}")
        self.switches(groups)

    @staticmethod
    def described(groups):
        return ", ".join(f"{g['name']} ({g['steps']} steps of {g['microbatches']}, {sum(r != 'keep' for r in g['remat'])} layers recomputed)"
                         for g in groups["groups"])

    def groups_of(self, batches):
        """By step: mode and its groups of sample numbers."""
        folder = self.path(batches)
        samples, ends, rows = (np.load(os.path.join(folder, f"{name}.npy")) for name in ("samples", "groups", "rows"))
        steps = {}
        for row, (mode, step) in enumerate(rows.tolist()):
            steps.setdefault((step, mode), []).append(samples[ends[row]:ends[row + 1]].tolist())
        return [(mode, groups) for (step, mode), groups in sorted(steps.items())]

    def switches(self, groups):
        """The same steps, modes in turn and one mode after the other."""
        if len(groups["groups"]) < 2 or self.bench.args.replicas > 1:
            return
        steps = self.groups_of("groups-batches")
        counts = {m: g["microbatches"] for m, g in enumerate(groups["groups"])}
        full = {m: [s for s in steps if s[0] == m and len(s[1]) == counts[m]] for m in counts}
        modes = sorted(full, key=lambda m: -len(full[m]))[:2]
        each = min(4, *(len(full[m]) for m in modes))
        if each == 0:
            return
        first, second = (full[m][:each] for m in modes)
        start = [first[0], second[0]] * WARM_UP
        orders = {"in turn": [s for pair in zip(first, second) for s in pair] * 3,
                  "one after the other": [s for s in first for _ in range(3)] + [s for s in second for _ in range(3)]}
        sums = {}
        for name, order in orders.items():
            path = self.path("switch.jsonl")
            with open(path, "w") as file:
                for mode, rows in start + order:
                    file.write(json.dumps({"mode": mode, "groups": [[f"sample-{i:05d}" for i in row] for row in rows]}) + "\n")
            rounds = []
            for _ in range(self.bench.args.rounds):
                log = self.run("groups", "--steps-file", path, "--steps", len(start) + len(order))[len(start):]
                rounds.append([line["pipeline_ms"] for line in log])
            least = [min(values) for values in zip(*rounds)]
            of_step = {}
            for (mode, rows), value in zip(order, least):
                key = (mode, rows[0][0])
                of_step[key] = min(value, of_step.get(key, value))
            sums[name] = sum(of_step.values())
        print(f"  modes in turn against one after the other: {sums['in turn'] / sums['one after the other'] - 1:+.2%} of a step")


class Bench:
    def __init__(self, args):
        self.args, self.tools = args, pipelines.Tools(args.bin, args.under)
        self.model = pipelines.Model(os.path.join(args.work, "model"), pipelines.internvl(*CONFIG))

    def run(self):
        os.makedirs(self.args.work, exist_ok=True)
        pipelines.export_all([self.model])
        self.lengths = lengths_of(self.args.samples)
        self.data, self.table = self.model.write_samples(self.lengths)
        for stages in map(int, self.args.stages.split(",")):
            case = Case(self, stages)
            case.calibrate()
            case.choose()
            case.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True, help="folder for model, data, tables and programs; model and tables stay there")
    parser.add_argument("--stages", default="1,2")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--degrees", default="1", help="how many replicas may share a micro-batch; more than 1: against 1 alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--tokens-per-step", type=int, default=8192)
    parser.add_argument("--memory", type=float, default=0.3, help="share of what the longest sample keeps beside the least")
    parser.add_argument("--under", default="", help='a command before mpirun, as "chrt -f 10", for priority over other work')
    Bench(parser.parse_args()).run()


if __name__ == "__main__":
    main()
