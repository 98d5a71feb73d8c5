#!/usr/bin/env python3
"""Writes gradients.json beside a model's reference.json: random projections of every parameter's gradient, by PyTorch.

    gradient_projections.py test/data/tiny-internvl

The model is built by Transformers from config.json and model.safetensors. All steps of reference.json are run again in
float64; losses and norms must be its own to 1e-12 relative, else nothing is written. Then the gradients of the first
step are projected (test/support/python/projections.py), in float64 and, to know what rounding does, in float32. At step 0 freezing
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "python"))
from projections import projections  # noqa: E402

VISION = ("model.vision_tower.", "model.visual.", "model.vision_model.")
FROZEN = {"train_all": (), "freeze_vision": VISION,
          "freeze_llm": (*VISION, "model.language_model.", "model.text_model.", "lm_head.")}


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
        self.image_token = facts["image_token_id"]
        self.patches = facts if facts["pixel_values_layout"] == "patches" else None
        self.rows_of_pictures = facts["pixel_values_layout"] == "1NCHW"
        self.projector = tuple(facts.get("projector_prefixes", ()))
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

    def in_tiles(self, planes):
        tiles = torch.stack(planes).contiguous()
        return dict(pixel_values=tiles[None] if self.rows_of_pictures else tiles)

    def in_patches(self, planes, ids):
        """Rows of patches, merge x merge neighbors together, and the pictures' sizes in patches."""
        p, m, t = (self.patches[name] for name in ("patch_size", "merge_size", "temporal_patch_size"))
        rows, grids = [], []
        for plane in planes:
            height, width = plane.shape[1] // p, plane.shape[2] // p
            blocks = plane.reshape(3, height // m, m, p, width // m, m, p).permute(1, 4, 2, 5, 0, 3, 6)
            rows.append(blocks[..., None, :, :].expand(*blocks.shape[:5], t, p, p).reshape(height * width, 3 * t * p * p))
            grids.append([1, height, width])
        return dict(pixel_values=torch.cat(rows), image_grid_thw=torch.tensor(grids),
                    mm_token_type_ids=(ids == self.image_token).int())

    def loss_of(self, key, dtype, loss=None):
        """Sum over the sample's label tokens, cross entropy or another `loss` of logits and labels, and how many there are."""
        sample = self.samples[key]
        ids, labels = torch.tensor([sample["input_ids"]]), torch.tensor(sample["labels"][1:])
        inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
        if sample["pictures"]:
            # Reference runs of pictures of any size took what the processor gives, in float32.
            pixels = torch.float32 if self.patches else dtype
            mean, deviation = (torch.tensor(self.pixels[name], dtype=pixels) for name in ("image_mean", "image_std"))
            planes = [((torch.tensor(picture).to(pixels) * self.pixels["rescale_factor"] - mean) / deviation)
                      .permute(2, 0, 1).to(dtype) for picture in sample["pictures"]]
            inputs.update(self.in_patches(planes, ids) if self.patches else self.in_tiles(planes))
        with InDouble() if dtype == torch.float64 else contextlib.nullcontext():
            logits = self.model(**inputs).logits
        loss = loss or (lambda rows, labels: F.cross_entropy(rows, labels, ignore_index=-100, reduction="sum"))
        return loss(logits[0, :-1], labels), int((labels != -100).sum())

    def train(self, variant, dtype, steps):
        """[(loss, gradient norm, labels)], and the gradients of the first step by name."""
        settings = self.reference["optimizer"]
        self.model.to(dtype).load_state_dict(self.state)
        for name, parameter in self.model.named_parameters():
            kept = variant != "train_all" and name.startswith(self.projector or ("model.multi_modal_projector.",))
            parameter.requires_grad_(kept or not name.startswith(FROZEN[variant]))
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
