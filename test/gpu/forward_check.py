#!/usr/bin/env python3
"""Outputs of omnibal-run --forward against PyTorch's logits: forward_check.py OMNIBAL_RUN PROGRAM MODEL_FOLDER TOLERANCE"""
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file


def samples(path):
    found = {}
    for name, value in load_file(path).items():
        sample, tensor = name.split(".", 1)
        found.setdefault(sample, {})[tensor] = value
    return found


def main():
    tool, program, model, tolerance = sys.argv[1:]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for sample, tensors in samples(os.path.join(model, "forward.safetensors")).items():
            expected = tensors.pop("logits")
            save_file(tensors, f"{folder}/in.safetensors")
            done = subprocess.run([tool, program, "--weights", os.path.join(model, "model.safetensors"), "--forward",
                                   f"{folder}/in.safetensors", "-o", f"{folder}/out.safetensors"], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{sample}: exit {done.returncode}: {done.stderr}")
            got = load_file(f"{folder}/out.safetensors")["logits"]
            if got.shape != expected.shape:
                sys.exit(f"{sample}: logits {list(got.shape)}, expected {list(expected.shape)}")
            apart = ((got.double() - expected.double()).norm() / expected.double().norm()).item()
            worst = max(worst, apart)
            if not apart <= float(tolerance):  # NaN fails too
                sys.exit(f"{sample}: logits apart by {apart:.1e}, {tolerance} allowed")
    print(f"logits apart by {worst:.1e} at most, {tolerance} allowed")


if __name__ == "__main__":
    main()
