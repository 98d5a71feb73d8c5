#!/usr/bin/env python3
"""Writes test/data/schedules/rates.json: learning rates of every step by PyTorch and Transformers.

    schedule_reference.py test/data/schedules/rates.json

The warm-up is PyTorch's LinearLR from 1 / warm-up on, whose first step is not at a rate of zero. What follows is the
schedule of Transformers, whose own warm-up is left out.
"""
import json
import sys

import torch
import transformers
from transformers import optimization

PEAK, STEPS = 3e-3, 40


def wsd(optimizer, warmup, decay, shape, least):
    return optimization.get_wsd_schedule(optimizer, num_warmup_steps=warmup, num_decay_steps=decay, num_training_steps=STEPS,
                                         decay_type=shape, min_lr_ratio=least)


def polynomial(optimizer, warmup, power, least):
    return optimization.get_polynomial_decay_schedule_with_warmup(optimizer, warmup, STEPS, lr_end=least * PEAK, power=power)


CASES = {
    "constant": (5, {"schedule": "constant"}, optimization.get_constant_schedule_with_warmup),
    "linear": (5, {"schedule": "linear"}, lambda o, w: optimization.get_linear_schedule_with_warmup(o, w, STEPS)),
    "cosine": (5, {"schedule": "cosine"}, lambda o, w: optimization.get_cosine_schedule_with_warmup(o, w, STEPS)),
    "cosine to a tenth": (4, {"schedule": "cosine", "least": 0.1},
                          lambda o, w: optimization.get_cosine_with_min_lr_schedule_with_warmup(o, w, STEPS, min_lr_rate=0.1)),
    "three cosines": (4, {"schedule": "cosine-restarts", "cycles": 3},
                      lambda o, w: optimization.get_cosine_with_hard_restarts_schedule_with_warmup(o, w, STEPS, num_cycles=3)),
    "one cosine": (0, {"schedule": "cosine-restarts"},
                   lambda o, w: optimization.get_cosine_with_hard_restarts_schedule_with_warmup(o, w, STEPS, num_cycles=1)),
    "square": (6, {"schedule": "polynomial", "power": 2.0, "least": 0.05}, lambda o, w: polynomial(o, w, 2.0, 0.05)),
    "root": (0, {"schedule": "polynomial", "power": 0.5}, lambda o, w: polynomial(o, w, 0.5, 0)),
    "power of one": (3, {"schedule": "polynomial", "least": 0.2}, lambda o, w: polynomial(o, w, 1.0, 0.2)),
    "wsd": (5, {"schedule": "wsd", "decay_steps": 12}, lambda o, w: wsd(o, w, 12, "cosine", 0)),
    "wsd linear": (5, {"schedule": "wsd", "decay_steps": 10, "shape": "linear", "least": 0.1}, lambda o, w: wsd(o, w, 10, "linear", 0.1)),
    "wsd root": (0, {"schedule": "wsd", "decay_steps": 8, "shape": "1-sqrt"}, lambda o, w: wsd(o, w, 8, "1-sqrt", 0)),
    "wsd without a plateau": (8, {"schedule": "wsd", "decay_steps": 32, "shape": "1-sqrt", "least": 0.01},
                              lambda o, w: wsd(o, w, 32, "1-sqrt", 0.01)),
}


def rates(make, optimizer, count):
    schedule, seen = make(optimizer), []
    for _ in range(count):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)


def main():
    cases = {}
    for name, (warmup, settings, make) in CASES.items():
        after = rates(lambda o: make(o, warmup), optimizer(), STEPS)[warmup:]
        before = []
        if warmup > 0:
            before = rates(lambda o: torch.optim.lr_scheduler.LinearLR(o, 1 / warmup, 1, warmup - 1), optimizer(), warmup)
        cases[name] = {"warmup_steps": warmup, **settings, "rates": before + after}
    with open(sys.argv[1], "w") as file:
        json.dump({"torch": torch.__version__, "transformers": transformers.__version__, "peak": PEAK, "steps": STEPS, "cases": cases}, file, indent=1)
        file.write("\n")


main()
