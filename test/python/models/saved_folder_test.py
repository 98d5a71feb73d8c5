#!/usr/bin/env python3
"""A trained and saved folder loads in Transformers, without a missing or surplus tensor, and both compute the same
logits: omnibal-run --forward on one side, Transformers on the other.

    python3 saved_folder_test.py build/bin
"""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForImageTextToText

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = None


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"{command[0]}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def inputs_of(model, key):
    """One sample as the graph's inputs."""
    with tarfile.open(f"{model}/data-000000.tar") as tar:
        sample = json.loads(tar.extractfile(f"{key}.json").read())
        pictures = [np.asarray(Image.open(io.BytesIO(tar.extractfile(f"{key}.{i}.png").read())))
                    for i in range(sample["images"])]
    with open(f"{model}/preprocessor_config.json") as file:
        pre = json.load(file)
    pixels = np.stack(pictures).astype(np.float32) * np.float32(pre["rescale_factor"])
    pixels = (pixels - np.float32(pre["image_mean"])) / np.float32(pre["image_std"])
    ids = np.array([sample["input_ids"]], dtype=np.int64)
    return dict(input_ids=ids, attention_mask=np.ones_like(ids),
                pixel_values=np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))


class SavedFolder(unittest.TestCase):
    def check(self, name, *options):
        model = f"{ROOT}/test/data/{name}"
        with open(f"{model}/reference.json") as file:
            steps = json.load(file)["variants"]["train_all"]["steps"]
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/steps.jsonl", "w") as file:
                file.writelines(json.dumps({"groups": s["groups"]}) + "\n" for s in steps[:3])
            run(f"{BIN}/omnibal-compile", f"{model}/model.onnx", "--weights", model, "--tiles", "32", "--tokens", "768",
                "--stages", "2", "--microbatches", str(len(steps[0]["groups"])), *options, "-o", f"{folder}/program")
            run(f"{BIN}/omnibal-run", f"{folder}/program", "--weights", f"{model}/model.safetensors", "--data",
                f"{model}/data-000000.tar", "--preprocess", f"{model}/preprocessor_config.json", "--steps-file",
                f"{folder}/steps.jsonl", "--lr", "1e-3", "--save", f"{folder}/saved")
            inputs = inputs_of(model, "sample-0001")
            save_file(inputs, f"{folder}/inputs.safetensors")
            run(f"{BIN}/omnibal-run", f"{folder}/program", "--weights", f"{folder}/saved", "--forward",
                f"{folder}/inputs.safetensors", "-o", f"{folder}/outputs.safetensors")
            ours = load_file(f"{folder}/outputs.safetensors")["logits"]

            loaded, report = AutoModelForImageTextToText.from_pretrained(f"{folder}/saved", dtype=torch.float32,
                                                                         output_loading_info=True)
            self.assertFalse(report["missing_keys"])
            self.assertFalse(report["unexpected_keys"])
            self.assertFalse(report["mismatched_keys"])
            with torch.no_grad():
                theirs = loaded.eval()(**{k: torch.from_numpy(v) for k, v in inputs.items()},
                                       use_cache=False).logits.numpy()
            self.assertEqual(ours.shape, theirs.shape)
            difference = float(np.abs(ours - theirs).max())
            self.assertLess(difference, 2e-5, name)
            before = load_file(f"{model}/forward.safetensors")["sample-0001.logits"]
            self.assertGreater(float(np.abs(before - theirs).max()), 100 * difference, "training changed nothing")

    def test_internvl(self):
        self.check("tiny-internvl")

    def test_llava_with_frozen_vision(self):
        self.check("tiny-llava", "--freeze", "vision")


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
