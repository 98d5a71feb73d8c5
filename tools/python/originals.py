"""Shards with pictures as they are: what omnibal-run must know to make of them what the model's processor would."""
import json
import struct
import zlib

import numpy as np

import picture_kinds
from preparation import PLAIN, BadSample, OwnProcessor
from shards import png_of

# What is kept as it is: the decoders of omnibal-run and Pillow give the same pixels of these.
EXTENSIONS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}
MODES = {"JPEG": ("RGB", "L"), "PNG": ("RGB", "L", "RGBA"), "WEBP": ("RGB", "RGBA")}


def original(path, picture):
    """(extension, bytes) of a picture file, which `picture` is as RGB; others than omnibal-run reads become PNG."""
    from PIL import Image
    with Image.open(path) as opened:
        kept = opened.mode in MODES.get(opened.format, ()) and getattr(opened, "n_frames", 1) == 1
        extension = EXTENSIONS.get(opened.format)
    if kept:
        with open(path, "rb") as file:
            data = file.read()
        if INTACT.get(extension, lambda data: True)(data):
            return extension, data
    return "png", png_of(np.asarray(picture))


def intact_png(data):
    """Whether all checksums are right, up to the end; Pillow forgives what omnibal-run does not."""
    at = 8
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + size
        if end + 4 > len(data) or zlib.crc32(data[at + 4:end]) != struct.unpack_from(">I", data, end)[0]:
            return False
        if kind == b"IEND":
            return True
        at = end + 4
    return False


def still_webp(data):
    """Whether the file does not say that it is an animation, be it of one picture."""
    return data[12:16] != b"VP8X" or not data[20] & 2


INTACT = {"png": intact_png, "webp": still_webp}


class Originals:
    """How the pictures of a model become tiles."""

    def __init__(self, model, folder, crop, kind=None):
        """kind: what another process has found to be so."""
        own = isinstance(model, OwnProcessor)
        self.images = model.processor.image_processor if own else model.images
        facts = model.facts if own else {}
        if facts.get("picture") or facts.get("tiles_below_each_other", 1) != 1:
            raise SystemExit(f"prepare.py: {folder}: the graph was exported for one size of picture; leave out --original-pictures")
        tiles = (lambda picture: model.tiles(self.images([picture], return_tensors="np", **self.options(model)))) if own else model.tiles
        self.kind = kind or picture_kinds.describe(self.images, tiles, crop if own else model.crop)
        if self.kind is None:
            raise SystemExit(f"prepare.py: {folder}: the processor does something with pictures that omnibal-run does not do "
                             "while it reads them; leave out --original-pictures")

    @staticmethod
    def options(model):
        """What the model's processor tells its image processor."""
        own = getattr(type(model.processor), "images_kwargs", None)
        told = {**(own if isinstance(own, dict) else {}), **model.options}
        return {name: value for name, value in told.items() if name in PLAIN or name == "crop_to_patches"}

    def check(self, files, pictures, tiles):
        """That the processor made of these pictures what omnibal-run will."""
        wanted = []
        for file, picture in zip(files, pictures, strict=True):
            try:
                wanted += picture_kinds.shapes(self.kind, *picture.size)
            except ValueError as error:
                raise BadSample(f"{file}: {error}") from None
        if [tuple(tile.shape[:2]) for tile in tiles] != wanted:
            sizes = ", ".join(f"{file} ({picture.width} x {picture.height})" for file, picture in zip(files, pictures))
            raise BadSample(f"{sizes}: the processor cuts pictures of such sizes otherwise than omnibal-run would; leave out "
                            "--original-pictures, or the sample")

    def settings(self):
        """preprocessor_config.json for omnibal-run: the processor's own, and what becomes of pictures."""
        settings = json.loads(self.images.to_json_string())
        return json.dumps({**settings, "omnibal": {"original_pictures": self.kind}}, indent=2) + "\n"
