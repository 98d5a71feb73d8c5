#!/usr/bin/env python3
"""omnibal-run --show-sample against what the shard holds, read with Python's own modules.
show_sample_test.py BIN TEST_DATA"""
import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zlib

DATA = sys.argv.pop()
BIN = sys.argv.pop()


def pixels_of(png):
    """(width, height, bytes of RGB) of a PNG of 8 bits a channel, gray or RGB, not interlaced."""
    header, packed, at = None, b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, color, _, _, interlace = header
    assert (depth, interlace) == (8, 0) and color in (0, 2), header
    channels = 3 if color == 2 else 1
    raw, row, rows = zlib.decompress(packed), width * channels, []
    before = bytearray(row)
    for y in range(height):
        kind, line = raw[y * (row + 1)], bytearray(raw[y * (row + 1) + 1:(y + 1) * (row + 1)])
        for x in range(row):
            left = line[x - channels] if x >= channels else 0
            up, corner = before[x], before[x - channels] if x >= channels else 0
            guess = left + up - corner
            nearest = min((abs(guess - v), i, v) for i, v in enumerate((left, up, corner)))[2]
            line[x] = (line[x] + (0, left, up, (left + up) // 2, nearest)[kind]) % 256
        rows.append(bytes(line))
        before = line
    data = b"".join(rows)
    return width, height, data if channels == 3 else bytes(v for v in data for _ in range(3))


def write_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in samples:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


class ShowSample(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def compiled(self, model):
        source = os.path.join(DATA, model)
        subprocess.run([os.path.join(BIN, "omnibal-compile"), os.path.join(source, "model.onnx"), "--tiles", "64", "--tokens", "256",
                        "-o", self.path(model)], check=True, capture_output=True)
        return source

    def show(self, model, shard, key, *flags, code=0):
        result = subprocess.run([os.path.join(BIN, "omnibal-run"), self.path(model), "--data", shard, "--preprocess",
                                 os.path.join(DATA, model, "preprocessor_config.json"), "--show-sample", key, *flags],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def read_back(self, text):
        """(part, id) of every token, in the order of the lines, whose ranges leave nothing out."""
        tokens = []
        for begin, end, part, ids in re.findall(r"^(\d+)(?:-(\d+))? +(no label|picture|label) +(.*)$", text, re.M):
            self.assertEqual(int(begin), len(tokens))
            for run in ids.split(", "):
                value, _, times = run.partition(" x ")
                tokens += [(part, int(value))] * int(times or 1)
            self.assertEqual(int(end or begin) + 1, len(tokens))
        return tokens

    def check(self, model):
        source = self.compiled(model)
        shard = os.path.join(source, "data-000000.tar")
        with open(os.path.join(self.path(model), "manifest.json")) as file:
            picture_id = json.load(file)["info"]["image_token_id"]
        with tarfile.open(shard) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}
        for key in sorted(name[:-5] for name in members if name.endswith(".json"))[:8]:
            sample = json.loads(members[key + ".json"])
            text = self.show(model, shard, key, "-o", self.path("seen")).stdout
            expected = [("picture" if token == picture_id else "label" if t > 0 and label != -100 else "no label", token)
                        for t, (token, label) in enumerate(zip(sample["input_ids"], sample["labels"]))]
            self.assertEqual(self.read_back(text), expected)
            labels = sum(label != -100 for label in sample["labels"][1:])
            self.assertIn(f"{key}: {len(expected)} tokens, {labels} with a label", text)
            for picture in range(sample["images"]):
                with open(self.path(f"seen/{key}.{picture}.png"), "rb") as file:
                    self.assertEqual(pixels_of(file.read()), pixels_of(members[f"{key}.{picture}.png"]))
            self.assertEqual(text.count("\npicture "), sample["images"])

    def test_tiles(self):
        self.check("tiny-internvl")

    def test_pictures_of_any_size(self):
        self.check("tiny-qwen2_5_vl")

    def test_what_a_run_would_refuse_is_shown_first(self):
        self.compiled("tiny-internvl")
        write_shard(self.path("bad.tar"), [("a.json", json.dumps({"input_ids": [1, 5, 9999], "labels": [-100, 6, -100], "images": 0}).encode())])
        result = self.show("tiny-internvl", self.path("bad.tar"), "a", code=1)
        self.assertEqual(self.read_back(result.stdout), [("no label", 1), ("label", 5), ("no label", 9999)])
        self.assertIn("labels other than the token of their place: 1, the first at 1 (6)", result.stdout)
        self.assertIn("[2] is 9999, outside of the model's vocabulary", result.stderr)
        missing = self.show("tiny-internvl", self.path("bad.tar"), "b", code=1)
        self.assertIn('no sample of --data has the key "b"; there are 1, the first is "a"', missing.stderr)


if __name__ == "__main__":
    unittest.main()
