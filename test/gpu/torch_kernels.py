#!/usr/bin/env python3
"""Kernels against PyTorch's and the roofline: torch_kernels.py RESULTS.jsonl [--cases kernels.json] [--other NAME=RESULTS.jsonl]

RESULTS is what bench_device_kernels wrote of the same cases, or of some of them in another setting (--other). PyTorch's
side: linear layers with their activation under torch.compile, products added to gradients by addmm, ragged and ordinary
flash attention, torch.compile of norm, rope and cross-entropy, fused AdamW; where PyTorch has several ways, its fastest.
A time is that of 20 calls in a row by 20, from a CUDA graph where the calls can be captured, so that Python's launches do
not count; bench_device_kernels has 20 calls between two marks too. The roofline is the larger of FLOPs by the rate of a
large matrix product and bytes by the rate of a large copy, both measured here first. Without a GPU (to try the script,
with small --cases) times are those of the host's clock.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_step  # noqa: E402

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32}


CALLS, REPEATS = 20, 15
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CEILING_SIZES = {"cuda": (8192, 1 << 30), "cpu": (512, 1 << 22)}  # of a product and of a copy


def captured(function):
    """A function that replays CALLS calls from a CUDA graph, or None where they cannot be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            for _ in range(3):  # what is made on first use is made outside of the graph
                function()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                function()
        return graph.replay
    except RuntimeError:
        torch.cuda.synchronize()
        return None


def from_outside(function):
    """Marks calls that use what was made outside of them: a capture of them fails, and after it random numbers do too."""
    function.capturable = False
    return function


def repeated(function):
    def run():
        for _ in range(CALLS):
            function()
    return run


def elapsed_us(run):
    if DEVICE == "cpu":
        begin = time.perf_counter()
        run()
        return 1e6 * (time.perf_counter() - begin)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end)


def median_us(function):
    """(microseconds of a call, whether they are of a graph)"""
    for _ in range(3):
        function()
    graph = captured(function) if DEVICE == "cuda" and getattr(function, "capturable", True) else None
    run = graph or repeated(function)
    run()
    return statistics.median(elapsed_us(run) for _ in range(REPEATS)) / CALLS, graph is not None


def fastest_us(ways):
    """The least of the ways' times, and whether it is of a graph; a way that PyTorch lacks here is passed by."""
    times, problem = [], None
    for way in ways:
        try:
            times.append(median_us(way))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            problem = error
    if not times:
        raise problem
    return min(times)


def ceilings():
    size, elements = CEILING_SIZES[DEVICE]
    a, b = (torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    product = 2 * size ** 3 / median_us(lambda: a @ b)[0] * 1e6
    source = torch.randn(elements, device=DEVICE, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    return product, 2 * source.nbytes / median_us(lambda: target.copy_(source))[0] * 1e6


def tensors(case):
    made = {}
    for name, kind, shape, *strides in case.get("operands", []):
        dense = 1
        for size in shape:
            dense *= size
        dtype = TYPES[kind]
        flat = torch.randn(dense, device=DEVICE, dtype=torch.float32).to(dtype) if dtype.is_floating_point else \
            (torch.arange(dense, device=DEVICE) % 8192).to(dtype)
        made[name] = flat.as_strided(shape, strides[0]) if strides else flat.view(shape)
    return made


def added(c, a, b):
    """Ways of c += a @ b: with a sum in float32 of products in bfloat16 in one call, or with the product on its own."""
    if c.dtype == a.dtype:
        return [lambda: c.addmm_(a, b)]
    return [lambda: torch.addmm(c, a, b, out_dtype=c.dtype, out=c), lambda: c.add_(torch.mm(a, b, out_dtype=c.dtype)),
            lambda: c.add_(a @ b)]


def gemm(case, t):
    attributes = case.get("attributes", {})
    if attributes.get("accumulate"):
        ways = added(t["c"], t["a"], t["b"])
        if "sum_a" not in t:
            return ways
        both = lambda way: lambda: (way(), t["sum_a"].add_(t["a"].sum(1, dtype=torch.float32)))
        return [both(way) for way in ways]
    if "at" in t:
        slope = torch.compile(lambda a, b, at: torch.ops.aten.gelu_backward(a @ b, at, approximate="tanh"))
        return [lambda: slope(t["a"], t["b"], t["at"])]

    def layer(a, b, bias, residual):
        value = F.linear(a, b.T, bias)
        if attributes.get("activation") == "gelu_tanh":
            value = F.gelu(value, approximate="tanh")
        return value if residual is None else value + residual
    compiled = torch.compile(layer)
    return [lambda: compiled(t["a"], t["b"], t.get("bias"), t.get("residual"))]


def attention_call(case, t):
    scale, segment = case["attributes"]["scale"], case["attributes"].get("segment_rows", 0)
    q, k, v = (t[name].detach().requires_grad_(case["kernel"] == "attention_backward") for name in "qkv")
    if segment:
        # Tiles are segments of equal length.
        split = lambda x: x.view(-1, segment, *x.shape[1:]).transpose(1, 2)
        forward = lambda: F.scaled_dot_product_attention(split(q), split(k), split(v), scale=scale)
    else:
        rows = q.shape[0]
        borders = torch.arange(0, rows + 1, rows // case["segments"], device=DEVICE, dtype=torch.int32)
        if DEVICE == "cpu":
            return q, k, v, lambda: torch_step.by_samples(q, k, v, borders.tolist(), scale)
        forward = lambda: torch_step.ragged(q, k, v, borders, rows // case["segments"], scale)
    return q, k, v, forward


def attention(case, t):
    *_, forward = attention_call(case, t)
    return [forward]


def attention_backward(case, t):
    q, k, v, forward = attention_call(case, t)
    out = forward()
    gradient = torch.randn_like(out)
    return [from_outside(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))]


def rms_norm(case, t):
    compiled = torch.compile(lambda x, w: F.rms_norm(x, (x.shape[-1],), w, case["attributes"]["epsilon"]))
    return [lambda: compiled(t["input"], t["scale"])]


def rope(case, t):
    def turn(x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return x * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]
    compiled = torch.compile(turn)
    cos, sin = t["cos"].bfloat16(), t["sin"].bfloat16()
    return [lambda: compiled(t["x"], cos, sin)]


def linear_cross_entropy(case, t):
    hidden, weight = (t[name].detach().requires_grad_() for name in ("hidden", "weight"))
    targets = t["targets"].long()
    loss = torch.compile(lambda h, w: F.cross_entropy((h @ w.T).float(), targets, reduction="sum"))
    return [lambda: torch.autograd.grad(loss(hidden, weight), (hidden, weight))]


def cross_entropy(case, t):
    logits, targets = t["logits"].detach().requires_grad_(), t["targets"].long()
    loss = torch.compile(lambda x: F.cross_entropy(x, targets, reduction="sum"))
    return [lambda: torch.autograd.grad(loss(logits), logits)]


def adamw(case, t):
    parameter = torch.nn.Parameter(torch.zeros(case["elements"], device=DEVICE))
    parameter.grad = torch.zeros_like(parameter)
    # capturable: its step may be part of a graph.
    optimizer = torch.optim.AdamW([parameter], fused=True, capturable=DEVICE == "cuda")
    return [optimizer.step]


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return {line["name"]: line for line in map(json.loads, file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--cases", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.json"))
    parser.add_argument("--other", action="append", default=[], help="NAME=RESULTS.jsonl: shown below what is the default")
    args = parser.parse_args()
    with open(args.cases) as file:
        cases = json.load(file)
    ours = read(args.results)
    others = {name: read(path) for name, path in (other.split("=", 1) for other in args.other)}
    product, copy = ceilings()
    print(f"matrix product {product / 1e12:.3g} TFLOP/s, copy {copy / 1e12:.3g} TB/s; medians in us; *: PyTorch's calls not from a graph")
    print(f"{'kernel':38s} {'ours':>9s} {'PyTorch':>9s} {'ratio':>6s} {'of roofline':>11s}")
    for case in cases:
        line, theirs, graph = ours.get(case["name"], {}), None, True
        try:
            theirs, graph = fastest_us(globals()[case["kernel"]](case, tensors(case)))
        except Exception as error:  # one kernel that PyTorch lacks here shall not hide the others
            print(f"{case['name']}: PyTorch: {str(error).splitlines()[0][:120]}")
        torch.cuda.empty_cache()
        if "median_us" not in line:
            print(f"{case['name']}: ours: {line.get('error', 'not measured')}")
            continue
        floor = 1e6 * max(case["flops"] / product, case["bytes"] / copy)
        ratio = f"{theirs / line['median_us']:6.2f}" if theirs else "     -"
        print(f"{case['name']:38s} {line['median_us']:9.1f} {theirs or 0:9.1f}{' ' if graph else '*'}{ratio} {100 * floor / line['median_us']:10.0f}%")
        for name, results in others.items():
            microseconds = results.get(case["name"], {}).get("median_us")
            if microseconds:
                print(f"{'  ' + name:38s} {microseconds:9.1f} {'':16s} {100 * floor / microseconds:10.0f}%")


if __name__ == "__main__":
    main()
