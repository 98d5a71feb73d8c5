#!/usr/bin/env python3
"""Training steps of the benchmark models in PyTorch: torch_step.py MODEL DATA --tokens N --tiles V [--microbatches 4] ...

MODEL is a name of models.py, DATA a folder of make_data.py. Transformers' model with packed sequences: attention over
the text by torch.nn.attention.varlen (flash attention of ragged sequences), over tiles by scaled_dot_product_attention;
torch.compile of the whole model, or of every layer and the head (--compile blocks, which takes seconds); fused AdamW and
clipping as omnibal-run has them; the language head at labeled positions only. The host waits for the device once, after
the last step: micro-batches are copied a step ahead, losses and norms stay on the device, and steps are timed by events.

Numbers, by --mode: "autocast" has float32 parameters under bfloat16 autocast, "masters" bfloat16 parameters with float32
copies that AdamW updates, "float32" nothing but float32. Shapes, by --shapes: "padded" fills every micro-batch up to the
caps (what is compiled once fits), "exact" has sizes as they are, rounded up to --bucket tokens (torch.compile marks them
dynamic).

The last line is JSON: of every step `loss`, `norm` (of the gradient, before clipping), `ms`, `tokens` and `compiles` (how
many graphs torch.compile made in it); `graph_breaks`; `allocated_bytes` and `reserved_bytes`, PyTorch's own count of the
most memory after the warm-up.
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
os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")  # shapes that vary do not fragment memory

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
    if query.is_cuda and torch.is_autocast_enabled():  # rotary embeddings in float32 turn queries into float32
        q, k, v = (x.to(torch.bfloat16) for x in (q, k, v))
    if query.is_cuda and q.dtype == torch.bfloat16:
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
    """The micro-batches of DATA in order, on the host."""

    def __init__(self, args):
        self.args, self.samples, self.cache = args, load_samples(args.data), {}
        with open(os.path.join(args.data, "preprocessor_config.json")) as file:
            self.prep = json.load(file)
        numbers, offsets = (np.load(os.path.join(args.data, "batches", name)) for name in ("samples.npy", "groups.npy"))
        self.groups = [numbers[begin:end].tolist() for begin, end in zip(offsets, offsets[1:])]
        lengths = [len(json.loads(files["json"])["input_ids"]) for files in self.samples]
        # Constants of the run, so that neither of them makes torch.compile compile again.
        self.longest = max(lengths)
        self.segments = max(map(len, self.groups)) + -(-args.tokens // self.longest)

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
        tokens, shape = len(ids), (3, self.prep["size"]["height"], self.prep["size"]["width"])
        padded = self.args.shapes == "padded"
        rows = self.args.tokens if padded else -(-tokens // self.args.bucket) * self.args.bucket
        while len(ids) < rows:  # samples without labels
            fill = min(rows - len(ids), self.longest)
            ids, targets = ids + [models.IMAGE + 1] * fill, targets + [-100] * fill
            positions += range(fill)
            borders.append(len(ids))
        borders += [rows] * (self.segments + 1 - len(borders))
        if padded:  # tiles that no token shows
            pixels += [torch.zeros(shape)] * (self.args.tiles - len(pixels))
        keep = [i for i, target in enumerate(targets) if target != -100]
        tensors = {"ids": torch.tensor([ids]), "positions": torch.tensor([positions]), "keep": torch.tensor(keep, dtype=torch.long),
                   "targets": torch.tensor([targets[i] for i in keep], dtype=torch.long),
                   "borders": torch.tensor(borders, dtype=torch.int32),
                   "places": torch.tensor([i for i, token in enumerate(ids) if token == models.IMAGE], dtype=torch.long),
                   "pixels": torch.stack(pixels) if pixels else None}
        return tensors, tokens

    def step(self, index):
        """(micro-batches, tokens, label tokens)"""
        count = self.args.microbatches
        first = index * count % (len(self.groups) // count * count)
        made = [self.micro_batch(group) for group in self.groups[first:first + count]]
        return [tensors for tensors, _ in made], sum(tokens for _, tokens in made), sum(len(t["keep"]) for t, _ in made)


class Clock:
    """Times on the device between marks, read after the last one."""

    def __init__(self, device):
        self.device, self.marks = device, []

    def mark(self):
        if self.device == "cuda":
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def milliseconds(self):
        if self.device != "cuda":
            return [1e3 * (end - begin) for begin, end in zip(self.marks, self.marks[1:])]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in zip(self.marks, self.marks[1:])]


class Copies:
    """Micro-batches on the device, copied from pinned memory beside the computation of the step before."""

    def __init__(self, steps, device):
        self.steps, self.device, self.next = steps, device, None
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.start(0)

    def start(self, index):
        if index >= len(self.steps):
            return
        if self.stream is None:
            self.next = self.steps[index][0]
            return
        with torch.cuda.stream(self.stream):
            self.next = [{name: None if value is None else value.to(self.device, non_blocking=True) for name, value in batch.items()}
                         for batch in self.steps[index][0]]

    def take(self, index):
        """The step's; the copies of the next one begin."""
        batches = self.next
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            for batch in batches:
                for value in batch.values():
                    if value is not None:
                        value.record_stream(torch.cuda.current_stream())
        self.start(index + 1)
        return batches


def pinned(steps, device):
    if device != "cuda":
        return steps
    return [([{name: None if value is None else value.pin_memory() for name, value in batch.items()} for batch in batches], *rest)
            for batches, *rest in steps]


def graphs_compiled():
    """Graphs that torch.compile has made in this process, all recompilations included."""
    return torch._dynamo.utils.counters["frames"]["ok"]


class Trainer:
    def __init__(self, args, device, longest):
        from transformers import AttentionInterface, AutoConfig, AutoModelForImageTextToText
        AttentionInterface.register("packed", attention_of_packed)
        self.args, self.device, self.longest = args, device, longest
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
        # Nothing falls back to eager in silence when graphs get too many.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self.run, self.head = self.forward, self.loss_of
        options = {"backend": args.backend, "dynamic": None if args.shapes == "padded" else True}
        if args.compile == "model":
            self.run = torch.compile(self.forward, **options)
        elif args.compile == "blocks":
            for layer in self.layers():
                layer.compile(**options)
            self.head = torch.compile(self.loss_of, **options)

    def layers(self):
        """Those of the vision tower and of the language model: all of one kind share what is compiled."""
        return [layer for module in self.model.modules() if isinstance(module, torch.nn.ModuleList) for layer in module]

    def loss_of(self, hidden, targets):
        return F.cross_entropy(self.model.lm_head(hidden).float(), targets, reduction="sum")

    def forward(self, ids, positions, borders, pixels, places, keep, targets):
        inner = self.model.model
        embeddings = inner.get_input_embeddings()(ids)
        if pixels is not None:
            features = inner.get_image_features(pixel_values=pixels.to(embeddings.dtype))
            features = getattr(features, "pooler_output", features).flatten(0, 1).to(embeddings.dtype)
            if self.args.shapes == "padded":
                features = features[:places.shape[0]]
            embeddings = embeddings[0].index_copy(0, places, features)[None]
        longest = self.longest
        hidden = inner.language_model(inputs_embeds=embeddings, position_ids=positions, use_cache=False,
                                      attention_mask={"full_attention": None}, cu_seq_lens_q=borders, cu_seq_lens_k=borders,
                                      max_length_q=longest, max_length_k=longest).last_hidden_state[0]
        return self.head(hidden[keep], targets)

    def micro_batch_loss(self, batch):
        if self.args.compile != "none":
            dynamic = [("keep", 0), ("targets", 0), ("places", 0)]
            if self.args.shapes != "padded":
                dynamic += [("ids", 1), ("positions", 1), ("pixels", 0)]
            for name, dimension in dynamic:
                if batch[name] is not None:
                    torch._dynamo.maybe_mark_dynamic(batch[name], dimension)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.args.mode == "autocast"):
            return self.run(**batch)

    def step(self, batches, labels):
        """Mean loss of the labels and norm of its gradient, both still on the device."""
        total = torch.zeros((), device=self.device, dtype=torch.float64)
        for batch in batches:
            loss = self.micro_batch_loss(batch)
            (loss / max(1, labels)).backward()
            total += loss.detach()
        if self.masters:
            for master, parameter in zip(self.masters, self.parameters):
                if parameter.grad is not None:
                    master.grad = parameter.grad.float()
                    parameter.grad = None
        updated = self.masters or self.parameters
        for parameter in updated:
            if parameter.grad is None:  # a step without pictures: decay and moments go on, as in omnibal-run
                parameter.grad = torch.zeros_like(parameter)
        norm = torch.nn.utils.clip_grad_norm_(updated, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.masters)
        return total / max(1, labels), norm


def train(args, device):
    """What the last line says."""
    batches = Batches(args)
    steps = pinned([batches.step(index) for index in range(args.warmup + args.steps)], device)
    trainer, copies, clock = Trainer(args, device, batches.longest), Copies(steps, device), Clock(device)
    found, compiles = [], [graphs_compiled()]
    clock.mark()
    for index, (_, _, labels) in enumerate(steps):
        found.append(trainer.step(copies.take(index), labels))
        clock.mark()
        compiles.append(graphs_compiled())
        if index + 1 == args.warmup and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
    return {"ms": clock.milliseconds(), "loss": [loss.item() for loss, _ in found], "norm": [norm.item() for _, norm in found],
            "tokens": [tokens for _, tokens, _ in steps], "compiles": [b - a for a, b in zip(compiles, compiles[1:])],
            "graph_breaks": sum(torch._dynamo.utils.counters["graph_break"].values()),
            "allocated_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
            "reserved_bytes": torch.cuda.max_memory_reserved() if device == "cuda" else 0, "warmup": args.warmup}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=models.MODELS)
    parser.add_argument("data")
    parser.add_argument("--tokens", type=int, required=True, help="cap of a micro-batch")
    parser.add_argument("--tiles", type=int, required=True, help="cap of a micro-batch")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--bucket", type=int, default=64)
    parser.add_argument("--mode", choices=["autocast", "masters", "float32"], default="autocast")
    parser.add_argument("--shapes", choices=["padded", "exact"], default="padded")
    parser.add_argument("--compile", choices=["model", "blocks", "none"], default="model", help="what torch.compile gets")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    return parser


def main():
    args = arguments().parse_args()
    print(json.dumps(train(args, "cuda" if torch.cuda.is_available() else "cpu")))


if __name__ == "__main__":
    main()
