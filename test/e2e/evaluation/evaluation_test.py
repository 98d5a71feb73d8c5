#!/usr/bin/env python3
"""Evaluation takes a data set a part at a time: the sums over a large one are those over its pieces.
evaluation_test.py BIN TEST_DATA"""
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import unittest

DATA = sys.argv.pop()
BIN = sys.argv.pop()
MODEL = os.path.join(DATA, "tiny-internvl")
SAMPLES = 9000  # lengths are looked up 4096 at a time


def write_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, sample in samples:
            text = json.dumps(sample).encode()
            info = tarfile.TarInfo(key + ".json")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))


def make_samples():
    """Text of 2 to 9 tokens; some have no labels, and none has pictures."""
    rng = random.Random(7)
    samples = []
    for i in range(SAMPLES):
        ids = [rng.randrange(10, 40) for _ in range(rng.randrange(2, 10))]
        labels = [-100] * len(ids) if i % 7 == 0 else [-100] + ids[1:]
        samples.append((f"text-{i}", {"input_ids": ids, "labels": labels, "images": 0}))
    return samples


class Evaluation(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def evaluate(self, program, *shards):
        result = subprocess.run([os.path.join(BIN, "omnibal-run"), program, "--weights", MODEL, "--data", *shards, "--preprocess",
                                 os.path.join(MODEL, "preprocessor_config.json"), "--evaluate", "--log", self.path("log")],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("log")) as file:
            return json.load(file)

    def test_sums_over_pieces_are_those_of_the_whole(self):
        samples = make_samples()
        write_shard(self.path("all.tar"), samples)
        thirds = [self.path(f"{i}.tar") for i in range(3)]
        for i, path in enumerate(thirds):
            write_shard(path, samples[3000 * i:3000 * (i + 1)])
        labels = [sum(label != -100 for label in sample["labels"]) for _, sample in samples]
        for stages, replicas in ((1, 1), (2, 2)):
            program = self.path(f"program-{stages}")
            subprocess.run([os.path.join(BIN, "omnibal-compile"), os.path.join(MODEL, "model.onnx"), "--tiles", "4", "--tokens", "512",
                            "--stages", str(stages), "--data-parallel", str(replicas), "--microbatches", "3", "-o", program],
                           check=True, capture_output=True)
            whole = self.evaluate(program, self.path("all.tar"))
            pieces = [self.evaluate(program, path) for path in thirds]
            self.assertEqual(whole["samples"], SAMPLES)
            self.assertEqual(whole["label_tokens"], sum(labels))
            self.assertEqual([piece["samples"] for piece in pieces], [3000] * 3)
            for name in ("loss", "token_accuracy"):
                mean = sum(piece[name] * piece["label_tokens"] for piece in pieces) / whole["label_tokens"]
                self.assertAlmostEqual(whole[name], mean, delta=1e-9 * max(1, abs(mean)))

    def test_a_bad_sample_is_named_wherever_it_is(self):
        samples = make_samples()
        samples[8000] = ("bad", {"input_ids": [1, 2], "labels": [1], "images": 0})
        write_shard(self.path("all.tar"), samples)
        program = self.path("program")
        subprocess.run([os.path.join(BIN, "omnibal-compile"), os.path.join(MODEL, "model.onnx"), "--tiles", "4", "--tokens", "512",
                        "--stages", "2", "-o", program], check=True, capture_output=True)
        result = subprocess.run([os.path.join(BIN, "omnibal-run"), program, "--weights", MODEL, "--data", self.path("all.tar"),
                                 "--preprocess", os.path.join(MODEL, "preprocessor_config.json"), "--evaluate"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("bad.json", result.stderr)


if __name__ == "__main__":
    unittest.main()
