#!/usr/bin/env python3
"""Writes pictures/originals.safetensors and pictures/originals.json: pictures, and what the image processors of
Transformers make of them before they normalize.

    python make_original_pictures.py        (needs numpy, pillow, safetensors, torch, transformers)
"""
import json
import os

import numpy as np
from PIL import Image
from safetensors.numpy import save_file
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
PLAIN = dict(do_rescale=False, do_normalize=False, return_tensors="np")
# Width and height.
SIZES = [(61, 97), (97, 40), (28, 28), (9, 7), (130, 33), (50, 49), (84, 56)]
SQUARE = dict(height=28, width=28)
KINDS = {  # the processor, and how docs/data.md says the same
    "fixed": (SiglipImageProcessorPil(size=dict(height=20, width=28), resample=2),
              dict(kind="fixed", height=20, width=28, resample="bilinear")),
    "shortest_edge": (CLIPImageProcessorPil(size=dict(shortest_edge=30), crop_size=dict(height=28, width=26)),
                      dict(kind="shortest_edge", edge=30, height=28, width=26, resample="bicubic")),
    "tiles": (GotOcr2ImageProcessorPil(size=SQUARE, crop_to_patches=True, min_patches=1, max_patches=6),
              dict(kind="tiles", min_tiles=1, max_tiles=6, resample="bicubic", **SQUARE)),
    "tiles_at_least_two": (GotOcr2ImageProcessorPil(size=SQUARE, crop_to_patches=True, min_patches=2, max_patches=4, resample=5),
                           dict(kind="tiles", min_tiles=2, max_tiles=4, resample="hamming", **SQUARE)),
    "splits": (Idefics3ImageProcessorPil(size=dict(longest_edge=56), max_image_size=dict(longest_edge=28)),
               dict(kind="splits", longest_edge=56, tile=28, split=True, resample="lanczos")),
    "whole": (Idefics3ImageProcessorPil(size=dict(longest_edge=40), max_image_size=dict(longest_edge=24), do_image_splitting=False),
              dict(kind="splits", longest_edge=40, tile=24, split=False, resample="lanczos")),
    "units": (Qwen2VLImageProcessorPil(size=dict(shortest_edge=600, longest_edge=3000), patch_size=4, merge_size=2),
              dict(kind="units", factor=8, min_pixels=600, max_pixels=3000, resample="bicubic")),
    "boxes": (SiglipImageProcessorPil(size=SQUARE, resample=4), dict(kind="fixed", resample="box", **SQUARE)),
}


def picture(number, width, height):
    """Noise on slopes: nothing is smooth, and sums leave the range of a byte on both sides."""
    noise = np.random.default_rng(number).integers(-90, 90, (height, width, 3))
    y, x = np.mgrid[0:height, 0:width]
    slopes = np.stack([255 * x / width, 255 * y / height, 255 * ((x // 3 + y // 5) % 2)], -1)
    return np.clip(slopes + noise, 0, 255).astype(np.uint8)


def seen(name, given, size):
    """Tiles [n, height, width, 3] that a processor gave for one picture."""
    values = given["pixel_values"]
    if "image_grid_thw" in given:
        _, rows, columns = given["image_grid_thw"][0]
        merged = values.reshape(rows // 2, columns // 2, 2, 2, 3, 2, 4, 4)[:, :, :, :, :, 0]
        values = merged.transpose(0, 2, 5, 1, 3, 6, 4).reshape(1, rows * 4, columns * 4, 3)
    else:
        values = np.asarray(values).reshape(-1, *np.asarray(values).shape[-3:]).transpose(0, 2, 3, 1)
    assert (values == values.astype(np.uint8)).all(), (name, size)
    return np.ascontiguousarray(values.astype(np.uint8))


def order():
    """Which axis this Pillow begins with."""
    image = Image.fromarray(picture(0, 40, 90))
    rows = image.resize((44, 90), Image.Resampling.BICUBIC).resize((44, 30), Image.Resampling.BICUBIC)
    return "rows" if image.resize((44, 30), Image.Resampling.BICUBIC) == rows else "auto"


def main():
    tensors, kinds = {}, {}
    for number, (width, height) in enumerate(SIZES):
        tensors[f"picture.{number}"] = picture(number, width, height)
    for name, (processor, kind) in KINDS.items():
        kinds[name] = dict(kind, order=order())
        for number in range(len(SIZES)):
            given = processor([Image.fromarray(tensors[f"picture.{number}"])], **PLAIN)
            tensors[f"{name}.{number}"] = seen(name, given, SIZES[number])
    # What older versions of Pillow do: rows before columns, whatever the sizes.
    image = Image.fromarray(tensors["picture.0"]).resize((70, 97), Image.Resampling.BICUBIC)
    tensors["rows.0"] = np.asarray(image.resize((70, 30), Image.Resampling.BICUBIC))[None]
    kinds["rows"] = dict(kind="fixed", height=30, width=70, resample="bicubic", order="rows")
    save_file(tensors, os.path.join(HERE, "originals.safetensors"))
    with open(os.path.join(HERE, "originals.json"), "w") as file:
        json.dump(kinds, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
