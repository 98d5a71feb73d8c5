#!/usr/bin/env python3
"""Makes the benchmark's model, samples and step file: make_model.py OUT_FOLDER [55m|5m]

Two InternVL-style models. A micro-batch is 4 tiles and 512 tokens: 4 samples of different length with
one picture each. The answers can be learned (most tokens follow from the one before), so that the
losses of a run depend on what the model computes.
"""
import io
import json
import os
import subprocess
import sys
import tarfile

import numpy as np
from PIL import Image

IMAGE, TOKENS_PER_TILE, TILE = 4, 64, 224
LENGTHS = [96, 112, 136, 168]  # of the 4 samples of a micro-batch; 512 together
WORDS = 97                     # different tokens of the answers
SIZES = {
    "55m": {"vision": (384, 8, 6, 1536), "text": (512, 10, 8, 4, 1536), "vocabulary": 16384},
    "5m": {"vision": (192, 4, 3, 768), "text": (256, 3, 4, 2, 640), "vocabulary": 2048},
}


def config_of(size):
    """Vision: width, layers, heads, MLP; text: width, layers, heads, key/value heads, MLP."""
    vision, text = size["vision"], size["text"]
    return {
        "model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"],
        "image_token_id": IMAGE, "image_seq_length": TOKENS_PER_TILE, "downsample_ratio": 0.5,
        "projector_hidden_act": "gelu", "vision_feature_layer": -1, "vision_feature_select_strategy": "default",
        "tie_word_embeddings": False,
        "vision_config": {
            "model_type": "internvl_vision", "hidden_size": vision[0], "num_hidden_layers": vision[1],
            "num_attention_heads": vision[2], "intermediate_size": vision[3], "image_size": [TILE, TILE],
            "patch_size": [14, 14], "norm_type": "rms_norm", "use_qk_norm": True, "layer_scale_init_value": 0.1,
            "hidden_act": "gelu"},
        "text_config": {
            "model_type": "qwen2", "hidden_size": text[0], "num_hidden_layers": text[1],
            "num_attention_heads": text[2], "num_key_value_heads": text[3], "intermediate_size": text[4],
            "vocab_size": size["vocabulary"], "max_position_embeddings": 4096, "tie_word_embeddings": False},
    }


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def answer(random, successors, length):
    """Tokens of which nine in ten follow from the one before."""
    tokens = [int(random.integers(WORDS))]
    while len(tokens) < length:
        surprise = random.random() < 0.1
        tokens.append(int(random.integers(WORDS)) if surprise else int(successors[tokens[-1]]))
    return [token + 10 for token in tokens]


def write_samples(folder, random, count):
    keys, successors = [], random.permutation(WORDS)
    with tarfile.open(os.path.join(folder, "data-000000.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(count):
            length = LENGTHS[i % len(LENGTHS)]
            prompt = 8
            text = answer(random, successors, length - TOKENS_PER_TILE)
            ids = text[:prompt] + [IMAGE] * TOKENS_PER_TILE + text[prompt:]
            labels = [-100] * (prompt + TOKENS_PER_TILE) + text[prompt:]
            key = f"sample-{i:04d}"
            keys.append(key)
            add(tar, f"{key}.json", json.dumps({"input_ids": ids, "labels": labels, "images": 1}).encode())
            picture = io.BytesIO()
            Image.fromarray(random.integers(0, 256, (TILE, TILE, 3), dtype=np.uint8)).save(picture, "PNG")
            add(tar, f"{key}.0.png", picture.getvalue())
    return keys


def main():
    folder, size = sys.argv[1], SIZES[sys.argv[2] if len(sys.argv) > 2 else "55m"]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config_of(size), file, indent=1)
    export = os.path.join(os.path.dirname(__file__), "..", "..", "..", "tools", "python", "export.py")
    subprocess.run([sys.executable, export, os.path.join(folder, "config.json"), "--out", os.path.join(folder, "model"),
                    "--no-verify"], check=True)
    keys = write_samples(folder, np.random.default_rng(0), 16)
    with open(os.path.join(folder, "preprocessor_config.json"), "w") as file:
        json.dump({"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
                   "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
                   "size": {"height": TILE, "width": TILE}}, file)
    groups = [keys[i:i + 4] for i in range(0, len(keys), 4)]
    with open(os.path.join(folder, "steps.jsonl"), "w") as file:  # last: the folder is complete
        for step in range(64):
            file.write(json.dumps({"groups": [groups[step % len(groups)]]}) + "\n")


if __name__ == "__main__":
    main()
