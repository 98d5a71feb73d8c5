#!/usr/bin/env python3
"""Writes longer.json beside a model's reference.json: what follows if its steps are taken a second time, by PyTorch.

    longer_run.py test/data/tiny-internvl

The first half must give reference.json's losses and norms (gradient_projections.py), else nothing is written. Steps,
losses and norms have the form of reference.json; only those of the variant train_all are there.
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gradient_projections import Model, worst_deviation  # noqa: E402


def longer(folder):
    model = Model(folder)
    steps = model.reference["variants"]["train_all"]["steps"]
    exact, _ = model.train("train_all", torch.float64, steps + steps)
    rounded, _ = model.train("train_all", torch.float32, steps + steps)
    deviation = max(worst_deviation((entry[place], step[name]) for entry, step in zip(exact, steps))
                    for place, name in enumerate(("loss_float64", "grad_norm_float64")))
    print(f"largest deviation from reference.json: {deviation:.1e}", flush=True)
    if deviation > 1e-12:
        sys.exit("not the run of reference.json")
    return [{"step": len(steps) + i, "groups": step["groups"], "label_tokens": step["label_tokens"],
             "loss_float64": repr(exact[len(steps) + i][0]), "loss_float32": repr(rounded[len(steps) + i][0]),
             "grad_norm_float64": repr(exact[len(steps) + i][1]), "grad_norm_float32": repr(rounded[len(steps) + i][1])}
            for i, step in enumerate(steps)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    lines = ",\n".join(f" {json.dumps(step)}" for step in longer(folder))
    with open(os.path.join(folder, "longer.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
