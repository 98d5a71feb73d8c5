#!/usr/bin/env python3
"""Compiles the programs of the GPU suite and benchmark: programs.py --bin BUILD/bin OUT [--only suite|bench] [--gpu-code emulated]

OUT/programs.json lists them. The suite's are of the small models in test/data; the benchmark's of models.py, exported
without weights on first use (a few minutes; needs PyTorch and Transformers) into --models. --bench, --target and --dtype
make others for the benchmark: small ones for the host try its scripts on a machine without a GPU.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "test", "support", "python"))
import reference_losses  # noqa: E402

# model, variant, stages, replicas, further flags. Layouts of one model and variant must agree.
SUITE = [
    ("tiny-internvl", "train_all", 1, 1, []),
    ("tiny-internvl", "train_all", 2, 1, ["--schedule", "zb-h1"]),
    ("tiny-internvl", "train_all", 4, 1, ["--remat", "full"]),
    ("tiny-internvl", "train_all", 2, 2, []),
    ("tiny-internvl", "freeze_vision", 1, 1, []),
    ("tiny-internvl", "freeze_llm", 2, 1, []),
    ("tiny-llava", "train_all", 1, 1, []),
    ("tiny-llava", "train_all", 2, 1, ["--schedule", "interleaved:2"]),
    ("tiny-llava", "train_all", 4, 1, []),
    ("tiny-llava", "freeze_vision", 1, 1, []),
]
DTYPES = ["float32", "bfloat16"]
# model, tokens, tiles, micro-batches, stages; in the order of the benchmark, which may run out of time
BENCH = [("2b", 8192, 22, 4, 1), ("1b", 8192, 22, 4, 1), ("0.3b", 16384, 44, 2, 1), ("2b", 4096, 11, 8, 1), ("1b", 8192, 22, 8, 4)]


def fits(model, variant):
    """Caps that hold every group of the variant, and the number of groups of a step."""
    folder = os.path.join(ROOT, "test", "data", model)
    with open(os.path.join(folder, "reference.json")) as file:
        steps = json.load(file)["variants"][variant]["steps"]
    return *reference_losses.caps_of(steps, os.path.join(folder, "data-000000.tar")), len(steps[0]["groups"])


def compile_program(args, onnx, name, flags, facts, target="cuda"):
    path = os.path.join(args.out, name)
    command = [os.path.join(args.bin, "omnibal-compile"), onnx, *flags, "--target", target, "-o", path]
    if args.gpu_code:
        command += ["--gpu-code", args.gpu_code]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {' '.join(command)}\n{done.stdout}")
    return {"name": name, **facts}


def suite(args):
    for model, variant, stages, replicas, more in SUITE:
        tiles, tokens, groups = fits(model, variant)
        flags = ["--tiles", tiles, "--tokens", tokens, "--stages", stages, "--data-parallel", replicas, "--microbatches",
                 groups // replicas, "--partition", "layers", *more]
        if reference_losses.FREEZE[variant]:
            flags += ["--freeze", ",".join(reference_losses.FREEZE[variant])]
        for dtype in DTYPES:
            name = f"{model}-{variant}-{stages}x{replicas}-{dtype}"
            if args.programs and name not in args.programs.split(","):
                continue
            facts = dict(kind="suite", model=model, variant=variant, stages=stages, replicas=replicas, dtype=dtype)
            yield compile_program(args, os.path.join(ROOT, "test", "data", model, "model.onnx"), name,
                                  [*map(str, flags), "--dtype", dtype], facts)


def exported(args, model):
    folder = os.path.join(args.models, model)
    onnx = os.path.join(folder, "model.onnx")
    if not os.path.exists(onnx):
        os.makedirs(folder, exist_ok=True)
        config = os.path.join(folder, "config.json")
        with open(config, "w") as file:
            subprocess.run([sys.executable, os.path.join(HERE, "models.py"), model], stdout=file, check=True)
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "python", "export.py"), config, "--out", folder, "--no-weights"],
                       stdout=subprocess.DEVNULL, check=True)
    return onnx


def bench(args):
    for model, tokens, tiles, microbatches, stages in args.bench or BENCH:
        flags = ["--tiles", tiles, "--tokens", tokens, "--stages", stages, "--microbatches", microbatches, "--dtype", args.dtype,
                 *(["--device", "h200"] if args.target == "cuda" else ["--cpu", "native"])]
        facts = dict(kind="bench", model=model, tokens=tokens, tiles=tiles, microbatches=microbatches, stages=stages, dtype=args.dtype)
        yield compile_program(args, exported(args, model), f"{model}-{tokens}-{stages}", map(str, flags), facts, args.target)


def bench_program(text):
    model, *numbers = text.split(":")
    if len(numbers) != 4 or not all(number.isdigit() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text}: expected MODEL:TOKENS:TILES:MICROBATCHES:STAGES")
    return model, *map(int, numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", choices=["suite", "bench"])
    parser.add_argument("--programs", help="names of the suite's programs to compile; default: all")
    parser.add_argument("--models", default="gpu-models", help="folder of exported graphs, made where there are none")
    parser.add_argument("--gpu-code", help="as of omnibal-compile")
    parser.add_argument("--bench", nargs="+", type=bench_program, metavar="MODEL:TOKENS:TILES:MICROBATCHES:STAGES")
    parser.add_argument("--target", default="cuda", choices=["cuda", "host"], help="of the benchmark's programs")
    parser.add_argument("--dtype", default="bfloat16", choices=DTYPES, help="of the benchmark's programs")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    programs = []
    for kind, make in (("suite", suite), ("bench", bench)):
        if args.only in (None, kind):
            programs += make(args)
    with open(os.path.join(args.out, "programs.json"), "w") as file:
        json.dump(programs, file, indent=1)
    print(f"{args.out}: {len(programs)} programs")


if __name__ == "__main__":
    main()
