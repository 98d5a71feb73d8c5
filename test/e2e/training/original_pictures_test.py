#!/usr/bin/env python3
"""Shards with pictures as they are give the bits of shards with what the model's processor makes of them.
original_pictures_test.py BIN TEST_DATA

Pictures, and what the processors of Transformers make of them, are those of test/data/pictures.
"""
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from png_files import png  # noqa: E402

DATA = sys.argv.pop()
BIN = sys.argv.pop()
# tiny-internvl and tiny-qwen2_5_vl: a picture's token, what stands around a picture, and another token.
PICTURE, BEGIN, END, WORD = 4, 5, 6, 20
PICTURES = 7


def read_tensors(path):
    """{name: (shape, bytes)}"""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    return {name: (entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items() if name != "__metadata__"}


class OriginalPictures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.tensors = read_tensors(os.path.join(DATA, "pictures/originals.safetensors"))
        with open(os.path.join(DATA, "pictures/originals.json")) as file:
            self.kinds = json.load(file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def picture(self, number):
        (height, width, _), rgb = self.tensors[f"picture.{number}"]
        return [png(height, width, rgb)]

    def tiles(self, kind, number):
        """PNGs of what the processor makes of a picture."""
        (count, height, width, _), rgb = self.tensors[f"{kind}.{number}"]
        size = height * width * 3
        return [png(height, width, rgb[i * size:(i + 1) * size]) for i in range(count)]

    def tokens(self, kind, number):
        count, height, width, _ = self.tensors[f"{kind}.{number}"][0]
        return height // 8 * (width // 8) if kind == "units" else 4 * count

    def write_shard(self, name, kind, files_of):
        """Samples with one picture, two, or none."""
        groups = [[0], [1, 2], [], [3], [4, 5], [6]]
        os.makedirs(self.path(name))
        with tarfile.open(self.path(f"{name}/s.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
            for s, pictures in enumerate(groups):
                ids = [WORD + s]
                for number in pictures:
                    ids += [BEGIN] + [PICTURE] * self.tokens(kind, number) + [END]
                ids += [WORD + (3 * i + s) % 9 for i in range(6)]
                files = [file for number in pictures for file in files_of(number)]
                sample = {"input_ids": ids, "labels": [-100] * (len(ids) - 6) + ids[-6:], "images": len(files)}
                self.add(tar, f"k{s}.json", json.dumps(sample).encode())
                for i, file in enumerate(files):
                    self.add(tar, f"k{s}.{i}.png", file)
        with open(self.path("steps.jsonl"), "w") as file:
            for first in (0, 2, 4, 1):
                file.write(json.dumps({"groups": [[f"k{first}"], [f"k{first + 1}"]]}) + "\n")
        return self.path(name)

    @staticmethod
    def add(tar, name, content):
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))

    def settings(self, model, kind, name="originals.json"):
        """The model's preprocessor_config.json with what becomes of pictures."""
        with open(os.path.join(DATA, model, "preprocessor_config.json")) as file:
            settings = json.load(file)
        with open(self.path(name), "w") as file:
            json.dump({**settings, "omnibal": {"original_pictures": kind}}, file)
        return self.path(name)

    def tool(self, name, *arguments, code=0):
        result = subprocess.run([os.path.join(BIN, name), *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout + result.stderr

    def compile(self, model, *flags):
        self.tool("omnibal-compile", os.path.join(DATA, model, "model.onnx"), "--tiles", 128, "--tokens", 256, "--microbatches", 2,
                  *flags, "-o", self.path("program"))

    def train(self, model, data, preprocess, *flags, code=0):
        """What the log says of every step."""
        log = self.path("log.jsonl")
        said = self.tool("omnibal-run", self.path("program"), "--weights", os.path.join(DATA, model, "model.safetensors"), "--data", data,
                         "--preprocess", preprocess, "--steps-file", self.path("steps.jsonl"), "--lr", "1e-3", "--log", log, *flags, code=code)
        if code:
            return said
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        os.remove(log)
        return [(line["loss"], line["grad_norm"], line["tiles"]) for line in lines if "loss" in line]

    def check(self, model, kind, *flags):
        self.compile(model, *flags)
        plain = os.path.join(DATA, model, "preprocessor_config.json")
        prepared = self.write_shard("prepared", kind, lambda number: self.tiles(kind, number))
        originals, own = self.write_shard("originals", kind, self.picture), self.settings(model, self.kinds[kind])
        wanted = self.train(model, prepared, plain)
        self.assertEqual(len(wanted), 4)
        self.assertGreater(len({loss for loss, _, _ in wanted}), 1)
        self.assertEqual(self.train(model, originals, own), wanted)
        self.assertEqual(self.train(model, originals, own, "--loader-threads", 3), wanted)
        for data, preprocess in ((prepared, plain), (originals, own)):
            self.tool("omnibal-batch", data, "--preprocess", preprocess, "--tiles", 128, "--tokens", 256, "--ranks", 1, "-o",
                      f"{data}.batches")
        for name in ("lengths.npy", "samples.npy", "groups.npy") + ("squares.npy",) * (kind == "units"):
            with open(f"{prepared}.batches/{name}", "rb") as a, open(f"{originals}.batches/{name}", "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        return originals, own

    def test_tiles(self):
        originals, own = self.check("tiny-internvl", "tiles", "--stages", 2)
        said = self.tool("omnibal-run", self.path("program"), "--data", originals, "--preprocess", own, "--show-sample", "k1", "-o",
                         self.path("seen"))
        tiles = [tile for number in (1, 2) for tile in self.tiles("tiles", number)]
        self.assertEqual(said.count("\npicture "), len(tiles))
        self.assertEqual(len(os.listdir(self.path("seen"))), len(tiles))
        self.assertIn(f", {len(tiles)} tiles\n", said)

    def test_units(self):
        self.check("tiny-qwen2_5_vl", "units")

    def test_what_does_not_fit(self):
        model = "tiny-internvl"
        self.compile(model)
        data = self.write_shard("originals", "tiles", self.picture)
        for kind, message in (
                (dict(self.kinds["tiles"], height=56), "tiles of 28 x 56 pixels, but the program's are 28 x 28"),
                (self.kinds["units"], "pictures of their own sizes, but the program takes tiles of one size"),
                (dict(self.kinds["tiles"], kind="mosaic"), 'kind "mosaic" is none of'),
                # Fewer tiles than the tokens were made for.
                (dict(self.kinds["tiles"], max_tiles=1), "times, but")):
            self.assertIn(message, self.train(model, data, self.settings(model, kind), code=1))
        # Without it, the pictures are no tiles.
        plain = os.path.join(DATA, model, "preprocessor_config.json")
        self.assertIn("times, but", self.train(model, data, plain, code=1))
        self.compile("tiny-qwen2_5_vl")
        said = self.train("tiny-qwen2_5_vl", data, self.settings("tiny-qwen2_5_vl", self.kinds["tiles"]), code=1)
        self.assertIn("tiles of one size, but the program takes pictures of their own sizes", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
