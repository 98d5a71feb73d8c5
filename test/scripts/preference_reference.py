#!/usr/bin/env python3
"""Writes preference.json beside a model's reference.json: direct preference optimization (DPO) of pairs of answers, by
PyTorch with the formula of TRL's DPOTrainer (loss_type "sigmoid"), in float64 and float32.

    preference_reference.py test/data/tiny-internvl [CASE...]

The pairs are those of test/support/python/preference_pairs.py, in the groups of reference.json, every sequence run alone.
A case has flags, the reference's log-probabilities of all pairs (of the first weights), and for each step loss, gradient
norm, and the means of the rewards as TRL logs them. Without names all cases are run; with names, these alone are run again.
"""
import json
import os
import sys

from gradient_projections import Model  # first: it says that nothing is downloaded
import torch
import torch.nn.functional as F
from lora_reference import ALPHA, RANK, VARIANTS, Adapted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "python"))
from preference_pairs import rejected  # noqa: E402

DECAY, CLIP = 0.05, 1.0
CASES = {
    "dpo": dict(beta=0.1, smoothing=0.0, lr=1e-4),
    "smoothed": dict(beta=0.5, smoothing=0.1, lr=3e-4),
    "lora": dict(beta=0.3, smoothing=0.0, lr=1e-3),
}


def log_probability(logits, labels):
    """TRL's: the sum over the labels that are not masked."""
    mask = labels != -100
    each = torch.gather(logits.log_softmax(-1), 1, labels.where(mask, 0)[:, None])[:, 0]
    return (each * mask).sum()


def dpo_loss(policy, reference, beta, smoothing):
    """Loss and rewards of a pair from (chosen, rejected) log-probabilities."""
    logits = (policy[0] - policy[1]) - (reference[0] - reference[1])
    loss = -F.logsigmoid(beta * logits) * (1 - smoothing) - F.logsigmoid(-beta * logits) * smoothing
    return loss, *(beta * (p - r).detach() for p, r in zip(policy, reference, strict=True))


def add_pairs(model):
    for key, sample in list(model.samples.items()):
        ids, labels = rejected(sample)
        model.samples[key + " rejected"] = {**sample, "input_ids": ids, "labels": labels}
    return model


def both(model, key, dtype):
    return [model.loss_of(name, dtype, log_probability)[0] for name in (key, key + " rejected")]


def train(model, case, dtype, steps):
    model.model.to(dtype).load_state_dict(model.state)
    trained = [p for p in model.model.parameters() if p.requires_grad]
    with torch.no_grad():
        references = {key: both(model, key, dtype) for key in sorted(model.samples) if not key.endswith("rejected")}
    optimizer = torch.optim.AdamW([{"params": [p for p in trained if p.ndim >= 2], "weight_decay": DECAY},
                                   {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}],
                                  lr=case["lr"], betas=(0.9, 0.999), eps=1e-8, foreach=False)
    log = []
    for step in steps:
        optimizer.zero_grad(set_to_none=True)
        pairs = [dpo_loss(both(model, key, dtype), references[key], case["beta"], case["smoothing"])
                 for group in step["groups"] for key in group]
        losses, chosen, rejected_ = (torch.stack(column) for column in zip(*pairs, strict=True))
        losses.mean().backward()
        length = torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False)
        optimizer.step()
        log.append({"loss": losses.detach().mean(), "grad_norm": length, "reward_chosen": chosen.mean(),
                    "reward_rejected": rejected_.mean(), "reward_margin": (chosen - rejected_).mean(),
                    "reward_accuracy": (chosen > rejected_).to(dtype).mean()})
    return {key: [float(p) for p in pair] for key, pair in references.items()}, \
        [{name: float(value) for name, value in step.items()} for step in log]


def run(folder, name, case):
    flags = ["--loss", "dpo", "--dpo-beta", case["beta"], *(["--label-smoothing", case["smoothing"]] if case["smoothing"] else [])]
    run_flags = ["--lr", case["lr"], "--weight-decay", DECAY, "--clip", CLIP]
    if name == "lora":
        adapters, settings, nonzero = VARIANTS["lora"]
        model = add_pairs(Adapted(folder, settings, nonzero))
        flags += [*adapters, "--lora-rank", RANK, "--lora-alpha", ALPHA]
    else:
        model = add_pairs(Model(folder))
    steps = model.reference["variants"]["train_all"]["steps"]
    (references, exact), (references32, single) = (train(model, case, dtype, steps) for dtype in (torch.float64, torch.float32))
    print(name, *(f"{step['loss']:.6f}" for step in exact), f"accuracy {exact[-1]['reward_accuracy']}", flush=True)
    return {"compile_flags": [*map(str, flags)], "flags": [*map(str, run_flags)],
            "references": {key: {"float64": [*map(repr, pair)], "float32": [*map(repr, references32[key])]}
                           for key, pair in references.items()},
            "steps": [{"groups": step["groups"], **{f"{field}_{dtype}": repr(log[i][field])
                                                    for dtype, log in (("float64", exact), ("float32", single)) for field in log[i]}}
                      for i, step in enumerate(steps)]}


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    torch.set_num_threads(1)
    path = os.path.join(folder, "preference.json")
    known = {}
    if wanted and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    for name in wanted or CASES:
        if name != "lora" or os.path.exists(os.path.join(folder, "adapters")):
            known[name] = run(folder, name, CASES[name])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(known, file, separators=(",", ":"))
        file.write("\n")


main()
