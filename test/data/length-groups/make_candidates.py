#!/usr/bin/env python3
"""Writes the candidates of this folder: an 8B language model on 32 GPUs, alone and with a vision encoder.

    make_candidates.py [FOLDER]

Time and memory follow a model fitted to published step times: linear layers at 0.392 and attention at 0.336 of a peak of
989.5 TFLOP/s, an exchange of 400 GB/s among 8 GPUs and of 17.5 GB/s among more, 94 ms for each micro-batch; 136 KiB a token and layer are kept, 8 KiB where the
layer is recomputed, one layer and 40 KiB a token besides, in 13.3 GiB.
"""
import json
import os
import sys

PEAK, LINEAR, ATTENTION, EXCHANGE, ACROSS = 989.5e12, 0.392, 0.336, 400e9, 17.5e9
LAYERS, WIDTH, KEYS, INNER, VOCABULARY = 32, 4096, 1024, 14336, 128256
GPUS, STEP = 32, 524288
TILE_PARAMETERS, POSITIONS = 0.3e9, 1025


def recomputed_layers(tokens):
    """The fewest recomputed layers with which so many tokens fit on a GPU, or None."""
    room = 13.3 * 2**20 / tokens  # KiB a token
    for layers in range(LAYERS + 1):
        if (LAYERS - layers) * 136 + layers * 8 + 136 + 40 <= room:
            return layers
    return None


def cost(degree, recomputed, tiles):
    layer = 2 * WIDTH * WIDTH + 2 * WIDTH * KEYS + 3 * WIDTH * INNER
    again = recomputed / 3
    linear = 6 * (layer * LAYERS + VOCABULARY * WIDTH) * (1 + again / LAYERS) / (LINEAR * PEAK)
    square = 6 * WIDTH * (LAYERS + again) / (ATTENTION * PEAK)
    sent = (2 * WIDTH + 2 * KEYS) * 2 * (2 * LAYERS + recomputed) * (degree - 1) / degree
    token = linear + (sent / (EXCHANGE if degree <= 8 else ACROSS) if degree > 1 else 0)
    tile = 6 * TILE_PARAMETERS * POSITIONS / (LINEAR * PEAK) if tiles else 0
    return {"tile_ns": tile * 1e9 / degree, "token_ns": token * 1e9 / degree, "square_ns": square * 1e9 / degree,
            "microbatch_ns": 94e6, "step_ns": 0.0}


def name(tokens, degree):
    return f"{tokens // 1024}K:{degree}" if tokens % 1024 == 0 else f"{tokens}:{degree}"


def groups(longest, tiles_a_token=0.0, fewest_tiles=1, degrees=(1, 2, 4, 8), step=STEP):
    """Candidates for samples of up to `longest` tokens. Caps hold `tiles_a_token` times their tokens in tiles, and at least
    `fewest_tiles`: a number, or a function of the tokens that gives one."""
    found = []
    fewest = fewest_tiles if callable(fewest_tiles) else lambda tokens: fewest_tiles
    sizes = sorted({512 * 2**i for i in range(6)} | {768 * 2**i for i in range(5)})
    for degree in degrees:
        for size in sizes + [longest // degree]:
            recomputed = recomputed_layers(size)
            tokens = size * degree
            if recomputed is None or tokens > longest or any(g["tokens_cap"] == tokens and g["degree"] == degree for g in found):
                continue
            found.append({"name": name(tokens, degree), "tiles_cap": max(fewest(tokens), round(tiles_a_token * tokens)),
                          "tokens_cap": tokens, "degree": degree, "ranks": GPUS // degree,
                          "microbatches": max(1, round(step / (GPUS // degree * tokens))),
                          "remat": ["recompute"] * recomputed + ["keep"] * (LAYERS - recomputed),
                          "cost": cost(degree, recomputed, tiles_a_token > 0)})
    return sorted(found, key=lambda g: (g["tokens_cap"], g["degree"]))


def write(folder, file, chosen, step=STEP):
    text = {"schema": "omnibal.length-groups/1", "replicas": GPUS, "stages": 1, "tokens_per_step": step, "groups": chosen}
    with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
        json.dump(text, out, separators=(",", ":"))
        out.write("\n")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    text = groups(131072)
    write(folder, "text-8b.json", text)
    write(folder, "text-8b-hbp.json", [g for g in text if g["name"] in ("16K:1", "128K:8")])
    write(folder, "vlm-8b.json", [g for g in groups(32768, 0.0045, 16) if g["tokens_cap"] >= 2048])


if __name__ == "__main__":
    main()
