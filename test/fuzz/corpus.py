#!/usr/bin/env python3
"""Writes the first inputs of fuzz-plan: every problem of test/data/plan as it is and cut down, with plans beside, and choices
of divisions with its costs.

    corpus.py FOLDER
"""
import json
import os
import sys

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "plan")


def shrunk(problem, layers=6, stages=2, microbatches=3):
    """Small enough to be searched and simulated by the target."""
    p = json.loads(json.dumps(problem))
    p["layers"] = p["layers"][:layers]
    p["edges"] = [e for e in p["edges"] if e["to"] < layers]
    p["cluster"]["stages"] = stages
    p["cluster"]["memory_bytes"] = p["cluster"]["memory_bytes"][:1]
    p["microbatches"] = p["microbatches"][:microbatches] if isinstance(p["microbatches"], list) else microbatches
    return p


def choice(small):
    """Costs of one part, and the same of two at two prices."""
    costs = {"layers": small["layers"], "edges": small["edges"]}
    ranks = small["cluster"] | {"node": {"ranks": 2, "latency_ns": 1, "bytes_per_s": 10 ** 11}}
    return {"schema": "omnibal.plan-choice/1", "ranks": 4, "groups": 8, "schedule": "1f1b",
            "cluster": {key: ranks[key] for key in ("memory_bytes", "link", "node")},
            "costs": [{"parts": 1} | costs, {"parts": 2} | costs, {"parts": 2, "layout_price": 0.5} | costs,
                      {"parts": 2, "zero_replicas": 2} | costs]}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    plans = [{"cuts": [0, 2, 6]}, {"cuts": [0, 2, 6], "remat": ["keep"] * 6, "schedule": "gpipe"},
             {"cuts": [0, 1, 2, 4, 6], "chunk_rank": [0, 1, 0, 1], "remat": ["keep"] * 6, "schedule": "auto",
              "actions": [[["F", 0, 0], ["F", 0, 2], ["I", 0, 2], ["W", 0, 2], ["B", 0, 0]],
                          [["F", 0, 1], ["F", 0, 3], ["B", 0, 3], ["I", 0, 1], ["W", 0, 1]]],
              "step_ns": 1, "lower_bound_ns": 1, "gap": 0.5, "ranks": [], "search": {}}]
    for name in sorted(os.listdir(DATA)):
        with open(os.path.join(DATA, name), encoding="utf-8") as file:
            problem = json.load(file)
        if "layers" not in problem:
            continue
        small = shrunk(problem)
        variants = [problem, small] + [small | {"schedule": s} for s in ("gpipe", "zb-h1", "interleaved:2", "auto")]
        variants.append(small | {"vary": {"cuts": False, "remat": False}, "given": {"cuts": [0, 3, 6], "remat": ["keep"] * 6}})
        variants.append(small | {"microbatches": 1, "schedule": "auto"})
        with open(os.path.join(folder, f"{name}-choice"), "w", encoding="utf-8") as file:
            json.dump(choice(small), file)
        for number, variant in enumerate(variants):
            plan = plans[number % len(plans)] if number else {"cuts": [0, 1]}
            with open(os.path.join(folder, f"{name}-{number}"), "w", encoding="utf-8") as file:
                json.dump(variant, file)
                file.write("\n---\n")
                json.dump(plan, file)


if __name__ == "__main__":
    main()
