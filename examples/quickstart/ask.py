#!/usr/bin/env python3
"""Loads the trained folder in Transformers and lets the model read a few pictures that training never saw.

    python3 examples/quickstart/ask.py [examples/quickstart/out/model] [--count 6]

Needs PyTorch and Transformers (tools/scripts/setup.sh --python, then .venv/bin/python instead of python3).
"""
import argparse
import io
import json
import os
import tarfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText

HERE = os.path.dirname(os.path.abspath(__file__))
SHADES = " .:-=+*#%@"


def read_samples(path):
    files = {}
    with tarfile.open(path) as tar:
        for member in tar:
            files[member.name] = tar.extractfile(member).read()
    for name, data in files.items():
        if name.endswith(".json"):
            sample = json.loads(data)
            sample["pictures"] = [Image.open(io.BytesIO(files[f"{name[:-5]}.{i}.png"])).convert("RGB")
                                  for i in range(sample["images"])]
            yield sample


def show(pictures):
    """The pictures side by side as characters."""
    small = [np.asarray(p.convert("L").resize((14, 10))) for p in pictures]
    for row in range(10):
        print("   " + "   ".join("".join(SHADES[int(v) * 9 // 255] for v in s[row]) for s in small))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=f"{HERE}/out/model")
    parser.add_argument("--count", type=int, default=6)
    arguments = parser.parse_args()
    model = AutoModelForImageTextToText.from_pretrained(arguments.model, dtype=torch.float32).eval()
    with open(f"{arguments.model}/vocab.json") as file:
        token_of = {i: t for t, i in json.load(file).items()}
    with open(f"{arguments.model}/preprocessor_config.json") as file:
        pre = json.load(file)
    right = asked = 0
    for sample in read_samples(f"{HERE}/data/heldout-000000.tar"):
        if asked == arguments.count:
            break
        if not sample["pictures"]:
            continue
        asked += 1
        prompt = [i for i, label in zip(sample["input_ids"], sample["labels"]) if label == -100]
        pixels = torch.tensor(np.stack([np.asarray(p) for p in sample["pictures"]])).permute(0, 3, 1, 2).float()
        shape = (1, 3, 1, 1)
        pixels = (pixels * pre["rescale_factor"] - torch.tensor(pre["image_mean"]).view(shape)) / \
            torch.tensor(pre["image_std"]).view(shape)
        ids = torch.tensor([prompt])
        with torch.no_grad():
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels,
                                 max_new_tokens=40, do_sample=False)
        answer = "".join(token_of.get(int(t), "?") for t in out[0, len(prompt):]).replace("<eos>", "")
        wanted = "".join(token_of[t] for t in sample["labels"] if t != -100).replace("<eos>", "")
        right += answer == wanted
        show(sample["pictures"])
        print(f"   the model says: {answer}   ({'right' if answer == wanted else 'it is ' + wanted})\n")
    print(f"{right} of {asked} right")


if __name__ == "__main__":
    main()
