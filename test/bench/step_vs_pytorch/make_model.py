#!/usr/bin/env python3
"""Makes the benchmark's model, samples and step file: make_model.py OUT_FOLDER

The 55 M parameter InternVL-style model: vision 384 wide, 8 layers, 6 heads, MLP 1536, tiles of 257
tokens; text 512 wide, 10 layers, 8 heads with 4 key/value heads, MLP 1536, vocabulary 16384. A
micro-batch is 4 tiles and 512 tokens: 4 samples of different length with one picture each.
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
CONFIG = {
    "model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"],
    "image_token_id": IMAGE, "image_seq_length": TOKENS_PER_TILE, "downsample_ratio": 0.5,
    "projector_hidden_act": "gelu", "vision_feature_layer": -1, "vision_feature_select_strategy": "default",
    "tie_word_embeddings": False,
    "vision_config": {
        "model_type": "internvl_vision", "hidden_size": 384, "num_hidden_layers": 8, "num_attention_heads": 6,
        "intermediate_size": 1536, "image_size": [TILE, TILE], "patch_size": [14, 14], "norm_type": "rms_norm",
        "use_qk_norm": True, "layer_scale_init_value": 0.1, "hidden_act": "gelu"},
    "text_config": {
        "model_type": "qwen2", "hidden_size": 512, "num_hidden_layers": 10, "num_attention_heads": 8,
        "num_key_value_heads": 4, "intermediate_size": 1536, "vocab_size": 16384,
        "max_position_embeddings": 4096, "tie_word_embeddings": False},
}


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_samples(folder, random, count):
    keys = []
    with tarfile.open(os.path.join(folder, "data-000000.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(count):
            length = LENGTHS[i % len(LENGTHS)]
            prompt, answer = 8, length - 8 - TOKENS_PER_TILE
            text = random.integers(10, 16384, prompt + answer).tolist()
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
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config-source.json"), "w") as file:
        json.dump(CONFIG, file, indent=1)
    os.replace(os.path.join(folder, "config-source.json"), os.path.join(folder, "config.json"))
    export = os.path.join(os.path.dirname(__file__), "..", "..", "..", "tools", "python", "export.py")
    subprocess.run([sys.executable, export, os.path.join(folder, "config.json"), "--out", os.path.join(folder, "model"),
                    "--no-verify"], check=True)
    keys = write_samples(folder, np.random.default_rng(0), 16)
    with open(os.path.join(folder, "preprocessor_config.json"), "w") as file:
        json.dump({"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
                   "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
                   "size": {"height": TILE, "width": TILE}}, file)
    groups = [keys[i:i + 4] for i in range(0, len(keys), 4)]
    with open(os.path.join(folder, "steps.jsonl"), "w") as file:
        for step in range(64):
            file.write(json.dumps({"groups": [groups[step % len(groups)]]}) + "\n")


if __name__ == "__main__":
    main()
