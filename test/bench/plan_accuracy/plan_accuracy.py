#!/usr/bin/env python3
"""Predicted against measured steps of planned pipelines on this machine: plan_accuracy.py --bin BUILD/bin --work DIR [--quick]

Two ranks, one pinned thread each. For each model: programs that keep everything and that recompute everything are
measured by omnibal-run --calibrate with both ranks busy; omnibal-compile predicts by these tables; omnibal-run trains,
and the median pipeline_ms of its steps is compared with the prediction. Cases differ in cuts (equal layers, searched,
bad ones on either side), schedule, recomputation, frozen parts and the load of the micro-batches (full ones of one
sample, and those that omnibal-batch makes of samples of many sizes). The models are exported on first use (PyTorch).
"""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import pipelines  # noqa: E402

TILES, TOKENS, MICRO_BATCHES = 3, 320, 4
MIXED_TILES, MIXED_TOKENS = 4, 512  # caps of the groups of samples of many sizes
MEDIAN_GOAL, WORST_GOAL = 0.05, 0.10

CONFIGS = {  # vision width, layers, text width, layers, vocabulary
    "even": (192, 6, 256, 6, 2048),
    "vit": (256, 8, 128, 3, 2048),
    "llm": (128, 3, 384, 6, 8192),
}


class Case:
    """`flags` for omnibal-compile; `cut`: first layer of stage 1 as a share of the layers, or a --partition method."""

    def __init__(self, cut, schedule="1f1b", remat="none", freeze="", micro_batches=MICRO_BATCHES, mixed=False):
        self.cut, self.schedule, self.remat, self.freeze = cut, schedule, remat, freeze
        self.micro_batches, self.mixed = micro_batches, mixed

    def name(self):
        cut = self.cut if isinstance(self.cut, str) else f"cut {self.cut:.0%}"
        return (f"{cut}, {self.schedule}, {self.remat}, {self.micro_batches} micro-batches" +
                (f", frozen {self.freeze}" if self.freeze else "") + (", mixed loads" if self.mixed else ""))


def cases(model, quick):
    """Of a model; the first ones are the most telling."""
    list_of = [
        Case("layers"), Case("search", "gpipe"), Case(0.25, "1f1b", "full"), Case("search", "1f1b", "full", micro_batches=8),
        Case(0.75, "gpipe"), Case("search", "1f1b", mixed=True),
        Case("search", "interleaved:2"), Case("layers", "zb-h1"), Case("search", "1f1b", freeze="vision"),
    ]
    return list_of[:2] if quick else list_of


class Bench:
    def __init__(self, args):
        self.args, self.tools = args, pipelines.Tools(args.bin)
        self.models = {name: pipelines.Model(os.path.join(args.work, name), pipelines.internvl(*sizes))
                       for name, sizes in CONFIGS.items() if not args.models or name in args.models}
        self.results = []
        self.tables = {}
        self.begin = time.monotonic()

    def prepare(self):
        os.makedirs(self.args.work, exist_ok=True)
        pipelines.export_all(self.models.values())
        random = np.random.default_rng(1)
        tiles = random.integers(0, 3, 160)
        mixed = [(int(t), int(pipelines.TOKENS_PER_TILE * t + n)) for t, n in zip(tiles, random.integers(20, 160, 160))]
        for model in self.models.values():
            model.full, _ = model.write_samples([(TILES, TOKENS)] * 16, "full")
            model.mixed, model.mixed_table = model.write_samples(mixed, "mixed")
            model.batches = os.path.join(model.folder, "batches")
            pipelines.call(os.path.join(self.args.bin, "omnibal-batch"), model.mixed_table, "--tiles", MIXED_TILES, "--tokens",
                           MIXED_TOKENS, "--ranks", 1, "--seed", 1, "-o", model.batches)

    def flags(self, case):
        caps = (MIXED_TILES, MIXED_TOKENS) if case.mixed else (TILES, TOKENS)
        return ["--tiles", caps[0], "--tokens", caps[1], "--stages", 2, "--microbatches", case.micro_batches, "--cpu", "native",
                *(["--freeze", case.freeze] if case.freeze else [])]

    def calibrated(self, name, case):
        """Tables of the model with these frozen parts; every layer function is measured once."""
        key = (name, case.freeze, case.mixed, case.schedule == "zb-h1")
        if key not in self.tables:
            model, found = self.models[name], []
            data = model.mixed if case.mixed else model.full
            for remat in ("none", "full"):
                if remat == "full" and (case.freeze or case.mixed or case.schedule == "zb-h1"):
                    continue
                stem = os.path.join(model.folder, "-".join(["calibrate", remat, case.freeze, str(case.mixed), case.schedule]).replace(":", ""))
                self.tools.compile(model, stem, *self.flags(case), "--partition", "layers", "--remat", remat, "--schedule",
                                   "zb-h1" if case.schedule == "zb-h1" else "1f1b")
                table = self.tools.calibrate(stem, stem + ".json", data)
                print(f"  {name}: calibrated {remat} {case.freeze} {'mixed' if case.mixed else ''}: noise {table['noise']:.1%}, "
                      f"worst fit {max(f['error'] for f in table['functions']):.1%}, {self.elapsed()}", file=sys.stderr)
                found += ["--calibration", stem + ".json"]
            self.tables[key] = found
        return self.tables[key]

    def elapsed(self):
        return f"{time.monotonic() - self.begin:.0f} s"

    def run(self, name, case):
        model, tables = self.models[name], self.calibrated(name, case)
        program = os.path.join(model.folder, "program")
        flags = [*self.flags(case), *tables, "--schedule", case.schedule, "--remat", case.remat]
        if isinstance(case.cut, str):
            flags += ["--partition", case.cut]
        else:
            layers = self.layers(model, case)
            plan = os.path.join(model.folder, "plan.json")
            with open(plan, "w") as file:
                json.dump({"cuts": [0, max(1, min(layers - 1, round(case.cut * layers))), layers]}, file)
            flags += ["--plan", plan]
        if case.mixed:
            flags += ["--batches", model.batches]
        predicted, _ = self.tools.compile(model, program, *flags)
        if case.mixed:
            data, steps = model.mixed, ["--batches", model.batches]
        else:
            data = model.full
            steps = ["--steps-file", pipelines.write_steps(os.path.join(model.folder, "steps.jsonl"), [[i] for i in range(16)],
                                                           case.micro_batches, self.args.steps)]
        log = self.tools.train(model, program, data, os.path.join(model.folder, "run.jsonl"), *steps, "--steps", self.args.steps)
        measured, spread = pipelines.typical(log)
        self.results.append((name, case.name(), predicted, measured, spread))
        print(f"{name:5s} {case.name():55s} {predicted:9.1f} {measured:9.1f}  {predicted / measured - 1:+7.1%}   {spread:6.1%}", flush=True)

    def layers(self, model, case):
        problem = os.path.join(model.folder, "problem.json")
        self.tools.compile(model, None, *self.flags(case), "--partition", "layers", "--emit-problem", problem)
        with open(problem) as file:
            return len(json.load(file)["layers"])

    def report(self):
        errors = [abs(predicted / measured - 1) for _, _, predicted, measured, _ in self.results]
        median, worst = statistics.median(errors), max(errors)
        print(f"{len(errors)} cases: median error {median:.1%} (goal {MEDIAN_GOAL:.0%}), worst {worst:.1%} (goal {WORST_GOAL:.0%}); "
              f"steps of {min(m for _, _, _, m, _ in self.results):.0f} to {max(m for _, _, _, m, _ in self.results):.0f} ms; {self.elapsed()}")
        return 0 if median <= MEDIAN_GOAL and worst <= WORST_GOAL else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True, help="folder for models, data and programs; models stay there")
    parser.add_argument("--models", nargs="*", help="of " + ", ".join(CONFIGS))
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="two cases a model")
    parser.add_argument("--only", help="cases whose name contains this")
    args = parser.parse_args()
    bench = Bench(args)
    bench.prepare()
    print(f"model case {'':51s} predicted  measured    error   spread  (ms; spread: relative median deviation of the steps)")
    for name in bench.models:
        for case in cases(name, args.quick):
            if not args.only or args.only in case.name():
                bench.run(name, case)
    sys.exit(bench.report())


if __name__ == "__main__":
    main()
