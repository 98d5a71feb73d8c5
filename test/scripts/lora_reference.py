#!/usr/bin/env python3
"""Writes lora.json beside a model's reference.json, and the folder `lora` that its runs begin with: ten steps of
fine-tuning with adapters, by PEFT.

    lora_reference.py test/data/tiny-internvl

Steps and optimizer are those of reference.json (variant train_all), every sample run alone, in float64 and float32. What
was trained is told at the end by random projections (test/support/python/projections.py) of how far each parameter has
moved.
"""
import argparse
import json
import os
import shutil
import sys

from gradient_projections import Model  # first: it says that nothing is downloaded
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "python"))
from projections import norm, projections  # noqa: E402

RANK, ALPHA = 4, 8
TARGETS = r".*language_model.*\.(q|k|v|o|gate|up|down)_proj"
# Flags of omnibal-compile, further settings of PEFT, and whether B begins with other numbers than zero, too.
VARIANTS = {
    "lora": (["--lora", "language.*(q|k|v|o|gate|up|down)_proj"], {}, False),
    "rslora": (["--lora", "language.*(q|k|v|o|gate|up|down)_proj$", "--rslora", "--modules-to-save",
                "multi_modal_projector.linear_1|language_model.norm"],
               dict(use_rslora=True, modules_to_save=["model.multi_modal_projector.linear_1", "model.language_model.norm"]), True),
}


def saved_name(name):
    """Of a parameter in PEFT's folder."""
    name = name.replace(".default", "").replace(".modules_to_save", "")
    return name.removesuffix(".weight") if ".lora_magnitude_vector." in name else name


class Adapted(Model):
    """The model with adapters."""

    def __init__(self, folder, settings, nonzero):
        super().__init__(folder)
        torch.manual_seed(7)
        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS, task_type="CAUSAL_LM", **settings)
        self.model = get_peft_model(self.model, config).eval()
        if nonzero:
            for module in self.model.modules():
                if isinstance(module, LoraLayer):
                    torch.nn.init.uniform_(module.lora_B["default"].weight, -0.05, 0.05)
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.names = {id(p): name for name, p in self.model.named_parameters() if p.requires_grad}

    def train(self, dtype, steps):
        """[(loss, gradient norm, labels)], and by PEFT's name how far each parameter has moved."""
        settings = self.reference["optimizer"]
        self.model.to(dtype).load_state_dict(self.state)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings["weight_decay"]},
                  {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=settings["lr"], betas=settings["betas"], eps=settings["eps"], foreach=False)
        log = []
        for step in steps:
            optimizer.zero_grad(set_to_none=True)
            parts = [self.loss_of(key, dtype) for group in step["groups"] for key in group]
            count = sum(labels for _, labels in parts)
            loss = sum(part for part, _ in parts) / count
            loss.backward()
            size = torch.nn.utils.clip_grad_norm_(trained, settings["clip_grad_norm"], foreach=False)
            optimizer.step()
            log.append((float(loss.detach()), float(size), count))
        moved = {}
        for parameter in trained:
            name = self.names[id(parameter)]
            moved[saved_name(name)] = parameter.detach() - self.state[name].to(dtype)
        return log, moved


def run(folder, variant, out):
    flags, settings, nonzero = VARIANTS[variant]
    model = Adapted(folder, settings, nonzero)
    start = f"{out}/{variant}"
    model.model.save_pretrained(start)
    os.remove(f"{start}/README.md")
    with open(f"{start}/adapter_config.json", encoding="utf-8") as file:
        config = json.load(file)
    config["base_model_name_or_path"] = os.path.basename(os.path.normpath(folder))
    with open(f"{start}/adapter_config.json", "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1, sort_keys=True)
    steps = model.reference["variants"]["train_all"]["steps"]
    exact, moved = model.train(torch.float64, steps)
    single, rounded = model.train(torch.float32, steps)
    rows = []
    for step, (loss, size, count), (loss32, size32, _) in zip(steps, exact, single, strict=True):
        assert count == step["label_tokens"]
        rows.append({"step": step["step"], "groups": step["groups"], "label_tokens": count, "loss_float64": repr(loss),
                     "loss_float32": repr(loss32), "grad_norm_float64": repr(size), "grad_norm_float32": repr(size32)})
    assert moved.keys() == load_file(f"{start}/adapter_model.safetensors").keys()
    table = {}
    for name, values in moved.items():
        flat = values.flatten().tolist()
        table[name] = {"norm": repr(norm(flat)), "projections": [repr(p) for p in projections(name, flat)],
                       "float32_deviation": f"{float((values - rounded[name]).norm()):.2e}"}  # the norm of the difference
    print(variant, *(f"{loss:.6f}" for loss, _, _ in exact), flush=True)
    return {"flags": [*flags, "--lora-rank", str(RANK), "--lora-alpha", str(ALPHA)], "steps": rows, "moved": table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    out = f"{folder}/adapters"
    for variant in VARIANTS:
        shutil.rmtree(f"{out}/{variant}", ignore_errors=True)
    os.makedirs(out, exist_ok=True)
    with open(f"{folder}/reference.json", encoding="utf-8") as file:
        optimizer = json.load(file)["optimizer"]
    result = {"optimizer": optimizer, "variants": {variant: run(folder, variant, out) for variant in VARIANTS}}
    with open(f"{out}/reference.json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
