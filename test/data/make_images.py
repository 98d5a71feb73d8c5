#!/usr/bin/env python3
"""Writes images/: one small picture in every format we decode, and what Pillow decodes from each.

    python make_images.py        (needs numpy, pillow, safetensors)
"""
import io
import os

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images")
os.makedirs(here, exist_ok=True)
y, x = np.mgrid[0:20, 0:28]
rgb = np.stack([x * 9, y * 12, (x * y) % 256], -1).astype(np.uint8)
color = Image.fromarray(rgb, "RGB")
pictures = {
    "rgb.png": (color, dict(format="PNG")),
    "gray.png": (color.convert("L"), dict(format="PNG")),
    "palette.png": (color.quantize(16), dict(format="PNG")),
    "alpha.png": (Image.merge("RGBA", (*color.split(), Image.fromarray((x * 9).astype(np.uint8)))), dict(format="PNG")),
    "color.jpg": (color, dict(format="JPEG", quality=90)),
    "gray.jpg": (color.convert("L"), dict(format="JPEG", quality=90)),
    "lossless.webp": (color, dict(format="WEBP", lossless=True)),
    "lossy.webp": (color, dict(format="WEBP", quality=80)),
}
pixels = {}
for name, (picture, options) in pictures.items():
    buffer = io.BytesIO()
    picture.save(buffer, **options)
    with open(os.path.join(here, name), "wb") as file:
        file.write(buffer.getvalue())
    # "RGBA" pictures lose their alpha here as in Hugging Face's convert("RGB")
    pixels[name] = np.asarray(Image.open(io.BytesIO(buffer.getvalue())).convert("RGB"))
save_file(pixels, os.path.join(here, "pixels.safetensors"))
