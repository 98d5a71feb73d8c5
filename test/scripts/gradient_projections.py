#!/usr/bin/env python3
"""Writes gradients.json beside a model's reference.json: random projections of every parameter's gradient, by PyTorch.

    gradient_projections.py test/data/tiny-internvl

The model is built by Transformers from config.json and model.safetensors. All steps of reference.json are run again in
float64; losses and norms must be its own to 1e-12 relative, else nothing is written. Then the gradients of the first
step are projected (test/e2e/projections.py), in float64 and, to know what rounding does, in float32. At step 0 freezing
changes no other gradient, which is checked: one table serves all variants.
"""
import argparse
import contextlib
import io
import json
import os
import sys
import tarfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from safetensors.torch import load_file
from torch.overrides import TorchFunctionMode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from projections import projections  # noqa: E402

FROZEN = {"train_all": (), "freeze_vision": ("model.vision_tower.",),
          "freeze_llm": ("model.vision_tower.", "model.language_model.", "lm_head.")}


class InDouble(TorchFunctionMode):
    """The casts to float32 that Transformers' code makes in norms, rotary embeddings and softmax go to float64 instead."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.float:
            return args[0].double()
        if function in (torch.Tensor.to, torch.Tensor.type, F.softmax, torch.softmax):
            args = tuple(torch.float64 if a is torch.float32 else a for a in args)
            if kwargs.get("dtype") is torch.float32:
                kwargs["dtype"] = torch.float64
        return function(*args, **kwargs)


class Model:
    def __init__(self, folder):
        def read(name):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return json.load(file)
        self.reference, facts, self.pixels = read("reference.json"), read("fixture.json"), read("preprocessor_config.json")
        config = transformers.AutoConfig.from_pretrained(folder)
        self.model = transformers.AutoModelForImageTextToText.from_config(config).eval()
        stored = load_file(os.path.join(folder, "model.safetensors"))
        missing, unexpected = self.model.load_state_dict(stored, strict=False)
        if unexpected or set(missing) != set(facts["tied_weights"]):
            sys.exit(f"{folder}: weights that are missing {missing} or surplus {unexpected}")
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.samples = self.read_samples(os.path.join(folder, "data-000000.tar"))

    @staticmethod
    def read_samples(path):
        with tarfile.open(path) as tar:
            files = {member.name: tar.extractfile(member).read() for member in tar}
        samples = {}
        for name in files:
            if name.endswith(".json"):
                sample = json.loads(files[name])
                sample["pictures"] = [numpy.asarray(Image.open(io.BytesIO(files[f"{name[:-5]}.{i}.png"])))
                                      for i in range(sample["images"])]
                samples[name[:-5]] = sample
        return samples

    def loss_of(self, key, dtype):
        """Sum over the sample's label tokens, and how many there are."""
        sample = self.samples[key]
        ids, labels = torch.tensor([sample["input_ids"]]), torch.tensor(sample["labels"][1:])
        inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
        if sample["pictures"]:
            x = torch.from_numpy(numpy.stack(sample["pictures"])).to(dtype) * self.pixels["rescale_factor"]
            mean, deviation = (torch.tensor(self.pixels[name], dtype=dtype) for name in ("image_mean", "image_std"))
            inputs["pixel_values"] = ((x - mean) / deviation).permute(0, 3, 1, 2).contiguous()
        with InDouble() if dtype == torch.float64 else contextlib.nullcontext():
            logits = self.model(**inputs).logits
        return F.cross_entropy(logits[0, :-1], labels, ignore_index=-100, reduction="sum"), int((labels != -100).sum())

    def train(self, variant, dtype, steps):
        """[(loss, gradient norm, labels)], and the gradients of the first step by name."""
        settings = self.reference["optimizer"]
        self.model.to(dtype).load_state_dict(self.state)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(not name.startswith(FROZEN[variant]))
            parameter.grad = None
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings["weight_decay"]},
                  {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=settings["lr"], betas=settings["betas"], eps=settings["eps"], foreach=False)
        log, first = [], None
        for step in steps:
            optimizer.zero_grad(set_to_none=True)
            parts = [self.loss_of(key, dtype) for group in step["groups"] for key in group]
            count = sum(labels for _, labels in parts)
            total = 0.0
            for part, _ in parts:
                total = total + part
            loss = total / count
            loss.backward()
            if first is None:
                first = {name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}
            norm = torch.nn.utils.clip_grad_norm_(trained, settings["clip_grad_norm"], foreach=False)
            optimizer.step()
            log.append((float(loss.detach()), float(norm), count))
        return log, first


def worst_deviation(pairs):
    return max(abs(value / float(expected) - 1) for value, expected in pairs)


def same_as_reference(model, variant):
    """The float64 gradients of step 0, once the whole run has given reference.json's numbers."""
    expected = model.reference["variants"][variant]
    log, first = model.train(variant, torch.float64, expected["steps"])
    for (_, _, count), step in zip(log, expected["steps"], strict=True):
        if count != step["label_tokens"]:
            sys.exit(f"{variant}: {count} label tokens in step {step['step']}, reference.json has {step['label_tokens']}")
    norms = expected["gradient_norms_step0_float64"]
    if first.keys() != norms.keys():
        sys.exit(f"{variant}: other parameters have gradients: {first.keys() ^ norms.keys()}")
    largest = max(float(norm) for norm in norms.values())
    deviations = {
        "loss": worst_deviation((loss, step["loss_float64"]) for (loss, _, _), step in zip(log, expected["steps"])),
        "gradient norm": worst_deviation((norm, step["grad_norm_float64"]) for (_, norm, _), step in zip(log, expected["steps"])),
        # A gradient that is zero in exact arithmetic (a bias that softmax takes no notice of) is rounding alone.
        "gradients": max(abs(float(first[name].norm()) - float(norm)) / max(float(norm), 1e-3 * largest)
                         for name, norm in norms.items())}
    print(f"{variant}: largest deviation from reference.json: "
          + ", ".join(f"{name} {value:.1e}" for name, value in deviations.items()), flush=True)
    if max(deviations.values()) > 1e-12:
        sys.exit(f"{variant}: not the run of reference.json")
    return first


def table(model):
    exact = same_as_reference(model, "train_all")
    for variant in ("freeze_vision", "freeze_llm"):
        for name, gradient in same_as_reference(model, variant).items():
            if (gradient - exact[name]).norm() > 1e-12 * exact[name].norm() + 1e-18:
                sys.exit(f"{variant}: the gradient of {name} is another than with everything trained")
    steps = model.reference["variants"]["train_all"]["steps"][:1]
    _, rounded = model.train("train_all", torch.float32, steps)
    rows = {}
    for name, gradient in exact.items():
        in_double = projections(name, gradient.flatten().tolist())
        in_single = projections(name, rounded[name].flatten().tolist())
        rows[name] = {"norm": repr(float(gradient.norm())), "projections": [repr(p) for p in in_double],
                      "float32_deviation": f"{max(abs(a - b) for a, b in zip(in_double, in_single, strict=True)):.2e}"}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    torch.set_num_threads(1)
    for folder in parser.parse_args().folders:
        print(folder, flush=True)
        rows = table(Model(folder))
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        with open(os.path.join(folder, "gradients.json"), "w", encoding="utf-8") as file:
            file.write("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
