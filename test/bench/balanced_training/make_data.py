#!/usr/bin/env python3
"""Makes the benchmark's model and samples: make_data.py OUT_FOLDER LENGTHS.csv... [--samples 128]

A ViT-heavy InternVL-style model (vision 128 wide, 6 layers, tiles of 257 tokens; text 128 wide, 3 layers) and samples
with the tiles and tokens of the given tables, scaled: a tile of 256 tokens becomes one of 64, text shrinks by the same
factor. A table may have a column `count`. The pictures are synthetic; an answer names the colors of its tiles, so
there is something to learn.
"""
import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tarfile

import numpy as np
from PIL import Image

IMAGE, TOKENS_PER_TILE, TILE, VOCABULARY, COLORS = 4, 64, 112, 512, 8
REAL_TOKENS_PER_TILE = 256
SCALE = REAL_TOKENS_PER_TILE // TOKENS_PER_TILE
CONFIG = {
    "model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"],
    "image_token_id": IMAGE, "image_seq_length": TOKENS_PER_TILE, "downsample_ratio": 0.5,
    "projector_hidden_act": "gelu", "vision_feature_layer": -1, "vision_feature_select_strategy": "default",
    "tie_word_embeddings": False,
    "vision_config": {
        "model_type": "internvl_vision", "hidden_size": 128, "num_hidden_layers": 6, "num_attention_heads": 2,
        "intermediate_size": 512, "image_size": [TILE, TILE], "patch_size": [7, 7], "norm_type": "rms_norm",
        "use_qk_norm": True, "layer_scale_init_value": 0.1, "hidden_act": "gelu", "initializer_range": 0.05},
    "text_config": {
        "model_type": "qwen2", "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 2,
        "num_key_value_heads": 2, "intermediate_size": 384, "vocab_size": VOCABULARY,
        "max_position_embeddings": 4096, "tie_word_embeddings": False, "initializer_range": 0.05},
}


def scaled_lengths(paths):
    """int64 [samples, 2]: tiles and scaled tokens of all tables together."""
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                tiles, tokens = int(row["vit_num"]), int(row["token_num"])
                text = max(3, round((tokens - REAL_TOKENS_PER_TILE * tiles) / SCALE))
                rows += [(tiles, TOKENS_PER_TILE * tiles + text)] * int(row.get("count", 1))
    return np.array(rows, dtype=np.int64)


def write_table(path, lengths):
    with open(path, "w") as file:
        file.write("vit_num,token_num\n")
        file.writelines(f"{tiles},{tokens}\n" for tiles, tokens in lengths)


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_samples(path, lengths, random):
    palette = random.integers(0, 256, (COLORS, 3))
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, (tiles, tokens) in enumerate(lengths):
            colors = random.integers(0, COLORS, tiles)
            answer = [10 + int(colors[k % tiles]) if tiles else 9 for k in range(tokens - TOKENS_PER_TILE * tiles - 1)]
            ids = [1] + [IMAGE] * (TOKENS_PER_TILE * int(tiles)) + answer
            labels = [-100] * (len(ids) - len(answer)) + answer
            key = f"sample-{i:05d}"
            add(tar, f"{key}.json", json.dumps({"input_ids": ids, "labels": labels, "images": int(tiles)}).encode())
            for t, color in enumerate(colors):
                noise = random.integers(-40, 41, (TILE, TILE, 3))
                pixels = np.clip(palette[color] + noise, 0, 255).astype(np.uint8)
                picture = io.BytesIO()
                Image.fromarray(pixels).save(picture, "PNG", compress_level=1)
                add(tar, f"{key}.{t}.png", picture.getvalue())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("lengths", nargs="+")
    parser.add_argument("--samples", type=int, default=128)
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    random = np.random.default_rng(0)
    everything = scaled_lengths(args.lengths)
    write_table(os.path.join(args.folder, "all-lengths.csv"), everything)
    chosen = everything[random.choice(len(everything), args.samples, replace=False)]
    write_table(os.path.join(args.folder, "lengths.csv"), chosen)
    write_samples(os.path.join(args.folder, "data-000000.tar"), chosen, random)
    with open(os.path.join(args.folder, "preprocessor_config.json"), "w") as file:
        json.dump({"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
                   "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
                   "size": {"height": TILE, "width": TILE}}, file)
    with open(os.path.join(args.folder, "config.json"), "w") as file:
        json.dump(CONFIG, file, indent=1)
    export = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "python", "export.py")
    subprocess.run([sys.executable, export, os.path.join(args.folder, "config.json"), "--out",
                    os.path.join(args.folder, "model"), "--no-verify"], check=True)


if __name__ == "__main__":
    main()
