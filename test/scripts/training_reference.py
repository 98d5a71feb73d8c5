#!/usr/bin/env python3
"""Writes training.json beside a model's reference.json: runs with other settings than reference.json's, by PyTorch.

    training_reference.py test/data/tiny-internvl [CASE...]

A case has the flags that omnibal-run is given and PyTorch's losses and gradient norms in float64 and float32, in the
form of reference.json. Without names all cases are run; with names, these alone are run again.
"""
import json
import os
import sys

import torch
import torch.nn.functional as F
from gradient_projections import VISION, Model
from torch.optim.lr_scheduler import LambdaLR

LR, DECAY, BETAS, EPSILON, CLIP = 1e-3, 0.05, (0.9, 0.999), 1e-8, 1.0
BASE_FLAGS = ["--lr", LR, "--weight-decay", DECAY, "--clip", CLIP]
PROJECTOR = "model.multi_modal_projector."


def usual(name, parameter):
    return dict(lr=LR, weight_decay=DECAY if parameter.ndim >= 2 else 0.0)


def by_part(name, parameter):
    """The tower at a tenth, its matrices with a decay of 0.2, the projector's rate with a warm-up of its own."""
    settings = usual(name, parameter)
    if name.startswith(VISION):
        settings.update(lr=1e-4, weight_decay=0.2 if parameter.ndim >= 2 else 0.0)
    elif name.startswith(PROJECTOR):
        settings.update(lr=5e-3, warmup=4)
    return settings


def by_layer(name, parameter):
    """BEiT's rule: the last block of the tower is one below what follows, its embeddings lie below the first one."""
    settings, blocks = usual(name, parameter), 4
    if name.startswith(VISION):
        block = name.split(".layer.")[1].split(".")[0] if ".layer." in name else "-1"
        settings["lr"] = LR * 0.5 ** (blocks - int(block))
    return settings


def cross_entropy(smoothing, z):
    """The loss of a sample's label tokens, from its logits and labels."""
    def loss(logits, labels):
        squared = torch.logsumexp(logits[labels != -100], -1).square().sum()
        return F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum", label_smoothing=smoothing) + z * squared
    return loss


def adamw(groups):
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPSILON, foreach=False)


CASES = {
    "groups": dict(flags=["--lr-of", "vision=1e-4", "--weight-decay-of", "vision_tower=0.2", "--lr-of", "projector=5e-3",
                          "--warmup-of", "projector=4"], groups=by_part),
    "layer decay": dict(flags=["--layer-decay", 0.5], groups=by_layer),
    "label smoothing": dict(flags=[], compile_flags=["--label-smoothing", 0.1], loss=cross_entropy(0.1, 0.0)),
    "z-loss": dict(flags=[], compile_flags=["--z-loss", 0.01], loss=cross_entropy(0.0, 0.01)),
    "both losses": dict(flags=[], compile_flags=["--label-smoothing", 0.2, "--z-loss", 0.001], loss=cross_entropy(0.2, 0.001)),
}


def train(model, case, dtype, steps):
    model.model.to(dtype).load_state_dict(model.state)
    named = list(model.model.named_parameters())
    groups, warmups = [], []
    for name, parameter in named:
        parameter.requires_grad_(True)
        parameter.grad = None
        settings = case.get("groups", usual)(name, parameter)
        warmups.append(settings.pop("warmup", 0))
        groups.append({"params": [parameter], **settings})
    optimizer = case.get("optimizer", adamw)(groups)
    schedule = LambdaLR(optimizer, [lambda s, w=w: min(1.0, (s + 1) / w) if w else 1.0 for w in warmups])
    log = []
    for step in steps:
        optimizer.zero_grad(set_to_none=True)
        parts = [model.loss_of(key, dtype, case.get("loss")) for group in step["groups"] for key in group]
        count = sum(labels for _, labels in parts)
        loss = sum(part for part, _ in parts) / count
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], CLIP, foreach=False)
        optimizer.step()
        schedule.step()
        log.append((float(loss.detach()), float(norm)))
    return log


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    torch.set_num_threads(1)
    path = os.path.join(folder, "training.json")
    known = {}
    if wanted and os.path.exists(path):
        with open(path) as file:
            known = json.load(file)
    model = Model(folder)
    steps = model.reference["variants"]["train_all"]["steps"]
    result = {}
    for name, case in CASES.items():
        if wanted and name not in wanted and name in known:
            result[name] = known[name]
            continue
        exact, single = (train(model, case, dtype, steps) for dtype in (torch.float64, torch.float32))
        result[name] = {"flags": [*map(str, [*BASE_FLAGS, *case["flags"]])],
                        "compile_flags": [*map(str, case.get("compile_flags", []))],
                        "steps": [{"groups": step["groups"], "loss_float64": repr(a[0]), "loss_float32": repr(b[0]),
                                   "grad_norm_float64": repr(a[1]), "grad_norm_float32": repr(b[1])}
                                  for step, a, b in zip(steps, exact, single, strict=True)]}
        print(name, exact[-1], flush=True)
    with open(path, "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


main()
