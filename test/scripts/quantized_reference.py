#!/usr/bin/env python3
"""Writes quantized.json beside a model's adapters: ten steps of fine-tuning over frozen weights that are quantized.

    quantized_reference.py test/data/tiny-internvl

Weights are quantized and expanded again here, in PyTorch; what follows is fine-tuning by PEFT as in lora_reference.py,
from the adapters that it has written. The levels of NF4 are checked against the normal distribution's quantiles, as QLoRA
(arXiv 2305.14314) defines them.
"""
import argparse
import json
import os
import re
import sys

from lora_reference import ALPHA, RANK, VARIANTS, Adapted
import torch
from peft import set_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "python"))
from projections import norm, projections  # noqa: E402

BLOCK = 64
# As published with QLoRA; nf4_levels() says what they are.
LEVELS = torch.tensor([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])
OFFSET = 0.9677083  # the mean of 1 - 1/30 and 1 - 1/32
# Kind, adapters to begin with, further flags of omnibal-compile, and the weights that are meant: none, those below adapters.
CASES = {"int8": ("int8", "rslora", [], None),
         "nf4": ("nf4", "lora", ["--quantize-match", "layers*[.][0-9]+[.].*(proj|layer|fc1)$"], r"layers?\.\d+\..*(proj|layer|fc1)$")}


def nf4_levels():
    """Quantiles of equal probability on both sides of 0, scaled to [-1, 1]; one more above 0 than below."""
    def quantiles(count):
        return torch.special.ndtri(torch.linspace(OFFSET, 0.5, count, dtype=torch.float64)[:-1])
    values = torch.cat([quantiles(9), -quantiles(8), torch.zeros(1, dtype=torch.float64)])
    return (values / values.max()).sort().values


def int8(weight):
    """[out, in], one scale a row."""
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    codes = torch.where(scale > 0, torch.round(weight / scale), torch.zeros_like(weight)).to(torch.int8)
    return codes.float() * scale


def nf4(weight):
    """One scale for 64 numbers that follow one another in memory."""
    flat = weight.flatten()
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % BLOCK)]).view(-1, BLOCK)
    scale = padded.abs().amax(dim=1, keepdim=True)
    share = torch.where(scale > 0, padded / scale, torch.zeros_like(padded))
    codes = (share.unsqueeze(-1) - LEVELS).abs().argmin(dim=-1)
    return (LEVELS[codes] * scale).flatten()[:len(flat)].view_as(weight)


class Quantized(Adapted):
    def __init__(self, folder, kind, variant, match):
        _, settings, nonzero = VARIANTS[variant]
        super().__init__(folder, settings, nonzero)
        start = load_file(f"{folder}/adapters/{variant}/adapter_model.safetensors")
        assert not set_peft_model_state_dict(self.model, start).unexpected_keys
        self.quantized = []
        for name, module in self.model.named_modules():
            linear = module.get_base_layer() if isinstance(module, LoraLayer) else module
            if not isinstance(linear, torch.nn.Linear) or name.endswith(".base_layer") or ".lora_" in name:
                continue
            if isinstance(module, LoraLayer) if match is None else re.search(match, name):
                assert not linear.weight.requires_grad
                linear.weight.data = {"int8": int8, "nf4": nf4}[kind](linear.weight.data)
                self.quantized.append(name.removeprefix("base_model.model.") + ".weight")
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}


def run(folder, name, case):
    kind, variant, flags, match = case
    model = Quantized(folder, kind, variant, match)
    steps = model.reference["variants"]["train_all"]["steps"]
    exact, moved = model.train(torch.float64, steps)
    single, rounded = model.train(torch.float32, steps)
    rows = [{"step": step["step"], "label_tokens": count, "loss_float64": repr(loss), "loss_float32": repr(loss32),
             "grad_norm_float64": repr(size), "grad_norm_float32": repr(size32)}
            for step, (loss, size, count), (loss32, size32, _) in zip(steps, exact, single, strict=True)]
    table = {}
    for parameter, values in moved.items():
        flat = values.flatten().tolist()
        table[parameter] = {"norm": repr(norm(flat)), "projections": [repr(p) for p in projections(parameter, flat)],
                            "float32_deviation": f"{float((values - rounded[parameter]).norm()):.2e}"}
    print(name, len(model.quantized), *(f"{loss:.6f}" for loss, _, _ in exact), flush=True)
    return {"start": variant, "flags": [*VARIANTS[variant][0], "--lora-rank", str(RANK), "--lora-alpha", str(ALPHA),
                                        "--quantize-frozen", kind, *flags],
            "weights": sorted(model.quantized), "steps": rows, "moved": table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    assert (nf4_levels() - LEVELS.double()).abs().max() < 2e-7
    with open(f"{folder}/adapters/quantized.json", "w", encoding="utf-8") as file:
        json.dump({name: run(folder, name, case) for name, case in CASES.items()}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
