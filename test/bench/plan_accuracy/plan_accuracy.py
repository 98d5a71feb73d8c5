#!/usr/bin/env python3
"""Predicted against measured steps of planned pipelines on this machine: plan_accuracy.py --bin BUILD/bin --work DIR [--quick]

One pinned thread a rank. For each model: programs that keep everything and that recompute everything are measured by
omnibal-run --calibrate with all ranks busy; omnibal-compile predicts by these tables; omnibal-run trains, and the median
pipeline_ms of its steps is compared with the prediction. Cases differ in cuts (equal layers, searched, bad ones on either
side), schedule, recomputation, frozen parts, replicas and the load of the micro-batches (full ones of one sample, and
those that omnibal-batch makes of samples of many sizes). The models are exported on first use (PyTorch).

Two ranks have a core each. With two replicas there are four ranks; on a machine of two cores the replicas of a stage share
one, in calibration as in training. They compute and wait at the same times, so each has half of the core whenever it wants
it: times are twice as long, which the calibration sees, and nothing else is different from four cores, as far as replicas
that share a core's caches allow.

Then the same cases once more by a roofline whose two rates are fitted to another model's calibration (roofline.py).
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
import roofline  # noqa: E402

TILES, TOKENS, MICRO_BATCHES = 2, 224, 4
MIXED_TILES, MIXED_TOKENS = 3, 384  # caps of the groups of samples of many sizes, and of what is measured
STAGES = 2
GOALS = 0.05, 0.10  # of the median and the worst error

CONFIGS = {  # vision width, layers, text width, layers, vocabulary
    "even": (192, 6, 256, 6, 2048),
    "vit": (256, 8, 128, 3, 2048),
    "llm": (128, 3, 384, 6, 8192),
}


FIXTURES = {"tiny-internvl": (24, 420), "tiny-llava": (24, 420)}  # of test/data, with caps for their samples


class Case:
    """`cut`: first layer of stage 1 as a share of the layers, or a --partition method; `mixed`: groups of omnibal-batch."""

    def __init__(self, cut, schedule="1f1b", remat="none", freeze="", micro_batches=MICRO_BATCHES, mixed=False, replicas=1):
        self.replicas = replicas
        self.cut, self.schedule, self.remat, self.freeze = cut, schedule, remat, freeze
        self.micro_batches, self.mixed = micro_batches, mixed
        self.split = schedule == "zb-h1"

    def name(self):
        cut = self.cut if isinstance(self.cut, str) else f"cut {self.cut:.0%}"
        return (f"{cut}, {self.schedule}, {self.remat}, {self.micro_batches} micro-batches" +
                (f", frozen {self.freeze}" if self.freeze else "") + (", mixed loads" if self.mixed else "") +
                (f", {self.replicas} replicas" if self.replicas > 1 else ""))


CASES = {
    "even": [Case("layers"), Case("search", "gpipe"), Case(0.25, remat="full"), Case("search", remat="full", micro_batches=8),
             Case("search", freeze="vision"), Case("search", mixed=True), Case("search", "interleaved:2"),
             Case("layers", replicas=2), Case("search", mixed=True, replicas=2)],
    "vit": [Case("layers"), Case("search", micro_batches=8), Case(0.75, "gpipe"), Case("search", mixed=True), Case("search", "zb-h1"),
            Case("search", replicas=2), Case(0.75, "gpipe", replicas=2)],
    "llm": [Case("layers", "gpipe"), Case("search"), Case(0.3, remat="full"), Case("search", "interleaved:2", micro_batches=8),
            Case("search", remat="selective-1"), Case("parameters", mixed=True),
            Case("layers", "gpipe", replicas=2), Case("search", remat="full", replicas=2)],
    "tiny-internvl": [Case("layers", mixed=True), Case("parameters", "gpipe", mixed=True)],
    "tiny-llava": [Case("search", mixed=True), Case("search", mixed=True, replicas=2)],
}


class Bench:
    def __init__(self, args):
        self.args, self.tools = args, pipelines.Tools(args.bin, args.under)
        self.models = {name: pipelines.Model(os.path.join(args.work, name), pipelines.internvl(*sizes))
                       for name, sizes in CONFIGS.items() if not args.models or name in args.models}
        self.models |= {name: pipelines.Fixture(os.path.join(args.work, name), name)
                        for name in FIXTURES if not args.models or name in args.models}
        self.results = []
        self.tables, self.programs = {}, []
        self.begin = time.monotonic()

    def prepare(self):
        os.makedirs(self.args.work, exist_ok=True)
        pipelines.export_all(self.models.values())
        random = np.random.default_rng(1)
        tiles = random.integers(0, 3, 160)
        mixed = np.stack([tiles, pipelines.TOKENS_PER_TILE * tiles + random.integers(60, 160, 160)], axis=1)
        for name, model in self.models.items():
            if name in FIXTURES:
                self.batch(name, model.source, FIXTURES[name])
                model.full = model.mixed = model.data
                continue
            model.full, _ = model.write_samples([(TILES, TOKENS)] * 16, "full")
            model.mixed, table = model.write_samples(mixed, "mixed")
            model.lengths, model.keys = mixed, None
            self.batch(name, table, (MIXED_TILES, MIXED_TOKENS))

    def batch(self, name, samples, caps):
        for replicas in {case.replicas for case in CASES[name] if case.mixed}:
            pipelines.call(os.path.join(self.args.bin, "omnibal-batch"), samples, "--tiles", caps[0], "--tokens", caps[1], "--ranks",
                           replicas, "--seed", 1, "-o", self.batches(name, replicas))

    def batches(self, name, replicas):
        return os.path.join(self.models[name].folder, f"batches-{replicas}")

    def caps(self, name, mixed):
        return FIXTURES.get(name, (MIXED_TILES, MIXED_TOKENS) if mixed else (TILES, TOKENS))

    def flags(self, case, tiles, tokens, micro_batches):
        return ["--tiles", tiles, "--tokens", tokens, "--stages", STAGES, "--microbatches", micro_batches, "--cpu", "native",
                "--data-parallel", case.replicas, *(["--freeze", case.freeze] if case.freeze else [])]

    def calibrated(self, name, case):
        """Tables with the functions of the case's frozen parts and remat option, made on first use."""
        found = []
        for remat in dict.fromkeys(("none", case.remat)):
            key = (name, case.freeze, case.split, remat, case.replicas)
            if key not in self.tables:
                model = self.models[name]
                stem = os.path.join(model.folder, f"calibrate-{len(self.tables)}")
                self.tools.compile(model, stem, *self.flags(case, *self.caps(name, True), 2), "--partition", "layers", "--remat",
                                   remat, *(["--schedule", "zb-h1"] if case.split else []))
                table = self.tools.calibrate(stem, stem + ".json", model.full, ranks=STAGES * case.replicas, stages=STAGES)
                heavy = [f for f in table["functions"] if max(point[4] for point in f["measured"]) > 1e6]
                print(f"  {name}: calibrated, {remat}{' ' + case.freeze if case.freeze else ''}{' split' if case.split else ''}, {case.replicas} replicas: "
                      f"noise {table['noise']:.1%}, worst fit of functions above 1 ms {max(f['error'] for f in heavy):.1%}, "
                      f"{self.elapsed()}", file=sys.stderr)
                self.tables[key] = stem + ".json"
            found += ["--calibration", self.tables[key]]
        return found

    def elapsed(self):
        return f"{time.monotonic() - self.begin:.0f} s"

    def run(self, name, case):
        model = self.models[name]
        program = os.path.join(model.folder, "program")
        loads = ["--batches", self.batches(name, case.replicas)] if case.mixed else []
        flags = [*self.flags(case, *self.caps(name, case.mixed), case.micro_batches), "--schedule", case.schedule, "--remat", case.remat, *loads]
        tables = self.calibrated(name, case)
        predicted, _ = self.tools.compile(model, program, *flags, *tables, *self.cut(model, case, flags))
        groups = self.typical_groups(name, [*flags, *tables], case) if case.mixed else [[i] for i in range(16)]
        steps = pipelines.write_steps(os.path.join(model.folder, "steps.jsonl"), groups, case.micro_batches * case.replicas,
                                      self.args.steps, model.keys if case.mixed else None)
        log = self.tools.train(model, program, model.mixed if case.mixed else model.full, os.path.join(model.folder, "run.jsonl"),
                               "--steps-file", steps, ranks=STAGES * case.replicas, stages=STAGES)
        measured, spread = pipelines.typical(log)
        self.results.append((predicted, measured))
        self.programs.append((name, case, flags, self.plan_of(program), measured))
        print(f"{name:13s} {case.name():55s} {predicted:9.1f} {measured:9.1f}  {predicted / measured - 1:+7.1%}   {spread:6.1%}", flush=True)

    def cut(self, model, case, flags):
        if isinstance(case.cut, str):
            return ["--partition", case.cut]
        layers, path = self.layers(model, flags), os.path.join(model.folder, "plan.json")
        with open(path, "w") as file:
            json.dump({"cuts": [0, max(1, min(layers - 1, round(case.cut * layers))), layers]}, file)
        return ["--plan", path]

    @staticmethod
    def plan_of(program):
        """Cuts of a program, by the layers of its chunks."""
        sizes = {}
        for stage in roofline.read(os.path.join(program, "stages.json")):
            for chunk in stage["modes"]["train"]["chunks"]:
                sizes[chunk["id"]] = len(chunk["layers"])
        cuts = [0]
        for chunk in sorted(sizes):
            cuts.append(cuts[-1] + sizes[chunk])
        return {"cuts": cuts}

    def layers(self, model, flags):
        problem = os.path.join(model.folder, "problem.json")
        self.tools.compile(model, None, *flags, "--partition", "layers", "--emit-problem", problem)
        with open(problem) as file:
            return len(json.load(file)["layers"])

    def typical_groups(self, name, flags, case):
        """The groups of the step that the prediction is for: the one of median cost (docs/planner.md)."""
        model, width = self.models[name], case.micro_batches * case.replicas
        path = os.path.join(model.folder, "cost.json")
        self.tools.compile(model, None, *flags, "--emit-batch-cost", path)
        with open(path) as file:
            cost = json.load(file)
        samples, offsets = (np.load(os.path.join(self.batches(name, case.replicas), file)) for file in ("samples.npy", "groups.npy"))
        tiles, tokens = model.lengths[:, 0], model.lengths[:, 1]
        each = cost["tile_ns"] * tiles + cost["token_ns"] * tokens + cost["square_ns"] * tokens * tokens
        groups = [samples[begin:end] for begin, end in zip(offsets, offsets[1:])]
        steps = [groups[k:k + width] for k in range(0, len(groups) - width + 1, width)]
        steps.sort(key=lambda step: sum(each[group].sum() for group in step))
        return steps[(len(steps) - 1) // 2]

    def rates(self, name, replicas):
        """Rates by the model's calibrated keep program of as many replicas, or None where there is none."""
        table = self.tables.get((name, "", False, "none", replicas))
        if not table:
            return None
        model, case = self.models[name], Case("layers", replicas=replicas)
        problem, path = (os.path.join(model.folder, file) for file in ("problem.json", "cluster.json"))

        def problem_of(cluster):
            flags = ["--calibration", table]
            if cluster:
                with open(path, "w") as file:
                    json.dump(dict(cluster, data_parallel={"size": replicas}), file)
                flags = ["--cluster", path]
            self.tools.compile(model, None, *self.flags(case, *self.caps(name, False), MICRO_BATCHES), "--partition", "layers", "--remat",
                               "none", *flags, "--emit-problem", problem)
            return roofline.read(problem)
        return roofline.Rates(problem_of, roofline.read(table))

    def by_roofline(self):
        """Errors of predictions by rates of other models."""
        errors = []
        for source in self.models:
            for replicas in (1, 2):
                rates = self.rates(source, replicas)
                cases = [entry for entry in self.programs if entry[0] != source and entry[1].replicas == replicas]
                if rates and cases:
                    found = [self.roofline_error(rates, *entry) for entry in cases]
                    errors += found
                    print(f"roofline with rates of {source}, {replicas} replicas ({rates}): {len(found)} cases of other models, errors "
                          f"{min(found):+.1%} to {max(found):+.1%}, median {statistics.median(map(abs, found)):.1%}", flush=True)
        if errors:
            print(f"roofline, all: median error {statistics.median(map(abs, errors)):.1%}, worst {max(map(abs, errors)):.1%}")

    def roofline_error(self, rates, name, case, flags, plan, measured):
        model = self.models[name]
        cluster, cuts = (os.path.join(model.folder, file) for file in ("cluster.json", "cuts.json"))
        for path, content in ((cluster, rates.cluster(STAGES, case.replicas)), (cuts, plan)):
            with open(path, "w") as file:
                json.dump(content, file)
        predicted, _ = self.tools.compile(model, None, *flags, "--cluster", cluster, "--plan", cuts)
        return predicted / measured - 1

    def report(self):
        errors = [abs(predicted / measured - 1) for predicted, measured in self.results]
        median, worst = statistics.median(errors), max(errors)
        goals = self.args.goals
        print(f"{len(errors)} cases: median error {median:.1%} (goal {goals[0]:.0%}), worst {worst:.1%} (goal {goals[1]:.0%}); "
              f"steps of {min(m for _, m in self.results):.0f} to {max(m for _, m in self.results):.0f} ms; {self.elapsed()}")
        self.by_roofline()
        return 0 if median <= goals[0] and worst <= goals[1] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True, help="folder for models, data and programs; models stay there")
    parser.add_argument("--models", nargs="*", help="of " + ", ".join(CASES))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two cases a model")
    parser.add_argument("--under", default="", help="command before mpirun, for a machine that others use too; one under which ranks\n"
                        "that share a core share its time, as `nice -n -20`")
    parser.add_argument("--goals", nargs=2, type=float, default=GOALS, metavar=("MEDIAN", "WORST"), help="errors; above them the exit code is 1")
    parser.add_argument("--replicas", nargs="+", type=int, default=[1], help="cases of so many replicas, 1 or 2")
    parser.add_argument("--only", help="cases whose name contains this")
    args = parser.parse_args()
    bench = Bench(args)
    bench.prepare()
    print(f"model         case {'':50s} predicted  measured    error   spread  (ms; spread: relative median deviation of the steps)")
    for name in bench.models:
        for case in CASES[name][:2 if args.quick else None]:
            if (not args.only or args.only in case.name()) and case.replicas in args.replicas:
                bench.run(name, case)
    sys.exit(bench.report() if bench.results else "plan_accuracy.py: no case is chosen")


if __name__ == "__main__":
    main()
