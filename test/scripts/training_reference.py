#!/usr/bin/env python3
"""Writes training.json beside a model's reference.json: runs with other settings than reference.json's, by PyTorch.

    training_reference.py test/data/tiny-internvl [CASE...]

A case has the flags that omnibal-run is given and PyTorch's losses and gradient norms in float64 and float32, in the
form of reference.json. Where moving averages are kept, it also has projections (test/support/python/projections.py) of how
far they are from the first values, in the form of gradients.json; with "moves", of how far the values themselves are in
the end.
Without names all cases are run; with names, these alone are run again.
"""
import json
import os
import sys

import torch
import torch.nn.functional as F
from gradient_projections import VISION, Model
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "python"))
from projections import norm, projections  # noqa: E402

LR, DECAY, BETAS, EPSILON, CLIP = 1e-3, 0.05, (0.9, 0.999), 1e-8, 1.0
LION_LR, SGD_LR, ADAFACTOR_LR = 1e-4, 0.1, 1e-2
BASE_FLAGS = ["--weight-decay", DECAY, "--clip", CLIP]
PROJECTOR = "model.multi_modal_projector."


def at(rate):
    return lambda name, parameter: dict(lr=rate, weight_decay=DECAY if parameter.ndim >= 2 else 0.0)


usual = at(LR)


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


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of arXiv 2302.06675."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                momentum = state.setdefault("momentum", torch.zeros_like(parameter))
                update = (0.9 * momentum + 0.1 * parameter.grad).sign()
                parameter.sub_(group["lr"] * (update + group["weight_decay"] * parameter))
                state["momentum"] = 0.99 * momentum + 0.01 * parameter.grad


def orthogonalized(matrix):
    """Newton-Schulz as in Muon (Jordan 2024), in the matrix' own precision, which torch.optim.Muon does in bfloat16."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * gram + 2.0315 * gram @ gram) @ wide
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


class Muon(torch.optim.AdamW):
    """Matrices of groups with "orthogonal" move as arXiv 2502.16982 says, everything else as by AdamW."""

    @torch.no_grad()
    def step(self):
        mine = [group for group in self.param_groups if group["orthogonal"]]
        for group in mine:
            for parameter in group["params"]:
                state = self.state[parameter]
                momentum = state.setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 1 - 0.95)
                update = orthogonalized(parameter.grad.lerp(momentum, 0.95))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-group["lr"] * 0.2 * max(parameter.shape) ** 0.5)
                parameter.grad = None
        super().step()


class Codes:
    """Block-wise quantization to 8 bits (Dettmers et al., arXiv 2110.02861): the nearest of 256 parts of a block's largest
    magnitude. What a part's bits mean: the zeros in front count powers of ten, and behind the first one is a cell of
    [0.1, 1]. Without a sign there is one bit more for the cell."""
    block = 256

    def __init__(self, signed):
        parts, bits = {0.0, 1.0}, 7 if signed else 8
        for number in range(1 if signed else 2, 2 ** bits):
            text = f"{number:0{bits}b}"
            zeros = text.index("1")
            cell, cells = int("0" + text[zeros + 1:], 2), 2 ** (bits - 1 - zeros)
            part = 10.0 ** -zeros * (0.1 + 0.9 * (cell + 0.5) / cells)
            parts |= {part, -part} if signed else {part}
        self.parts, self.signed = torch.tensor(sorted(parts), dtype=torch.float32), signed
        assert len(self.parts) == 256

    def kept(self, values):
        """What the codes of the values, in their order, stand for."""
        flat = F.pad(values.flatten(), (0, -values.numel() % self.block)).view(-1, self.block)
        largest = flat.abs().amax(1, keepdim=True).float().to(flat.dtype)
        parts = self.parts.to(flat.dtype)
        scaled = torch.where(largest > 0, flat / largest, 0)
        codes = torch.cat([(some[..., None] - parts).abs().argmin(-1) for some in scaled.split(16)])
        if not self.signed: # a second moment stays above zero
            codes = torch.where((flat > 0) & (codes == 0), 1, codes)
        return (parts[codes] * largest).flatten()[:values.numel()].view(values.shape)


class AdamW8bit(torch.optim.Optimizer):
    """AdamW whose moments are kept as codes; the update itself has those that it makes of them."""
    first, second = Codes(True), Codes(False)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m, v, t = (state.get(name, start) for name, start in (("m", torch.zeros_like(p)), ("v", torch.zeros_like(p)), ("t", 0)))
                m, v, t = BETAS[0] * m + (1 - BETAS[0]) * p.grad, BETAS[1] * v + (1 - BETAS[1]) * p.grad ** 2, t + 1
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] / (1 - BETAS[0] ** t) * m / (v.sqrt() / (1 - BETAS[1] ** t) ** 0.5 + EPSILON))
                state.update(m=self.first.kept(m), v=self.second.kept(v), t=t)


def adamw8bit(groups):
    return AdamW8bit(groups, dict(lr=LR, weight_decay=DECAY))


def muon(groups):
    return Muon(groups, lr=LR, betas=BETAS, eps=EPSILON, foreach=False)


def by_shape(name, parameter):
    """The weights of linear layers, but the head's; tables and the convolution have other shapes or names."""
    table = any(word in name for word in ("embed_tokens", "lm_head", "position_embeddings", "cls_token"))
    return dict(usual(name, parameter), orthogonal=parameter.ndim == 2 and not table)


def lion(groups):
    return Lion(groups, dict(lr=LION_LR, weight_decay=DECAY))


def sgd(nesterov):
    return lambda groups: torch.optim.SGD(groups, lr=LR, momentum=0.9, nesterov=nesterov, foreach=False)


def adafactor(least=torch.finfo(torch.float32).eps, least_scale=1e-3, **settings):
    """In float64 the smallest root of a variance would be another one; here it is float32's in both."""
    return lambda groups: torch.optim.Adafactor(groups, lr=ADAFACTOR_LR, eps=(least, least_scale), foreach=False, **settings)


CASES = {
    "lion": dict(lr=LION_LR, flags=[], compile_flags=["--optimizer", "lion"], optimizer=lion, groups=at(LION_LR)),
    "sgd": dict(lr=SGD_LR, flags=[], compile_flags=["--optimizer", "sgd"], optimizer=sgd(False), groups=at(SGD_LR)),
    "nesterov": dict(lr=SGD_LR, flags=["--nesterov"], compile_flags=["--optimizer", "sgd"], optimizer=sgd(True), groups=at(SGD_LR)),
    "muon": dict(flags=[], compile_flags=["--optimizer", "muon"], optimizer=muon, groups=by_shape),
    "groups": dict(flags=["--lr-of", "vision=1e-4", "--weight-decay-of", "vision_tower=0.2", "--lr-of", "projector=5e-3",
                          "--warmup-of", "projector=4"], groups=by_part),
    "adamw8bit": dict(flags=[], compile_flags=["--optimizer", "adamw8bit"], optimizer=adamw8bit),
    "adafactor": dict(lr=ADAFACTOR_LR, flags=[], compile_flags=["--optimizer", "adafactor"], optimizer=adafactor(), groups=at(ADAFACTOR_LR),
                      moves=True),
    "adafactor's settings": dict(lr=ADAFACTOR_LR, flags=["--beta2-decay", -0.5, "--eps", 1e-4, "--eps2", 0.05, "--update-clip", 1.5],
                                 compile_flags=["--optimizer", "adafactor"], groups=at(ADAFACTOR_LR), moves=True,
                                 optimizer=adafactor(1e-4, 0.05, beta2_decay=-0.5, d=1.5)),
    "ema": dict(flags=["--ema-decay", 0.9], compile_flags=["--ema"], averages=0.9),
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
    averages = None
    if "averages" in case:
        averages = AveragedModel(model.model, multi_avg_fn=get_ema_multi_avg_fn(case["averages"]))
        averages.update_parameters(model.model) # the first time takes the values as they are
    log = []
    for step in steps:
        optimizer.zero_grad(set_to_none=True)
        parts = [model.loss_of(key, dtype, case.get("loss")) for group in step["groups"] for key in group]
        count = sum(labels for _, labels in parts)
        loss = sum(part for part, _ in parts) / count
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_([p for _, p in named], CLIP, foreach=False)
        optimizer.step()
        schedule.step()
        if averages:
            averages.update_parameters(model.model)
        log.append((float(loss.detach()), float(length)))
    watched = averages.module if averages else model.model if case.get("moves") else None
    return log, watched and {name: (parameter.detach().double() - model.state[name].double()).flatten().tolist()
                             for name, parameter in watched.named_parameters()}


def projected(exact, single):
    """Rows of gradients.json, of what is known in float64 and float32."""
    rows = {}
    for name, values in exact.items():
        here, there = projections(name, values), projections(name, single[name])
        deviation = max(abs(a - b) for a, b in zip(here, there, strict=True))
        rows[name] = {"norm": repr(norm(values)), "projections": [repr(p) for p in here], "float32_deviation": f"{deviation:.2e}"}
    return rows


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
        (exact, moved), (single, moved_single) = (train(model, case, dtype, steps) for dtype in (torch.float64, torch.float32))
        result[name] = {"flags": [*map(str, ["--lr", case.get("lr", LR), *BASE_FLAGS, *case["flags"]])],
                        "compile_flags": [*map(str, case.get("compile_flags", []))],
                        "steps": [{"groups": step["groups"], "loss_float64": repr(a[0]), "loss_float32": repr(b[0]),
                                   "grad_norm_float64": repr(a[1]), "grad_norm_float32": repr(b[1])}
                                  for step, a, b in zip(steps, exact, single, strict=True)]}
        if moved:
            result[name]["averages" if "averages" in case else "moved"] = projected(moved, moved_single)
        print(name, exact[-1], flush=True)
    with open(path, "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


main()
