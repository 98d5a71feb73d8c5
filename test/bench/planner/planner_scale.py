#!/usr/bin/env python3
"""Time, gap and memory of omnibal-plan on large problems of every kind, and its step against the baselines.

    planner_scale.py --bin BUILD/bin [--sizes 60x8x16,100x16x64] [--kinds tight,frozen] [--time-limit 10]

Problems are made here: layers of the proportions of real vision-language models (a vision tower, projector, token
embedding, language blocks, a head), three ways to rematerialize, edges along the chain.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

SIZES = "60x8x16,100x4x32,100x16x64,120x16x64,120x64x128"
FACTOR_SIZES = "20x5x12,80x10x40"

# Shares of vision layers, forward times of a vision and a language layer.
MODELS = {"vision": (0.55, 8e6, 6e6), "language": (0.25, 1.5e6, 18e6), "text": (0.0, 0.0, 15e6)}
# memory: 0 = hardly anything fits kept, 1 = nearly everything; noise: how much equal layers differ.
KINDS = {
    "loose": dict(model="vision", memory=2),
    "tight": dict(model="vision", memory=0.3),
    "profiled": dict(model="vision", memory=0.3, noise=0.05),
    "text": dict(model="text", memory=2),
    "text-tight": dict(model="text", memory=0.25),
    "big-head": dict(model="language", memory=0.3, head=3),
    "frozen": dict(model="language", memory=0.3, frozen=True),
    "frozen-skip-dp": dict(model="vision", memory=0.3, frozen=True, skip=True, replicas=4),
    "skip-profiled": dict(model="language", memory=0.3, skip=True, noise=0.05),
    "slow-mixed": dict(model="vision", memory=0.35, mixed=True, replicas=8, link=(30000, 3_000_000_000)),
    "gpipe": dict(model="vision", memory=0.3, schedule="gpipe"),
}


class Maker:
    def __init__(self, count, stages, microbatches, seed, model, memory, noise=0, skip=False, frozen=False, replicas=1,
                 mixed=False, link=(8000, 200_000_000_000), schedule="1f1b", head=1, factors=False):
        self.random, self.noise, self.layers, edges = random.Random(seed), noise, [], []
        share, vision_ns, language_ns = MODELS[model]
        vision = int(count * share)
        for i in range(vision):
            self.layer(f"vision.blocks.{i}", "vision", vision_ns, 2e9, 700e6, 14e6, 95e6, frozen)
        if vision:
            self.layer("projector", "projector", vision_ns / 40, 2e8, 9e6, 6e6, 5e6)
        embedding = len(self.layers)
        self.layer("language.embedding", "language", 1e4, 1e9, 3e4, 3e4, 8e6)
        self.layers[-1].update(input_grad_ns=0, remat=self.layers[-1]["remat"][:1])
        for i in range(count - len(self.layers) - 1):
            self.layer(f"language.blocks.{i}", "language", language_ns, 3e9, 4e8 if model == "vision" else 1.1e9, 16e6, 117e6)
        self.layer("language.head", "head", language_ns * 1.3 * head, 4e9, 1.6e9, 16e6, 8e8)
        edges += [(i, i + 1, 14_000_000, 0 if frozen else 14_000_000) for i in range(vision)]
        if vision:
            edges.append((vision, embedding + 1, 6_300_000, 6_300_000))
        edges += [(i, i + 1, 16_777_216, 16_777_216) for i in range(embedding, len(self.layers) - 1)]
        if skip:
            edges += [(vision // 4 * (k + 1) - 1, embedding + 1 + k, 6_300_000, 0 if frozen else 6_300_000) for k in range(3)]
        limit = self.limit(stages, microbatches, memory)
        self.problem = {
            "schema": "omnibal.plan-problem/1", "layers": self.layers,
            "edges": [dict(zip(("from", "to", "bytes", "grad_bytes"), edge)) for edge in sorted(edges)],
            "cluster": {"stages": stages,
                        "memory_bytes": [int(limit * (0.85 if mixed and r % 2 else 1)) for r in range(stages)],
                        "link": {"latency_ns": link[0], "bytes_per_s": link[1]},
                        "data_parallel": {"size": replicas, "latency_ns": 15000, "bytes_per_s": 12_500_000_000}},
            "microbatches": self.loads(microbatches) if factors else microbatches, "schedule": schedule}

    def number(self, value):
        return int(value * (1 + self.noise * self.random.uniform(-1, 1)))

    def layer(self, name, kind, forward, parameters, keep, output, workspace, frozen=False):
        remat = [dict(name="keep", saved_bytes=0 if frozen else int(keep), recompute_ns=0, workspace_bytes=int(workspace))]
        if not frozen:
            remat += [dict(name="selective", saved_bytes=int(keep / 2), recompute_ns=self.number(forward * 0.12),
                           workspace_bytes=int(workspace * 2)),
                      dict(name="full", saved_bytes=int(output), recompute_ns=self.number(forward),
                           workspace_bytes=int(workspace * 4))]
        self.layers.append(dict(
            name=name, kind=kind, forward_ns=self.number(forward), input_grad_ns=0 if frozen else self.number(forward * 1.08),
            weight_grad_ns=0 if frozen else self.number(forward * 0.92),
            param_bytes=int(parameters / 8 if frozen else parameters), grad_bytes=0 if frozen else int(parameters / 8),
            remat=remat))

    def limit(self, stages, microbatches, memory):
        held = min(stages, microbatches) / stages
        keep, full = (sum(layer["remat"][i]["saved_bytes"] for layer in self.layers) * held for i in (0, -1))
        return sum(layer["param_bytes"] for layer in self.layers) / stages * 1.6 + 4e9 + 2 * full + (keep - full) * memory

    def loads(self, microbatches):
        return [{"vision": self.random.choice([0, 0.25, 0.375, 0.5, 0.625, 0.8125, 1]),
                 "language": self.random.choice([0.5, 0.625, 0.75, 1])} for _ in range(microbatches)]


def measure(args, folder, problem):
    path, plan = os.path.join(folder, "problem.json"), os.path.join(folder, "plan.json")
    with open(path, "w") as file:
        json.dump(problem, file)
    began = time.time()
    command = [os.path.join(args.bin, "omnibal-plan"), path, "-o", plan, "--time-limit", str(args.time_limit)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"omnibal-plan failed on {path}")
    seconds, memory = time.time() - began, usage.ru_maxrss / 1024
    subprocess.run([os.path.join(args.bin, "omnibal-plan"), "--check", path, plan], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(command + ["--baselines"], check=True, stdout=subprocess.DEVNULL)
    with open(plan) as file:
        return json.load(file), seconds, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--sizes", default=SIZES, help="layers x stages x micro-batches")
    parser.add_argument("--factor-sizes", default=FACTOR_SIZES, help="the same, every micro-batch with a load of its own")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--schedule", help="in place of each kind's own: interleaved:V, zb-h1 or auto")
    parser.add_argument("--time-limit", type=float, default=10)
    args = parser.parse_args()
    names = None
    with tempfile.TemporaryDirectory() as folder:
        for sizes, factors in ((args.sizes, False), (args.factor_sizes, True)):
            for size in filter(None, sizes.split(",")):
                for kind in args.kinds.split(","):
                    count, stages, microbatches = map(int, size.split("x"))
                    maker = Maker(count, stages, microbatches, 1, factors=factors, **KINDS[kind])
                    maker.problem["schedule"] = args.schedule or maker.problem["schedule"]
                    plan, seconds, memory = measure(args, folder, maker.problem)
                    others = plan["search"]["baselines"]
                    if names is None:
                        names = list(others)
                        print(f"{'problem':38s} {'seconds':>8s} {'MB':>5s} {'gap %':>7s}  step of each baseline / ours")
                        print(" " * 62 + " ".join(f"{name:>16s}" for name in names))
                    ratios = [f"{others[n] / plan['step_ns']:16.3f}" if others[n] else f"{'-':>16s}" for n in names]
                    title = f"{size} {kind}" + (" with factors" if factors else "")
                    print(f"{title:38s} {seconds:8.2f} {memory:5.0f} {100 * plan['gap']:7.3f}  {' '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()
