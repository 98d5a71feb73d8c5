#!/usr/bin/env python3
"""InternVL-Chat 6B + 20B on 4 stages as OmniBal's paper trains it: our plan against published and common ones.

    published_case.py --bin BUILD/bin --model internvl-26b.onnx [--pictures FOLDER]

The problem comes from the graph (omnibal-compile --dry-run --target cuda). Checks the bytes per cut that the paper
reports, then prints a table for each memory limit; --pictures writes timelines as SVG, drawn by the report in a browser.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "support", "python"))

# A stage is a tensor-parallel group of four A100-80G taken for one device: four times peak, memory and memory speed.
# Its traffic inside the group is not modeled, nor is what a kernel reaches of the peak. Four 200 Gbit/s adapters a stage.
GROUP = 4
CLUSTER = {"stages": 4, "memory_bytes": GROUP * 85899345920, "link": {"latency_ns": 10000, "bytes_per_s": GROUP * 25_000_000_000},
           "data_parallel": {"size": 8, "latency_ns": 20000, "bytes_per_s": GROUP * 25_000_000_000},
           "device": {"flops": {"float32": GROUP * 19_500_000_000_000, "bfloat16": GROUP * 312_000_000_000_000},
                      "memory_bytes": GROUP * 85899345920, "bytes_per_s": GROUP * 2_039_000_000_000}}
# Global batch 128, one packed sample (9 tiles, 4096 tokens) a micro-batch, 8 replicas.
MICROBATCHES = 128 // CLUSTER["data_parallel"]["size"]

# The partition strings count 101 modules: two before the ViT's 45 layers, projector, embedding, 48 layers, four after them.
PUBLISHED = {"published 0,23,47,72,101": (23, 47, 72), "published 0,24,48,73,101": (24, 48, 73)}
VISION, LANGUAGE, FRONT = 45, 48, 2

# MiB in one direction: inside the ViT, inside the language model, behind the projector.
BYTES = {"vision": 9 * 1025 * 3200 * 2, "language": 4096 * 6144 * 2, "projector": 9 * 256 * 6144 * 2}
# Of the group's memory: all, and what makes recomputation necessary.
LIMITS = (1, 0.55, 0.4)


def layer_of(module, layers):
    """The module's number among our layers: one layer before the ViT's, one after the language model's."""
    return min(module - FRONT + 1, layers)


def run(tool, *arguments):
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{tool} {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def problem_of(arguments, folder):
    cluster, path = os.path.join(folder, "cluster.json"), os.path.join(folder, "problem.json")
    with open(cluster, "w", encoding="utf-8") as file:
        json.dump(CLUSTER, file)
    run(os.path.join(arguments.bin, "omnibal-compile"), arguments.model, "--tiles", 9, "--tokens", 4096, "--cluster", cluster,
        "--data-parallel", CLUSTER["data_parallel"]["size"], "--stages", 4, "--microbatches", MICROBATCHES, "--target", "cuda",
        "--dry-run", "--emit-problem", path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def crossing(problem, cut):
    return sum(e["bytes"] for e in problem["edges"] if e["from"] < cut <= e["to"])


def check_bytes(problem):
    """A cut's bytes are those of the activation that the paper's figures are about."""
    kinds = [layer["kind"] for layer in problem["layers"]]
    if (kinds.count("vision"), kinds.count("projector"), kinds.count("language")) != (VISION + 1, 1, LANGUAGE + 1):
        sys.exit(f"these are not the published model's layers: {kinds}")
    found = {"vision": crossing(problem, 10), "projector": crossing(problem, kinds.index("projector") + 1),
             "language": crossing(problem, len(kinds) - 10)}
    for kind, expected in BYTES.items():
        if found[kind] != expected:
            sys.exit(f"a cut behind a {kind} layer carries {found[kind]} bytes, published are {expected}")
        print(f"a cut behind a {kind} layer carries {found[kind] / 2 ** 20:.2f} MiB, as published")


def described(problem, cuts):
    names = {"vision": "ViT", "projector": "projector", "language": "LLM", "head": "head"}
    parts = []
    for begin, end in zip(cuts, cuts[1:]):
        kinds = [layer["kind"] for layer in problem["layers"][begin:end] if not layer["name"].endswith("embedding")]
        counts = [(kinds.count(kind), name) for kind, name in names.items() if kind in kinds]
        parts.append(" + ".join(name if name in ("projector", "head") else f"{count} {name}" for count, name in counts))
    return " / ".join(parts)


class Case:
    """The problem under one memory limit."""

    def __init__(self, arguments, folder, problem, share):
        self.tool, self.folder, self.problem = os.path.join(arguments.bin, "omnibal-plan"), folder, problem
        self.limit = int(problem["cluster"]["memory_bytes"][0] * share)
        self.path = os.path.join(folder, "case.json")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(problem | {"cluster": problem["cluster"] | {"memory_bytes": [self.limit]}}, file)

    def given(self, cuts):
        """A plan with these cuts and the least recomputation that fits; none if nothing does."""
        path = os.path.join(self.folder, "given.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"cuts": cuts}, file)
        done = subprocess.run([self.tool, "--check", self.path, path, "--export", "json"], capture_output=True, text=True)
        return json.loads(done.stdout)["plan"] if done.returncode == 0 else None

    def rows(self):
        ours = json.loads(run(self.tool, self.path, "--json", "--baselines"))
        layers = len(self.problem["layers"])
        yield "our plan", ours["step_ns"], ours
        for name, modules in PUBLISHED.items():
            plan = self.given([0, *(layer_of(m, layers) for m in modules), layers])
            yield name, plan and plan["step_ns"], plan
        baselines = ours["search"]["baselines"]
        for name in ("equal-layers", "equal-parameters", "vision-first", "bmp", "adapipe", "megatron"):
            yield name, baselines[name], None
        self.bound = ours["lower_bound_ns"]

    def print(self):
        print(f"\nmemory of a stage {self.limit / 2 ** 30:.0f} GiB\n")
        print("| | step ms | of ours | fullest stage GiB | recomputed layers | sent over cuts MiB | stages |\n|---|---|---|---|---|---|---|")
        ours = None
        for name, step, plan in self.rows():
            ours = ours or step
            cells = ["no plan fits", "", "", "", "", ""] if step is None else [f"{step / 1e6:.1f}", f"{step / ours:.3f}", "", "", "", ""]
            if plan:
                cuts = plan["cuts"]
                cells[2:] = [f"{max(r['peak_bytes'] for r in plan['ranks']) / 2 ** 30:.0f}",
                             str(sum(r != "keep" for r in plan["remat"])),
                             f"{sum(crossing(self.problem, c) for c in cuts[1:-1]) / 2 ** 20:.1f}", described(self.problem, cuts)]
            print(f"| {name} | " + " | ".join(cells) + " |")
        print(f"\nno plan takes less than {self.bound / 1e6:.1f} ms")

    def picture(self, plan, title, path):
        """The timeline of the report's page, as a browser draws it."""
        from browser import Browser
        with open(os.path.join(self.folder, "given.json"), "w", encoding="utf-8") as file:
            json.dump({"cuts": plan["cuts"], "remat": plan["remat"]}, file)
        page = os.path.join(self.folder, "page.html")
        run(self.tool, "--check", self.path, os.path.join(self.folder, "given.json"), "--report", page)
        with open(page, encoding="utf-8") as file:
            svg = Browser(self.folder).ask(file.read(), f"return timeline(0, plan.step, {detail_height});")
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg.replace('aria-label="timeline"', f'aria-label="{title}"') + "\n")


detail_height = 34


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pictures", help="folder for SVG files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problem = problem_of(arguments, folder)
        check_bytes(problem)
        for share in LIMITS:
            Case(arguments, folder, problem, share).print()
        if arguments.pictures:
            os.makedirs(arguments.pictures, exist_ok=True)
            case = Case(arguments, folder, problem, 1)
            layers = len(problem["layers"])
            ours = json.loads(run(case.tool, case.path, "--json"))
            case.picture(ours, "our plan", os.path.join(arguments.pictures, "published-case-ours.svg"))
            equal = [layers * s // 4 + (s > 0 and layers % 4 > 0) for s in range(4)] + [layers]
            case.picture(case.given(equal), "equal layers", os.path.join(arguments.pictures, "published-case-equal-layers.svg"))


if __name__ == "__main__":
    main()
