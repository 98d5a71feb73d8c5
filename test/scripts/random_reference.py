#!/usr/bin/env python3
"""Writes random.json beside a model's reference.json, and the adapters that its runs begin with: ten steps with dropout and
noise, by PyTorch.

    random_reference.py test/data/tiny-internvl

PEFT's adapters and the embedding are given the numbers of random_bits.py in place of PyTorch's generator. Steps and
optimizer are those of reference.json (variant train_all), every sample run alone.
"""
import json
import os
import sys

from gradient_projections import Model  # first: it says that nothing is downloaded
import torch
from lora_reference import ALPHA, RANK
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from random_bits import row_keys, token_keys, uniform

SEED, RATE, NOISE = 11, 0.25, 5.0
# Layers in the order of the graph, as omnibal-compile prints them: what lies in front of the blocks of each part.
VISION_BLOCKS, PROJECTOR, EMBEDDING, TEXT_BLOCKS = 1, 5, 6, 7
# The order of draws in a layer is that of its weights.
STREAMS = {name: number for names in (("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
                                      ("q_proj", "k_proj", "v_proj", "projection_layer", "fc1", "fc2"), ("linear_1", "linear_2"))
           for number, name in enumerate(names)}
WEIGHTS = "(q|k|v|o|gate|up|down)_proj|projection_layer|fc[12]|linear_[12]"


class Place:
    """Where the run is: which sample, in which step."""
    step = sample = None
    tokens = tiles = 0

    def uniform(self, x, layer, stream, of_tiles):
        if of_tiles:
            keys = row_keys(SEED, self.step, self.sample, self.tiles, x.shape[:-1].numel() // self.tiles).reshape(x.shape[:-1])
        else:
            keys = token_keys(SEED, self.step, self.sample, self.tokens).reshape(x.shape[:-1])
        return torch.tensor(uniform(keys, x.shape[-1], layer, stream), dtype=x.dtype)


class Dropout(torch.nn.Module):
    def __init__(self, place, layer, stream, of_tiles, rate=RATE):
        super().__init__()
        self.place, self.where, self.rate = place, (layer, stream, of_tiles), rate

    def forward(self, x):
        return x * (self.place.uniform(x, *self.where) >= self.rate) / (1 - self.rate)


def layer_of(module):
    words = module.split(".")
    if "multi_modal_projector" in words:
        return PROJECTOR
    block = int(next(word for word in words if word.isdigit()))
    return (VISION_BLOCKS if "vision_tower" in words else TEXT_BLOCKS) + block


class Random(Model):
    def __init__(self, folder, dropped, noise):
        super().__init__(folder)
        self.place = Place()
        if noise:
            self.model.get_input_embeddings().register_forward_hook(self.add_noise)
        if dropped:
            torch.manual_seed(7)
            self.model = get_peft_model(self.model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=f".*({WEIGHTS})",
                                                               task_type="CAUSAL_LM", lora_dropout=RATE)).eval()
            for name, module in self.model.named_modules():
                if isinstance(module, LoraLayer):
                    torch.nn.init.uniform_(module.lora_B["default"].weight, -0.05, 0.05)
                    of_tiles = "language_model" not in name
                    module.lora_dropout["default"] = Dropout(self.place, layer_of(name), STREAMS[name.split(".")[-1]], of_tiles)
            self.state = {name: value.clone() for name, value in self.model.state_dict().items()}

    def save(self, folder, base):
        """As lora_reference.py does."""
        self.model.save_pretrained(folder)
        os.remove(f"{folder}/README.md")
        with open(f"{folder}/adapter_config.json", encoding="utf-8") as file:
            config = json.load(file)
        config["base_model_name_or_path"] = os.path.basename(os.path.normpath(base))
        with open(f"{folder}/adapter_config.json", "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1, sort_keys=True)

    def add_noise(self, module, inputs, embedded):
        bound = NOISE / (embedded.shape[-2] * embedded.shape[-1]) ** 0.5
        return embedded + (2 * self.place.uniform(embedded, EMBEDDING, 0, False) - 1) * bound

    def run(self, dtype, steps):
        settings = self.reference["optimizer"]
        self.model.to(dtype).load_state_dict(self.state)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings["weight_decay"]},
                  {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=settings["lr"], betas=settings["betas"], eps=settings["eps"], foreach=False)
        log = []
        for number, step in enumerate(steps):
            optimizer.zero_grad(set_to_none=True)
            loss, count = 0.0, 0
            for key in (key for group in step["groups"] for key in group):
                sample = self.samples[key]
                self.place.step, self.place.sample = number, key
                self.place.tokens, self.place.tiles = len(sample["input_ids"]), len(sample["pictures"])
                part, labels = self.loss_of(key, dtype)
                loss, count = loss + part, count + labels
            loss = loss / count
            loss.backward()
            size = torch.nn.utils.clip_grad_norm_(trained, settings["clip_grad_norm"], foreach=False)
            optimizer.step()
            log.append((float(loss.detach()), float(size)))
        return log

    def described(self, flags):
        """The ten steps for the test, in float64 and float32."""
        steps = self.reference["variants"]["train_all"]["steps"]
        exact, single = (self.run(dtype, steps) for dtype in (torch.float64, torch.float32))
        print(*(f"{loss:.6f}" for loss, _ in exact), flush=True)
        return {"flags": flags, "seed": SEED,
                "steps": [{"step": step["step"], "groups": step["groups"], "label_tokens": step["label_tokens"],
                           "loss_float64": repr(a[0]), "loss_float32": repr(b[0]), "grad_norm_float64": repr(a[1]),
                           "grad_norm_float32": repr(b[1])} for step, a, b in zip(steps, exact, single, strict=True)]}


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    adapters = ["--lora", f"({WEIGHTS})$", "--lora-rank", str(RANK), "--lora-alpha", str(ALPHA), "--lora-dropout", str(RATE)]
    result = {}
    for name, flags, dropped, noise in (("neftune", ["--neftune", str(NOISE)], False, True), ("dropout", adapters, True, False)):
        model = Random(folder, dropped, noise)
        if dropped:
            model.save(f"{folder}/adapters/{name}", folder)
        result[name] = model.described(flags)
    with open(f"{folder}/random.json", "w", encoding="utf-8") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
