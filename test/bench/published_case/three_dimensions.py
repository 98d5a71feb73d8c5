#!/usr/bin/env python3
"""InternVL-Chat 6B + 20B on 128 A100-80G: OmniBal's published division (4 parts x 4 stages x 8 replicas), and what the
search of omnibal-compile --ranks chooses.

    three_dimensions.py --bin BUILD/bin --model internvl-26b.onnx

Unlike published_case.py, which takes a tensor-parallel group for one device, a rank here is one GPU, and what the parts of
a stage exchange counts. Nothing is computed; times are those of the roofline and of the links below.
"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import published_case

RANKS, GROUPS, PARTS, STAGES, REPLICAS = 128, 128, 4, 4, 8
# A server has eight GPUs on NVLink (what all_reduce reaches of 300 GB/s a direction), and an adapter of 200 Gbit/s for each.
CLUSTER = {"memory_bytes": 85899345920, "device": "a100-80g", "node": {"ranks": 8, "latency_ns": 10000, "bytes_per_s": 235_000_000_000},
           "link": {"latency_ns": 10000, "bytes_per_s": 25_000_000_000},
           "data_parallel": {"latency_ns": 20000, "bytes_per_s": 25_000_000_000}}
# Megatron's tensor parallelism: heads, columns of the feed-forward layers, and words. The tower's 25 heads are 7, 6, 6 and 6.
MEGATRON = [(r"self_attn\.q_proj\.weight$", "split(0 : 48 x 128)"), (r"self_attn\.[kv]_proj\.weight$", "split(0 : 8 x 128)"),
            (r"self_attn\.o_proj\.weight$", "split(1 : 48 x 128)"), (r"mlp\.(gate|up)_proj\.weight$", "split(0 : 16384)"),
            (r"mlp\.down_proj\.weight$", "split(1 : 16384)"), (r"attention\.[qkv]_proj\.weight$", "split(0 : 25 x 128)"),
            (r"attention\.[qk]_norm\.weight$", "split(0 : 25 x 128)"), (r"attention\.projection_layer\.weight$", "split(1 : 25 x 128)"),
            (r"mlp\.fc1\.(weight|bias)$", "split(0 : 12800)"), (r"mlp\.fc2\.weight$", "split(1 : 12800)"),
            (r"(embed_tokens|lm_head)\.weight$", "split(0 : 92553)")]


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)
    return path


class Division:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.layouts = write(os.path.join(folder, "layouts.json"), {
            "format": "omnibal.layouts/1", "parameters": [{"match": match, "layout": layout} for match, layout in MEGATRON]})

    def compile(self, cluster, *flags):
        """The text of a plan, and the seconds and MiB that it took."""
        path = write(os.path.join(self.folder, "cluster.json"), cluster)
        command = [os.path.join(self.arguments.bin, "omnibal-compile"), self.arguments.model, "--tiles", "9", "--tokens", "4096",
                   "--cluster", path, "--target", "cuda", "--dry-run", *map(str, flags)]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds, peak = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return done.stdout, seconds, peak

    def given(self, *flags):
        """The published division."""
        cluster = CLUSTER | {"stages": STAGES, "data_parallel": CLUSTER["data_parallel"] | {"size": REPLICAS}}
        return self.compile(cluster, "--model-parallel", PARTS, "--microbatches", GROUPS // REPLICAS, *flags)[0]

    def published(self, problem, cuts):
        """The step of a problem with published cuts."""
        with open(problem, encoding="utf-8") as file:
            layers = len(json.load(file)["layers"])
        plan = write(os.path.join(self.folder, "plan.json"),
                     {"cuts": [0, *(published_case.layer_of(m, layers) for m in cuts), layers]})
        text = published_case.run(os.path.join(self.arguments.bin, "omnibal-plan"), "--check", problem, plan, "--export", "json")
        return json.loads(text)["plan"]["step_ns"] / 1e6

    def rows(self):
        problem = os.path.join(self.folder, "problem.json")
        ours = self.given("--layouts", self.layouts, "--emit-problem", problem)
        for name, cuts in published_case.PUBLISHED.items():
            yield f"{PARTS} x {STAGES} x {REPLICAS}, Megatron's layouts, {name}", self.published(problem, cuts), ""
        yield f"{PARTS} x {STAGES} x {REPLICAS}, Megatron's layouts, our cuts", step_of(ours), ""
        yield f"{PARTS} x {STAGES} x {REPLICAS}, our layouts and cuts", step_of(self.given()), ""
        for parts in (1, 2, 4, 8):
            text, seconds, peak = self.compile(CLUSTER, "--ranks", RANKS, "--groups", GROUPS, "--model-parallel", parts)
            yield f"{division_of(text)}: the best with {parts} parts", step_of(text), f"{seconds:.0f} s, {peak:.0f} MiB"


def step_of(text):
    return float(re.search(r"^predicted step: ([0-9.]+) ms$", text, re.M).group(1))


def division_of(text):
    stages, replicas = map(int, re.search(r"^plan: (\d+) stages? x (\d+) replica", text, re.M).groups())
    return f"{RANKS // stages // replicas} x {stages} x {replicas}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    with tempfile.TemporaryDirectory() as folder:
        print("| parts x stages x replicas | step ms | planned in |\n|---|---|---|")
        for name, step, planned in Division(parser.parse_args(), folder).rows():
            print(f"| {name} | {step:.0f} | {planned} |", flush=True)


if __name__ == "__main__":
    main()
