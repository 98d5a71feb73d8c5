#!/usr/bin/env python3
"""Weights and samples for a program of the benchmark: make_data.py PROGRAM OUT --batch BIN/omnibal-batch

From a fixed seed, without the model: OUT/model.safetensors holds a tensor for every entry of the program's parameter
table, under its name, in bfloat16; OUT/data-000000.tar the samples; OUT/batches the groups that omnibal-batch makes of
them for the program's caps. Matrices are normal with deviation 0.02, norm weights about 1, biases about 0.

There is something to learn, so that losses fall and depend on all that the model computes: texts are of 32 of the
vocabulary's tokens, and each is as many further in a fixed circle of these as the number that the color of one of the
sample's pictures stands for (the k-th text token goes by picture k modulo pictures; 1 without pictures).
"""
import argparse
import io
import json
import os
import subprocess
import sys
import tarfile

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from pipelines import PREPROCESS, add  # noqa: E402

PICTURES = 32  # distinct ones; samples repeat them
LETTERS = 32  # tokens that texts are made of
COLORS = np.array([[220, 60, 60], [60, 200, 80], [70, 90, 220], [210, 200, 70]])  # of pictures, about


def read_program(folder):
    """(manifest, {parameter: shape})"""
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    shapes = {}
    with open(os.path.join(folder, "stages.json")) as file:
        stages = json.load(file)
    for stage in stages["stages"] if isinstance(stages, dict) else stages:
        for parameter in stage["parameters"]:
            shapes[parameter["name"]] = parameter["shape"]
    return manifest, shapes


def make_weights(shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name in sorted(shapes):
        shape = shapes[name]
        if len(shape) > 1 and name.rsplit(".", 1)[-1] not in ("cls_token", "position_embeddings"):
            value = 0.02 * torch.randn(shape, generator=generator)
        elif name.endswith("bias"):
            value = 0.01 * torch.randn(shape, generator=generator)
        elif name.rsplit(".", 1)[-1].startswith("lambda"):
            value = torch.full(shape, 0.1)
        else:
            value = 1 + 0.05 * torch.randn(shape, generator=generator) if len(shape) == 1 else 0.02 * torch.randn(shape, generator=generator)
        weights[name] = value.to(torch.bfloat16)
    return weights


def make_pictures(random, shape):
    """Smooth pictures, number p about of color p modulo colors, as JPEG: decoding costs what it costs for photographs."""
    _, height, width = shape
    pictures = []
    for p in range(PICTURES):
        coarse = np.clip(COLORS[p % len(COLORS)] + random.integers(-60, 61, (8, 8, 3)), 0, 255).astype(np.uint8)
        data = io.BytesIO()
        Image.fromarray(coarse).resize((width, height), Image.BICUBIC).save(data, "JPEG", quality=90)
        pictures.append(data.getvalue())
    return pictures


def make_lengths(random, count, info, tiles_cap, tokens_cap):
    """(tiles, tokens) of samples: instruction data of pictures cut into tiles, and some text alone."""
    per_tile = info["tokens_per_tile"]
    room = min(tiles_cap, (tokens_cap - 64) // per_tile)
    tiles = np.where(random.random(count) < 0.15, 0, random.integers(1, max(2, min(7, room + 1)), count))
    text = np.clip(random.lognormal(np.log(tokens_cap / 24), 0.7, count).astype(int) + 32, 32, tokens_cap // 3)
    return np.stack([tiles, np.minimum(per_tile * tiles + text, tokens_cap)], axis=1)


def make_letters(random, image, vocabulary):
    return random.choice(np.arange(image + 1, vocabulary), min(LETTERS, vocabulary - image - 1), replace=False).tolist()


def make_text(random, letters, pictures, count):
    """Tokens by the rule that is to be learned; `pictures` are numbers."""
    steps = [2 + picture % len(COLORS) for picture in pictures] or [1]
    at = random.integers(len(letters)) + np.cumsum([steps[k % len(steps)] for k in range(count)])
    return [letters[i % len(letters)] for i in at]


def write_samples(path, random, lengths, info, pictures):
    image, per_tile = info["image_token_id"], info["tokens_per_tile"]
    letters = make_letters(random, image, info["vocabulary"])
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, (tiles, tokens) in enumerate(lengths.tolist()):
            shown = random.integers(len(pictures), size=tiles)
            text = make_text(random, letters, shown, tokens - per_tile * tiles)
            prompt = len(text) // 4 + 1
            ids = text[:1] + [image] * (per_tile * tiles) + text[1:]
            labels = [-100] * (per_tile * tiles + prompt) + ids[per_tile * tiles + prompt:]
            add(tar, f"sample-{i:05d}.json", json.dumps({"input_ids": ids, "labels": labels, "images": tiles}).encode())
            for t, picture in enumerate(shown):
                add(tar, f"sample-{i:05d}.{t}.jpg", pictures[picture])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("out")
    parser.add_argument("--batch", required=True, help="the tool omnibal-batch")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    manifest, shapes = read_program(args.program)
    save_file(make_weights(shapes, args.seed), os.path.join(args.out, "model.safetensors"), metadata={"format": "pt"})
    info, random = manifest["info"], np.random.default_rng(args.seed)
    lengths = make_lengths(random, args.samples, info, manifest["tiles_cap"], manifest["tokens_cap"])
    write_samples(os.path.join(args.out, "data-000000.tar"), random, lengths, info, make_pictures(random, info["tile_shape"]))
    with open(os.path.join(args.out, "preprocessor_config.json"), "w") as file:
        json.dump({**PREPROCESS, "size": dict(zip(("height", "width"), info["tile_shape"][1:]))}, file)
    subprocess.run([args.batch, os.path.join(args.out, "data-000000.tar"), "--tiles", str(manifest["tiles_cap"]), "--tokens",
                    str(manifest["tokens_cap"]), "--ranks", "1", "--seed", str(args.seed), "-o", os.path.join(args.out, "batches")],
                   check=True, stdout=subprocess.DEVNULL)
    parameters = sum(int(np.prod(shape)) for shape in shapes.values())
    print(f"{args.out}: {parameters} parameters, {len(lengths)} samples")


if __name__ == "__main__":
    main()
