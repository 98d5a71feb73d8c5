#!/usr/bin/env python3
"""What plans of single steps gain in real runs: step_runs.py --bin BUILD/bin --work DIR [--rounds 3] [--under "chrt -f 10"]

Two ranks of this machine, one pinned thread each, a vision tower of about half of the model's work, eight micro-batches a
step. One program a schedule, all from one calibration and for one table of lengths: 1f1b, zb-h1, interleaved:2, auto (the
best lists that serve every step) and per-step. Two sets of steps: `random` cuts samples in random order at the caps,
`balanced` is omnibal-batch's. With --memory SHARE every rank has what 1f1b keeps without recomputation, of its activations this
share, and all schedules recompute what they need to. Programs run in turn, every step's time is the least of the rounds, and the table has the sum
of these times: measured, as predicted, and what a rival takes against per-step. The first two steps are left out. After
each set the machine is calibrated once more, which shows how much of a wrong prediction is the machine's: by how much the same
functions take longer than when the plans' times were measured.
"""
import argparse
import json
import os
import statistics
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import pipelines  # noqa: E402

TILES, TOKENS, MICRO_BATCHES, RANKS = 12, 1024, 8, 2
CONFIG = (128, 6, 192, 6, 8192)  # vision width, layers, text width, layers, vocabulary
RIVALS = ("1f1b", "zb-h1", "interleaved:2", "auto")
WARM_UP = 2


def lengths_of(samples, generator):
    """Half of the samples are text, half have pictures with text around them; both have long tails."""
    lengths = []
    for _ in range(samples):
        text = int(np.clip(generator.lognormal(4.6, 0.8), 16, TOKENS // 2))
        tiles = int(np.clip(generator.geometric(0.28), 1, TILES)) if generator.random() < 0.5 else 0
        tiles = min(tiles, (TOKENS - text) // pipelines.TOKENS_PER_TILE)
        lengths.append((tiles, text + pipelines.TOKENS_PER_TILE * tiles))
    return lengths


def cut_at_caps(lengths, generator):
    """Micro-batches of samples in random order, each as full as the next sample allows."""
    groups, tiles, tokens = [[]], 0, 0
    for i in generator.permutation(len(lengths)).tolist():
        if groups[-1] and (tiles + lengths[i][0] > TILES or tokens + lengths[i][1] > TOKENS):
            groups.append([])
            tiles = tokens = 0
        groups[-1].append(i)
        tiles, tokens = tiles + lengths[i][0], tokens + lengths[i][1]
    return groups


class Bench:
    def __init__(self, args):
        self.args, self.tools = args, pipelines.Tools(args.bin, args.under)
        self.model = pipelines.Model(os.path.join(args.work, "model"), pipelines.internvl(*CONFIG))
        self.flags = ["--tiles", TILES, "--tokens", TOKENS, "--stages", RANKS, "--microbatches", MICRO_BATCHES, "--cpu", "native",
                      "--remat", "none"]

    def path(self, name):
        return os.path.join(self.args.work, name)

    def prepare(self):
        os.makedirs(self.args.work, exist_ok=True)
        pipelines.export_all([self.model])
        generator = np.random.default_rng(1)
        lengths = lengths_of(self.args.samples, generator)
        self.data, table = self.model.write_samples(lengths)
        pipelines.call(os.path.join(self.args.bin, "omnibal-batch"), table, "--tiles", TILES, "--tokens", TOKENS, "--ranks", 1,
                       "--seed", 1, "-o", self.path("batches"))
        samples, ends = (np.load(os.path.join(self.path("batches"), f"{name}.npy")) for name in ("samples", "groups"))
        balanced = [samples[a:b].tolist() for a, b in zip(ends, ends[1:])]
        self.sets = {"random": cut_at_caps(lengths, generator), "balanced": balanced}
        self.steps = {name: pipelines.write_steps(self.path(f"{name}.jsonl"), groups, MICRO_BATCHES, self.args.steps + WARM_UP)
                      for name, groups in self.sets.items()}
        if self.args.memory < 1:
            self.limit_memory()
        # Every kind of action is measured, since plans choose among them.
        self.tools.compile(self.model, self.path("measured"), *self.flags, "--schedule", "per-step")
        self.calibration = self.tools.calibrate(self.path("measured"), self.path("table.json"), self.data, ranks=RANKS)
        print(f"calibrated: noise {self.calibration['noise']:.1%}", file=sys.stderr)
        self.schedules = [schedule for schedule in (*self.args.rivals.split(","), "per-step") if self.compile(schedule)]

    def compile(self, schedule):
        """Whether the schedule fits the memory."""
        try:
            self.tools.compile(self.model, self.path(schedule), *self.flags, "--schedule", schedule, "--calibration",
                               self.path("table.json"), "--batches", self.path("batches"))
        except SystemExit as error:
            if schedule == "per-step" or "infeasible" not in str(error):
                raise
            print(f"{schedule}: does not fit", file=sys.stderr)
            return False
        return True

    def limit_memory(self):
        self.tools.compile(self.model, self.path("whole"), *self.flags, "--schedule", "1f1b")
        with open(os.path.join(self.path("whole"), "stages.json")) as file:
            stages = json.load(file)
        beside = [stage["persistent_bytes"] for stage in stages]
        limit = max(int(kept + self.args.memory * (stage["arena_bytes"] - kept)) for kept, stage in zip(beside, stages))
        self.flags[self.flags.index("--remat") + 1] = "auto"
        self.flags += ["--memory-limit-bytes", limit]
        print(f"{limit / 1e6:.1f} MB a rank; 1f1b alone takes {max(s['arena_bytes'] for s in stages) / 1e6:.1f} MB", file=sys.stderr)

    def measure(self, name):
        """By schedule, the log lines of every round."""
        logs = {schedule: [] for schedule in self.schedules}
        for round_number in range(self.args.rounds):
            for schedule in self.schedules:
                log = self.tools.train(self.model, self.path(schedule), self.data, self.path("run.jsonl"), "--steps-file",
                                       self.steps[name], "--steps", self.args.steps + WARM_UP, ranks=RANKS)
                logs[schedule].append(log[WARM_UP:])
                print(f"{name}, round {round_number + 1}, {schedule}: "
                      f"{sum(line['pipeline_ms'] for line in log[WARM_UP:]):.0f} ms", file=sys.stderr)
        return logs

    def slowness(self):
        """What functions take now over what they took when they were measured for the plans, all their loads together."""
        now = self.tools.calibrate(self.path("measured"), self.path("later.json"), self.data, ranks=RANKS)
        before, after = ({entry["digest"]: sum(load[4] for load in entry["measured"]) for entry in table["functions"]}
                         for table in (self.calibration, now))
        return sum(after.values()) / sum(before[digest] for digest in after), now["noise"]

    def report(self, name, logs):
        least = {s: [min(line["pipeline_ms"] for line in lines) for lines in zip(*rounds)] for s, rounds in logs.items()}
        middle = {s: [statistics.median(line["pipeline_ms"] for line in lines) for lines in zip(*rounds)] for s, rounds in logs.items()}
        plans = logs["per-step"][0]
        predicted = [line["predicted_ms"] for line in plans]
        print(f"{name}: {len(predicted)} steps of {MICRO_BATCHES} micro-batches, {statistics.mean(least['per-step']):.0f} ms each")
        for schedule in self.schedules:
            print(f"  {schedule:14s} measured {sum(least[schedule]):9.0f} ms; against per-step {sum(least[schedule]) / sum(least['per-step']):.3f} "
                  f"(least of the rounds) {sum(middle[schedule]) / sum(middle['per-step']):.3f} (median)")
        print(f"  predicted: the program's own lists {sum(line['static_ms'] for line in plans) / sum(predicted):.3f}, "
              f"the bound {sum(line['bound_ms'] for line in plans) / sum(predicted):.3f} of the plans")
        slowness, noise = self.slowness()
        print(f"  functions take {slowness:.3f} of the time that plans count with (measured again, noise {noise:.1%})")
        for how, factor in (("predicted", 1), ("at that speed", slowness)):
            errors = sorted(abs(p * factor / m - 1) for p, m in zip(predicted, least["per-step"]))
            print(f"  {how} against measured: median {statistics.median(errors):.1%}, worst {errors[-1]:.1%}; "
                  f"sum {sum(predicted) * factor / sum(least['per-step']):.3f}")
        waits = [line["plan_wait_ms"] / line["pipeline_ms"] for line in plans]
        print(f"  waiting for plans: median {statistics.median(waits):.2%} of a step; a plan takes "
              f"{statistics.median(line['plan_ms'] for line in plans):.1f} ms; "
              f"{sum(line['plan'] == 'static' for line in plans)} steps ran the program's own lists")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True, help="folder for model, data and programs; the model stays there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--memory", type=float, default=1, help="share of 1f1b's activations; 1: no limit")
    parser.add_argument("--sets", default="random,balanced")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="fewer leave time for more rounds, which a machine of changing speed needs")
    parser.add_argument("--under", default="", help='a command before mpirun, as "chrt -f 10", for priority over other work')
    args = parser.parse_args()
    bench = Bench(args)
    bench.prepare()
    for name in args.sets.split(","):
        bench.report(name, bench.measure(name))


if __name__ == "__main__":
    main()
