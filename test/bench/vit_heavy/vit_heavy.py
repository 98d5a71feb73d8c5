#!/usr/bin/env python3
"""What planned cuts gain on a ViT-heavy model: vit_heavy.py --bin BUILD/bin --work DIR [--rounds 2] [--steps 7]

Two ranks of this machine, one pinned thread each: the planner's cuts (from measured layer times) against equal layer
counts and equal parameters. Vision layers run on every patch, language layers on four times fewer tokens, so equal
numbers of layers are unequal work. Programs run in turn, `pipeline_ms` is the median over all steps of all rounds. The
bound says how far any plan could go: the equal cuts' predicted step over what no plan can undercut. Then 4, 8 and 16 ranks
are simulated with the same measured layer times and links, repeated layers making the model as deep as needed.
"""
import argparse
import json
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import pipelines  # noqa: E402

TILES, TOKENS, MICRO_BATCHES = 3, 320, 8
CONFIG = (256, 8, 128, 8, 16384)  # vision width, layers, text width, layers, vocabulary
METHODS = ("search", "layers", "parameters")
DEEPER = {4: 2, 8: 4, 16: 8}  # ranks -> how often each repeated layer comes in the simulation


def read(path):
    with open(path) as file:
        return json.load(file)


def deepen(problem, times, stages):
    """The problem with every repeated layer `times` times, for `stages` ranks. Edges: a chain from layer to layer as wide as
    the one that leaves the layer; others keep their ends."""
    layers, first, last = [], [], []
    for layer in problem["layers"]:
        repeated = re.search(r"layers\.\d+$", layer["name"]) is not None
        first.append(len(layers))
        layers += [dict(layer, name=f"{layer['name']}.{k}") for k in range(times if repeated else 1)]
        last.append(len(layers) - 1)
    edges = [dict(edge, **{"from": last[edge["from"]], "to": first[edge["to"]]}) for edge in problem["edges"]]
    for begin, end, number in zip(first, last, range(len(first))):
        out = max((e for e in problem["edges"] if e["from"] == number), key=lambda e: e["bytes"], default=None)
        edges += [dict(out, **{"from": k, "to": k + 1}) for k in range(begin, end) if out]
    cluster = dict(problem["cluster"], stages=stages)
    if isinstance(cluster.get("memory_bytes"), list):
        cluster["memory_bytes"] = max(cluster["memory_bytes"])
    return dict(problem, layers=layers, edges=edges, cluster=cluster, microbatches=4 * stages)


class Bench:
    def __init__(self, args):
        self.args, self.tools = args, pipelines.Tools(args.bin)
        self.model = pipelines.Model(os.path.join(args.work, "model"), pipelines.internvl(*CONFIG))
        self.flags = ["--tiles", TILES, "--tokens", TOKENS, "--stages", 2, "--microbatches", MICRO_BATCHES, "--cpu", "native",
                      "--remat", "none"]

    def path(self, name):
        return os.path.join(self.args.work, name)

    def prepare(self):
        os.makedirs(self.args.work, exist_ok=True)
        pipelines.export_all([self.model])
        self.data, _ = self.model.write_samples([(TILES, TOKENS)] * 16)
        self.steps = pipelines.write_steps(self.path("steps.jsonl"), [[i] for i in range(16)], MICRO_BATCHES, self.args.steps)
        self.tools.compile(self.model, self.path("layers"), *self.flags, "--partition", "layers")
        table = self.tools.calibrate(self.path("layers"), self.path("table.json"), self.data)
        print(f"calibrated: noise {table['noise']:.1%}", file=sys.stderr)
        self.predicted, self.cuts = {}, {}
        for method in METHODS:
            problem = ["--emit-problem", self.path("problem.json")] if method == "search" else []
            self.predicted[method], text = self.tools.compile(self.model, self.path(method), *self.flags, *problem, "--partition",
                                                              method, "--calibration", self.path("table.json"))
            self.cuts[method] = re.search(r"^\s+0 .*?(vision\..*)$", text, re.M).group(1).strip()
            bound = re.search(r"no plan of this schedule takes less than ([\d.]+) ms", text)
            self.bound = float(bound.group(1)) if bound else getattr(self, "bound", None)

    def measure(self):
        times = {method: [] for method in METHODS}
        for _ in range(self.args.rounds):
            for method in METHODS:
                log = self.tools.train(self.model, self.path(method), self.data, self.path("run.jsonl"), "--steps-file", self.steps)
                times[method] += [line["pipeline_ms"] for line in log[2:]]
        ours = statistics.median(times["search"])
        print(f"2 ranks of this machine, one pinned thread each; {MICRO_BATCHES} micro-batches of {TILES} tiles and {TOKENS} tokens, 1f1b")
        print("cuts         measured ms   against ours   predicted ms   against ours   first stage")
        for method in METHODS:
            middle = statistics.median(times[method])
            print(f"{method:10s} {middle:13.1f} {middle / ours:14.2f} {self.predicted[method]:14.1f} "
                  f"{self.predicted[method] / self.predicted['search']:14.2f}   {self.cuts[method]}")
        print(f"no cuts take less than {self.bound:.1f} ms by these times: the bound on what equal layers can lose is "
              f"{self.predicted['layers'] / self.bound:.2f}")
        return statistics.median(times["layers"]) / ours

    def simulate(self):
        print("simulated with these times: steps against ours (4 micro-batches a rank)")
        print("ranks  layers   equal layers   equal parameters   ViT first   gap of ours")
        for ranks, times in DEEPER.items():
            problem = deepen(read(self.path("problem.json")), times, ranks)
            with open(self.path("deep.json"), "w") as file:
                json.dump(problem, file)
            pipelines.call(os.path.join(self.args.bin, "omnibal-plan"), self.path("deep.json"), "-o", self.path("deep-plan.json"),
                           "--baselines")
            plan = read(self.path("deep-plan.json"))
            steps = plan["search"]["baselines"]
            ratios = [f"{steps[name] / plan['step_ns']:.2f}" if steps.get(name) else "no place" for name in
                      ("equal-layers", "equal-parameters", "vision-first")]
            print(f"{ranks:5d}  {len(problem['layers']):6d}   {ratios[0]:>12s}   {ratios[1]:>16s}   {ratios[2]:>9s}   {plan['gap']:11.2%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True, help="folder for model, data and programs; the model stays there")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--no-training", action="store_true", help="predictions and simulations only")
    args = parser.parse_args()
    bench = Bench(args)
    bench.prepare()
    ratio = None if args.no_training else bench.measure()
    bench.simulate()
    if ratio is not None:
        print(f"measured: equal layers take {ratio:.2f} of the planned step (goal 1.30)")


if __name__ == "__main__":
    main()
