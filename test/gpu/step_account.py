#!/usr/bin/env python3
"""What one training step of a cuda program should take: step_account.py PROGRAM [--tiles V] [--tokens N] [--samples S] [--labels L]

Reads PROGRAM (docs/program.md) and lists for every kernel call of a step its floating-point operations, the bytes that it must read and write (an
element counts once a call) and the time that a device of the given figures needs for them at best: the largest of operations over --tflops, bytes over
--bandwidth, and --launch-us for each launch. Products also lose what their tiles leave idle: 128 x 256 results (or fewer) a multiprocessor, sums split
where that is better; those of rows that do not begin at multiples of 16 bytes have a third of the rate. Nothing is measured; where kernels are slower
than the device allows, a step is.

Tables: by kind of kernel; --layers: by layer and kind; --calls: every call of every function, dearest first.
"""
import argparse
import collections
import json
import math
import os
import sys

BYTES = {"f32": 4, "bf16": 2, "i32": 4, "i64": 8, "bool": 1, "f64": 8}
NOT_COUNTED = {"workspace", "scratch"}
KINDS = ["gemm", "attention", "loss", "fused", "column sums", "reduce", "rope", "copy", "fill", "rows", "optimizer", "other"]
# Results of a tile of a product, and the rate of its inner loop relative to the best.
TILES = [(128, 256, 1.0), (256, 128, 1.0), (128, 192, 0.97), (128, 128, 0.92), (64, 256, 0.85), (64, 128, 0.75), (64, 64, 0.55)]
SPLITS = [1, 2, 3, 4, 6, 8, 12, 16]
LABEL_STEP, VOCABULARY_STEP = 64, 64  # rows of linear_cross_entropy, and elements of its rows, are rounded up to these
MISALIGNED = 1 / 3  # the rate of products whose rows do not begin at multiples of 16 bytes: a guess
OWN_LAUNCHES = {"attention_backward": 3, "embedding_backward": 3, "image_merge_backward": 4}


class Load:
    """Sizes of a micro-batch."""

    def __init__(self, tiles, tokens, samples, labels):
        self.tiles, self.tokens, self.labels = tiles, tokens, labels
        short = tokens // samples
        self.lengths = [short + (s < tokens - short * samples) for s in range(samples)]

    def size(self, extent):
        return extent if isinstance(extent, int) else extent[0] + extent[1] * self.tiles + extent[2] * self.tokens


class Call:
    """A kernel call of a function: what it is and what it costs."""

    def __init__(self, function, description, load):
        self.function, self.load = function, load
        self.kernel, self.attributes = description["kernel"], description["attributes"]
        self.label = description["label"]
        self.operands = dict(description["operands"])
        self.kind, self.launches, self.flops, self.aligned = "other", 1, 0, True
        self.bytes = sum(self.traffic(name) for name in self.operands)
        getattr(self, "as_" + self.kernel, lambda: None)()

    def shape(self, name):
        return [self.load.size(extent) for extent in self.operands[name][2]]

    def elements(self, name):
        """Those that differ: dimensions of stride 0 repeat."""
        _, _, shape, strides = self.operands[name]
        return math.prod(self.load.size(e) for e, s in zip(shape, strides) if s != 0 or self.load.size(e) == 0)

    def width(self, name):
        return BYTES[self.function["buffers"][self.operands[name][0]]["dtype"]]

    def traffic(self, name):
        if name in NOT_COUNTED:
            return 0
        both = self.attributes.get("accumulate") and name in ("c", "dst")
        return self.elements(name) * self.width(name) * (2 if both or name in ("dweight", "dbias", "dtable", "sum_a", "sum_b") else 1)

    def as_gemm(self):
        self.kind = "gemm"
        *batch, m, n = self.shape("c")
        count, k = math.prod(batch), self.shape("a")[-1]
        if self.elements("b") == math.prod(self.shape("b")[-2:]):  # the batches are rows
            m, count = count * m, 1
        self.aligned = all(self.is_aligned(name) for name in "abc")
        self.products = [(m, n, k, count)]
        self.flops = 2 * count * m * n * k

    def is_aligned(self, name):
        strides = self.operands[name][3]
        return all(self.load.size(stride) * self.width(name) % 16 == 0 for stride in strides if self.load.size(stride) != 1)

    def pairs(self, rows):
        mask, segment = self.attributes.get("mask", "full"), self.attributes.get("segment_rows", 0)
        lengths = [segment] * (rows // segment) if segment else self.load.lengths
        if mask == "full":
            return sum(n * n for n in lengths)
        window = self.attributes.get("window", 0) if mask == "sliding" else max(lengths, default=0)
        return sum(min(n, window) * (min(n, window) + 1) // 2 + max(0, n - window) * window for n in lengths)

    def as_attention(self, products=1):
        self.kind = "attention"
        rows, heads, size = self.shape("q")
        self.flops = products * 2 * heads * self.pairs(rows) * (size + self.shape("v")[-1])

    def as_attention_backward(self):
        self.as_attention(2.5)  # the scores again, and four products
        self.launches = OWN_LAUNCHES[self.kernel]

    def as_fused(self):
        written = sum(self.traffic(name) for name in self.operands if name.startswith("out"))
        self.kind = "column sums" if self.attributes.get("blocks") and 2 * written < self.bytes - written else "fused"

    def as_reduce(self):
        self.kind = "reduce"

    def as_rope(self):
        self.kind = "rope"
        self.bytes -= self.traffic("cos") + self.traffic("sin")
        self.bytes += 2 * min(self.shape("cos")[0], self.shape("x")[0]) * self.shape("cos")[1] * self.width("cos")

    def as_copy(self):
        self.kind = "copy"

    def as_fill(self):
        self.kind = "fill"

    def as_rows(self, table, chosen):
        """Rows of a table by their numbers: as many as are chosen."""
        self.kind = "rows"
        self.launches = OWN_LAUNCHES.get(self.kernel, 1)
        if table in self.operands:
            full = self.traffic(table)
            self.bytes += min(0, full * self.shape(chosen)[0] // max(1, self.shape(table)[0]) - full)

    def as_embedding(self):
        self.as_rows("table", "out")

    def as_embedding_backward(self):
        self.as_rows("dtable", "dout")

    def as_image_merge(self):
        self.as_rows(None, None)

    as_image_merge_backward = as_image_merge

    def as_linear_cross_entropy(self):
        self.kind = "loss"
        rows, features = self.shape("hidden")
        width, stored = self.shape("weight")[0], self.width("scratch")
        labels = min(rows, -(-self.load.labels // LABEL_STEP) * LABEL_STEP)
        line = width if width < 512 else -(-width // VOCABULARY_STEP) * VOCABULARY_STEP
        small, gradients = self.width("hidden"), [name for name in ("dhidden", "dweight") if name in self.operands]
        apart = bool(gradients) and stored != small
        row = line * (stored + (small if apart else 0)) + features * small * (1 + ("dhidden" in gradients))
        block = max(1, min(rows, (self.elements("scratch") * stored - 4 * rows) // row))
        blocks = max(1, -(-labels // block))
        logits, slopes = labels * width * stored, labels * width * (small if apart else stored)
        weight, part = width * features * small, labels * features * small
        # logits written, read twice, their gradient written; products read what they need.
        self.bytes = logits + blocks * weight + 4 * part
        parts = [block] * (labels // block) + [labels % block]
        shapes = [[(rows, width, features, 1) for rows in parts]]
        if gradients:
            self.bytes += 2 * logits + slopes
        if "dhidden" in gradients:
            self.bytes += slopes + blocks * weight + 3 * part
            shapes.append([(rows, features, width, 1) for rows in parts])
        if "dweight" in gradients:
            self.bytes += slopes + part + 2 * blocks * width * features * self.width("dweight")
            shapes.append([(width, features, rows, 1) for rows in parts])
        self.products = sum(shapes, [])
        self.flops = 2 * labels * width * features * len(shapes)
        self.launches = 3 + blocks * (2 + 2 * len(shapes))


def product_seconds(m, n, k, count, device):
    """Of a product on tiles: the multiprocessors work in waves; a split sum costs its parts' way through memory."""
    if not m * n * k:
        return 0
    best = math.inf
    for rows, cols, rate in TILES:
        tiles = -(-m // rows) * -(-n // cols) * count
        for split in SPLITS:
            if split > 1 and k // split < 256:
                break
            waves = -(-tiles * split // device.processors)
            seconds = waves * device.processors * 2 * rows * cols * (k / split) / (device.flops * rate)
            seconds += 0 if split == 1 else 8 * split * m * n * count / device.bandwidth
            best = min(best, seconds)
    return best


class Device:
    def __init__(self, tflops, bandwidth, launch, processors):
        self.flops, self.bandwidth, self.launch, self.processors = tflops * 1e12, bandwidth * 1e12, launch * 1e-6, processors

    def floor(self, call):
        """By operations and bytes alone."""
        return max(call.flops / self.flops, call.bytes / self.bandwidth)

    def seconds(self, call):
        products = sum(product_seconds(*product, self) for product in getattr(call, "products", []))
        products /= 1 if call.aligned else MISALIGNED
        if call.kind == "loss":  # products and what is between them follow each other
            return max(products, call.flops / self.flops) + call.launches * self.launch + max(0, call.bytes / self.bandwidth - products) / 2
        return max(self.floor(call), products, call.launches * self.launch)


class Sum:
    def __init__(self):
        self.launches = self.flops = self.bytes = self.seconds = 0

    def add(self, call, device, times=1):
        self.launches += times * call.launches
        self.flops += times * call.flops
        self.bytes += times * call.bytes
        self.seconds += times * device.seconds(call)


class Optimizer:
    """Norm, AdamW and the zeros of the next step's gradients, over all trainable parameters."""
    kind, kernel, label, products, aligned = "optimizer", "AdamW", "", [], True

    def __init__(self, parameters):
        self.flops, self.bytes, self.launches = 0, 0, 3
        for parameter in parameters:
            if parameter["trainable"]:
                copy = 2 if parameter["offsets"][4] >= 0 else 0
                self.bytes += math.prod(parameter["shape"]) * (4 + 16 + 16 + copy)


class Account:
    """A step of a program at a load: sums by kind, and by layer and kind."""

    def __init__(self, program, load, device):
        self.device = device
        with open(os.path.join(program, "manifest.json")) as file:
            self.manifest = json.load(file)
        with open(os.path.join(program, "functions.json")) as file:
            self.functions = json.load(file)
        with open(os.path.join(program, "stages.json")) as file:
            self.stages = json.load(file)
        bucket = self.manifest["row_bucket"]
        load.tokens = -(-load.tokens // bucket) * bucket
        self.calls = [[Call(function, call, load) for call in function["calls"]] for function in self.functions]
        self.kinds = collections.defaultdict(Sum)
        self.layers = collections.defaultdict(lambda: collections.defaultdict(Sum))
        self.uses = collections.Counter()
        for stage in self.stages:
            self.add_stage(stage)
        self.seconds = sum(kind.seconds for kind in self.kinds.values())
        self.model_flops = sum(times * sum(self.model_work(call) for call in self.calls[f]) for f, times in self.uses.items())

    @staticmethod
    def model_work(call):
        """As MFU counts it: what a backward computes again does not count."""
        return call.flops / 2.5 * 2 if call.kernel == "attention_backward" else call.flops

    def add_stage(self, stage):
        chunks = stage["modes"]["train"]["chunks"]
        for kind, _, index in stage["modes"]["train"]["actions"]:
            if kind in ("forward", "backward", "input_grad", "weight_grad"):
                for layer in chunks[index][kind]:
                    self.uses[layer["function"]] += 1
                    self.add_layer(layer)
        optimizer = Optimizer(stage["parameters"])
        self.kinds["optimizer"].add(optimizer, self.device)
        self.layers["optimizer"]["optimizer"].add(optimizer, self.device)

    def add_layer(self, layer):
        name = self.functions[layer["function"]]["name"]
        for call in self.calls[layer["function"]]:
            self.kinds[call.kind].add(call, self.device)
            self.layers[name][call.kind].add(call, self.device)

    def row(self, name, found):
        return (f"{name:34s} {found.launches:7d} {found.flops / 1e12:9.2f} {found.bytes / 1e9:9.2f} {found.seconds * 1e3:9.2f} "
                f"{100 * found.seconds / self.seconds:6.1f}%")

    def print(self, layers):
        print(f"{'':34s} {'calls':>7s} {'TFLOP':>9s} {'GB':>9s} {'ms':>9s} {'share':>7s}")
        for kind in sorted(self.kinds, key=KINDS.index):
            print(self.row(kind, self.kinds[kind]))
        if layers:
            for layer, kinds in self.layers.items():
                for kind in sorted(kinds, key=KINDS.index):
                    print(self.row(f"{layer}: {kind}", kinds[kind]))
        whole = Sum()
        for kind in self.kinds.values():
            for field in vars(whole):
                setattr(whole, field, getattr(whole, field) + getattr(kind, field))
        print(self.row("step", whole))
        apart = sum(found.seconds for kind, found in self.kinds.items() if kind not in ("gemm", "attention", "loss"))
        print(f"predicted step {self.seconds * 1e3:.1f} ms, of it {100 * apart / self.seconds:.1f} % in neither products, attention nor the loss; "
              f"model FLOPs {self.model_flops / 1e12:.1f} T: at best {self.model_flops / self.seconds / 1e12:.0f} TFLOP/s")

    def memory(self, stage):
        """Bytes of a stage by what lies there."""
        found = collections.Counter()
        for parameter in stage["parameters"]:
            elements = math.prod(parameter["shape"])
            data, gradient, *moments, master = parameter["offsets"]
            found["parameters"] += elements * BYTES[parameter["dtype"]] * (data >= 0)
            found["gradients"] += 4 * elements * (gradient >= 0)
            found["moments"] += 4 * elements * sum(offset >= 0 for offset in moments)
            found["float32 values"] += 4 * elements * (master >= 0)
        found["constants, gaps"] = stage["persistent_bytes"] - sum(found.values())
        for region in stage["modes"]["train"]["regions"]:
            found[region["name"].split(" ")[0]] += region["bytes"] * len(set(region["offsets"]))
        return found

    def print_memory(self):
        for stage in self.stages:
            parts = ", ".join(f"{name} {size / 1e9:.2f}" for name, size in self.memory(stage).items() if size >= 5e6)
            print(f"memory of stage {stage['id']}: {stage['arena_bytes'] / 1e9:.2f} GB: {parts}")

    def print_calls(self):
        rows = []
        for number, times in self.uses.items():
            for call in self.calls[number]:
                shape = call.shape("c") + [call.shape("a")[-1]] if call.kernel == "gemm" else max(map(call.shape, call.operands), key=math.prod)
                rows.append((times * self.device.seconds(call), times, self.functions[number]["name"], call, "x".join(map(str, shape))))
        for seconds, times, function, call, shape in sorted(rows, key=lambda row: -row[0]):
            print(f"{seconds * 1e3:8.2f} ms {times:5d} x {self.device.seconds(call) * 1e6:8.1f} us (floor {self.device.floor(call) * 1e6:8.1f}) "
                  f"{function:22s} {call.kernel:20s} {call.label:24s} {shape}{'' if call.aligned else ' misaligned'}")


def add_device_options(parser):
    parser.add_argument("--tflops", type=float, default=790, help="of products; default: measured on an H200 in bfloat16")
    parser.add_argument("--bandwidth", type=float, default=4.3, help="TB/s of copies; default: measured on an H200")
    parser.add_argument("--launch-us", type=float, default=3, help="of a kernel within a graph, at least")
    parser.add_argument("--processors", type=int, default=132)


def device_of(args):
    return Device(args.tflops, args.bandwidth, args.launch_us, args.processors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--tiles", type=int, help="of every micro-batch; default: the program's cap")
    parser.add_argument("--tokens", type=int, help="of every micro-batch; default: the program's cap")
    parser.add_argument("--samples", type=int, default=8, help="of every micro-batch, equally long")
    parser.add_argument("--labels", type=int, help="tokens with a target of every micro-batch; default: a quarter")
    add_device_options(parser)
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("--calls", action="store_true")
    args = parser.parse_args()
    with open(os.path.join(args.program, "manifest.json")) as file:
        manifest = json.load(file)
    tokens = manifest["tokens_cap"] if args.tokens is None else args.tokens
    load = Load(manifest["tiles_cap"] if args.tiles is None else args.tiles, tokens, args.samples,
                tokens // 4 if args.labels is None else args.labels)
    account = Account(args.program, load, device_of(args))
    account.print(args.layers)
    account.print_memory()
    if args.calls:
        account.print_calls()


if __name__ == "__main__":
    sys.exit(main())
