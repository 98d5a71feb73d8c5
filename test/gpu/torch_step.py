#!/usr/bin/env python3
"""Training steps of the benchmark models in PyTorch: torch_step.py MODEL DATA --tokens N --tiles V [--microbatches 4] ...

MODEL is a name of models.py, DATA a folder of make_data.py. Transformers' model with packed sequences: attention over the text by torch.nn.attention.varlen (flash attention of
ragged sequences), over tiles by scaled_dot_product_attention; torch.compile; fused AdamW and clipping as omnibal-run
has them; the language head at labelled positions only. Prints JSON: losses, milliseconds and tokens of every step, peak bytes.

Numbers, by --mode: "autocast" has float32 parameters under bfloat16 autocast, "masters" bfloat16 parameters with float32
copies that AdamW updates, "float32" nothing but float32. Shapes, by --shapes: "padded" fills every micro-batch up to the
caps (what is compiled once fits), "exact" has sizes as they are, rounded up to --bucket tokens (torch.compile marks them
dynamic).
"""
import argparse
import inspect
import io
import json
import os
import sys
import tarfile
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402


def attention_of_packed(module, query, key, value, attention_mask, scaling=None, dropout=0.0, cu_seq_lens_q=None,
                        max_length_q=None, **_):
    """[1, heads, tokens, features] of samples in a row, or [tiles, heads, tokens, features] of a vision tower."""
    if cu_seq_lens_q is None:
        return F.scaled_dot_product_attention(query, key, value, scale=scaling).transpose(1, 2), None
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    if query.is_cuda and query.dtype == torch.bfloat16:
        return ragged(q, k, v, cu_seq_lens_q, max_length_q, scaling)[None], None
    return by_samples(q, k, v, cu_seq_lens_q.tolist(), scaling)[None], None


def ragged(q, k, v, borders, longest, scaling):
    from torch.nn.attention.varlen import varlen_attn
    known = inspect.signature(varlen_attn).parameters
    options = {"scale": scaling} if "scale" in known else {}
    options |= {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if "enable_gqa" in known:
        options["enable_gqa"] = True
    elif k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return varlen_attn(q, k, v, borders, borders, longest, longest, **options)


def by_samples(q, k, v, borders, scaling):
    """Sample by sample: float32, and machines without a GPU."""
    parts = []
    for begin, end in zip(borders, borders[1:]):
        if end > begin:
            part = [x[begin:end].transpose(0, 1)[None] for x in (q, k, v)]
            parts.append(F.scaled_dot_product_attention(*part, is_causal=True, scale=scaling, enable_gqa=True)[0].transpose(0, 1))
    return torch.cat(parts)


def load_samples(folder):
    files = {}
    with tarfile.open(os.path.join(folder, "data-000000.tar")) as tar:
        for member in tar:
            key, kind = member.name.split(".", 1)
            files.setdefault(key, {})[kind] = tar.extractfile(member).read()
    return [files[key] for key in files]


class Batches:
    """The micro-batches of DATA in order, on the device before timing starts (which omnibal-run does not get)."""

    def __init__(self, args, device):
        self.args, self.device = args, device
        self.samples, self.cache = load_samples(args.data), {}
        with open(os.path.join(args.data, "preprocessor_config.json")) as file:
            self.prep = json.load(file)
        numbers, offsets = (np.load(os.path.join(args.data, "batches", name)) for name in ("samples.npy", "groups.npy"))
        self.groups = [numbers[begin:end].tolist() for begin, end in zip(offsets, offsets[1:])]

    def pixels(self, data):
        if data not in self.cache:
            picture = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=np.float32).transpose(2, 0, 1)
            mean, std = (np.array(self.prep[k], dtype=np.float32)[:, None, None] for k in ("image_mean", "image_std"))
            self.cache[data] = torch.from_numpy((picture * self.prep["rescale_factor"] - mean) / std)
        return self.cache[data]

    def micro_batch(self, group):
        ids, targets, positions, borders, pixels = [], [], [], [0], []
        for number in group:
            files = self.samples[number]
            sample = json.loads(files["json"])
            ids += sample["input_ids"]
            targets += sample["labels"][1:] + [-100]
            positions += range(len(sample["input_ids"]))
            borders.append(len(ids))
            pixels += [self.pixels(files[f"{t}.jpg"]) for t in range(sample["images"])]
        tokens, tiles = len(ids), len(pixels)
        padded = self.args.shapes == "padded"
        rows = self.args.tokens if padded else -(-tokens // self.args.bucket) * self.args.bucket
        fill = rows - tokens
        if fill:  # a sample of its own, without labels
            ids, targets = ids + [models.IMAGE + 1] * fill, targets + [-100] * fill
            positions += range(fill)
            borders.append(rows)
        borders += [rows] * (self.args.samples + 2 - len(borders))
        if padded:  # tiles that no token shows
            pixels += [torch.zeros_like(next(iter(self.cache.values())))] * (self.args.tiles - tiles)
        to = lambda values: torch.tensor(values, device=self.device)
        return {"ids": to(ids)[None], "targets": to(targets), "positions": to(positions)[None],
                "borders": to(borders).int(), "pixels": torch.stack(pixels).to(self.device) if pixels else None,
                "shown": tiles, "tokens": tokens, "labels": sum(t != -100 for t in targets)}

    def step(self, index):
        count = self.args.microbatches
        first = index * count % (len(self.groups) // count * count)
        return [self.micro_batch(group) for group in self.groups[first:first + count]]


class Trainer:
    def __init__(self, args, device):
        from transformers import AttentionInterface, AutoConfig, AutoModelForImageTextToText
        AttentionInterface.register("packed", attention_of_packed)
        self.args, self.device = args, device
        config = models.MODELS[args.model]
        config = AutoConfig.for_model(**{k: v for k, v in config.items() if k != "architectures"})
        with torch.device(device):
            self.model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32, attn_implementation="packed")
        weights = load_file(os.path.join(args.data, "model.safetensors"))
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        if unexpected or missing:
            sys.exit(f"torch_step.py: the names of weights and model differ: {unexpected[:3]} {missing[:3]}")
        self.masters = None
        self.parameters = list(self.model.parameters())
        if args.mode == "masters":
            self.masters = [torch.nn.Parameter(p.detach().clone()) for p in self.parameters]
            for parameter in self.parameters:  # not the buffers: rotary frequencies stay float32
                parameter.data = parameter.data.to(torch.bfloat16)
        updated = self.masters or self.parameters
        decay = [p for p in updated if p.dim() >= 2], [p for p in updated if p.dim() < 2]
        self.optimizer = torch.optim.AdamW([{"params": decay[0], "weight_decay": 0.05}, {"params": decay[1], "weight_decay": 0.0}],
                                           lr=args.lr, betas=(0.9, 0.999), eps=1e-8, fused=device == "cuda")
        self.run = self.forward if args.eager else torch.compile(self.forward, dynamic=None if args.shapes == "padded" else True)

    def forward(self, batch_ids, positions, borders, pixels, shown, keep, targets):
        inner = self.model.model
        embeddings = inner.get_input_embeddings()(batch_ids)
        if pixels is not None:
            features = inner.get_image_features(pixel_values=pixels.to(embeddings.dtype))
            features = getattr(features, "pooler_output", features)
            features = features[:shown].flatten(0, 1).to(embeddings.dtype)
            embeddings = embeddings.masked_scatter((batch_ids == models.IMAGE)[..., None].expand_as(embeddings), features)
        longest = self.args.tokens
        hidden = inner.language_model(inputs_embeds=embeddings, position_ids=positions, use_cache=False,
                                      attention_mask={"full_attention": None}, cu_seq_lens_q=borders, cu_seq_lens_k=borders,
                                      max_length_q=longest, max_length_k=longest).last_hidden_state[0]
        return F.cross_entropy(self.model.lm_head(hidden[keep]).float(), targets, reduction="sum")

    def micro_batch_loss(self, batch):
        keep = torch.nonzero(batch["targets"] != -100)[:, 0]
        pixels = batch["pixels"]
        if self.args.shapes != "padded" and not self.args.eager:
            for tensor in (batch["ids"], batch["positions"]):
                torch._dynamo.maybe_mark_dynamic(tensor, 1)
            if pixels is not None:
                torch._dynamo.maybe_mark_dynamic(pixels, 0)
        torch._dynamo.maybe_mark_dynamic(keep, 0)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.args.mode == "autocast"):
            return self.run(batch["ids"], batch["positions"], batch["borders"], pixels, batch["shown"], keep,
                            batch["targets"][keep])

    def step(self, batches):
        labels = max(1, sum(batch["labels"] for batch in batches))
        total = torch.zeros((), device=self.device, dtype=torch.float64)
        for batch in batches:
            loss = self.micro_batch_loss(batch)
            loss.backward()
            total += loss.detach()
        if self.masters:
            for master, parameter in zip(self.masters, self.parameters):
                master.grad = parameter.grad.float()
                parameter.grad = None
        updated = self.masters or self.parameters
        for parameter in updated:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch._foreach_mul_([p.grad for p in updated], 1 / labels)
        torch.nn.utils.clip_grad_norm_(updated, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.masters is not None)
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.masters)
        return total / labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=models.MODELS)
    parser.add_argument("data")
    parser.add_argument("--tokens", type=int, required=True, help="cap of a micro-batch")
    parser.add_argument("--tiles", type=int, required=True, help="cap of a micro-batch")
    parser.add_argument("--samples", type=int, default=64, help="most samples in a micro-batch")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--bucket", type=int, default=64)
    parser.add_argument("--mode", choices=["autocast", "masters", "float32"], default="autocast")
    parser.add_argument("--shapes", choices=["padded", "exact"], default="padded")
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    batches, trainer = Batches(args, device), Trainer(args, device)
    result = {"loss": [], "ms": [], "tokens": []}
    for index in range(args.warmup + args.steps):
        step = batches.step(index)
        wait()
        begin = time.perf_counter()
        loss = trainer.step(step)
        wait()
        result["ms"].append(1e3 * (time.perf_counter() - begin))
        result["loss"].append(loss.item())
        result["tokens"].append(sum(batch["tokens"] for batch in step))
        if index + 1 == args.warmup and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
    result["peak_bytes"] = torch.cuda.max_memory_reserved() if device == "cuda" else 0
    result["warmup"] = args.warmup
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
