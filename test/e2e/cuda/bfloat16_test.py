#!/usr/bin/env python3
"""Programs in bfloat16 on the emulated device: bfloat16_test.py BIN_FOLDER DATA_FOLDER

Losses and gradients against the host backend's in float32; cuts of the pipeline, resuming and saving change no bit.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from reference_losses import read_safetensors, sample_sizes  # noqa: E402

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")
STEPS, MICROBATCHES = 3, 2
ENVIRONMENT = dict(os.environ, OMNIBAL_PLUGINS=os.path.join(os.path.dirname(os.path.abspath(BIN)), "emulated"))


def call(tool, *arguments):
    command = [os.path.join(BIN, tool), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, env=ENVIRONMENT)
    if result.returncode != 0:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result.stdout


class BFloat16(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-bf16-")
        self.addCleanup(shutil.rmtree, self.work)
        sizes = sample_sizes(os.path.join(MODEL, "data-000000.tar"))
        # Small samples, with and without pictures: an emulated device is slow.
        keys = sorted(sizes, key=lambda key: (sizes[key][1], key))[:STEPS * MICROBATCHES]
        self.caps = [max(sizes[key][i] for key in keys) for i in (0, 1)]
        with open(self.path("steps.jsonl"), "w") as file:
            for step in range(STEPS):
                group = keys[step * MICROBATCHES:(step + 1) * MICROBATCHES]
                file.write(json.dumps({"groups": [[key] for key in group]}) + "\n")

    def path(self, name):
        return os.path.join(self.work, name)

    def compile(self, name, *flags):
        call("omnibal-compile", os.path.join(MODEL, "model.onnx"), "--tiles", max(1, self.caps[0]), "--tokens", self.caps[1],
             "--microbatches", MICROBATCHES, *flags, "-o", self.path(name))

    def train(self, name, *flags):
        log = self.path("log.jsonl")
        if os.path.exists(log):
            os.remove(log)
        call("omnibal-run", self.path(name), "--weights", f"{MODEL}/model.safetensors", "--data",
             f"{MODEL}/data-000000.tar", "--preprocess", f"{MODEL}/preprocessor_config.json", "--steps-file",
             self.path("steps.jsonl"), "--lr", "1e-3", "--log", log, *flags)
        with open(log) as file:
            return [json.loads(line) for line in file]

    def dtypes(self, file):
        with open(file, "rb") as data:
            (size,) = struct.unpack("<Q", data.read(8))
            header = json.loads(data.read(size))
        return {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}

    def assertNear(self, name, log, wanted_name, wanted_log):
        """Losses, norms and gradients within what rounding to bfloat16 costs; and something was rounded."""
        for got, want in zip(log, wanted_log, strict=True):
            self.assertEqual(got["label_tokens"], want["label_tokens"])
            self.assertNotEqual(got["loss"], want["loss"])
            self.assertLess(abs(got["loss"] - want["loss"]), 0.02 * want["loss"])
            self.assertLess(abs(got["grad_norm"] - want["grad_norm"]), 0.05 * want["grad_norm"])
        wanted, got = (read_safetensors(self.path(f"{each}.safetensors")) for each in (wanted_name, name))
        self.assertEqual(wanted.keys(), got.keys())
        whole = sum(x * x for values in wanted.values() for x in values)
        off = sum((x - y) ** 2 for name in wanted for x, y in zip(wanted[name], got[name], strict=True))
        self.assertLess(off, 0.05 ** 2 * whole)

    def test_parts_that_share_words(self):
        layouts = ("--layouts", os.path.join(DATA, "layouts", "tiny-internvl-head.json"))
        for parts, loss, more in ((2, (), ("--stages", 2, "--partition", "layers")), (3, ("--label-smoothing", 0.1), ())):
            with self.subTest(parts=parts):
                self.compile("float32", *loss)
                wanted = self.train("float32", "--save-gradients", self.path("float32.safetensors"))
                self.compile("words", "--target", "cuda", "--gpu-code", "emulated", "--model-parallel", parts, *layouts, *loss, *more)
                with open(self.path("words/functions.json")) as file:
                    self.assertIn("joined_cross_entropy_backward", file.read())
                self.assertNear("words", self.train("words", "--save-gradients", self.path("words.safetensors")), "float32", wanted)

    def test_near_float32_and_the_same_in_every_layout(self):
        # What is recomputed decides which values are stored, and so rounded.
        emulated = ("--target", "cuda", "--gpu-code", "emulated", "--remat", "none")
        self.compile("float32")
        self.compile("one", *emulated)
        self.compile("two", *emulated, "--stages", 2, "--partition", "layers")
        float32 = self.train("float32", "--save-gradients", self.path("float32.safetensors"))
        one = self.train("one", "--save-gradients", self.path("one.safetensors"), "--save", self.path("saved-one"),
                         "--checkpoint", self.path("checkpoints"), "--checkpoint-every", 2)
        self.assertNear("one", one, "float32", float32)

        # Rounding is where values are stored, wherever the cuts are.
        two = self.train("two", "--save", self.path("saved-two"))
        self.assertEqual([e["loss"] for e in one], [e["loss"] for e in two])
        for a, b in zip(one, two, strict=True):
            self.assertLess(abs(a["grad_norm"] - b["grad_norm"]), 1e-6 * a["grad_norm"])
        self.assertEqual(self.dtypes(self.path("saved-one/model.safetensors")), {"F32"})

        shutil.rmtree(self.path(f"checkpoints/step-{STEPS:08}"))
        resumed = self.train("one", "--resume", self.path("checkpoints"), "--save", self.path("resumed"))
        self.assertEqual([(e["loss"], e["grad_norm"]) for e in resumed], [(e["loss"], e["grad_norm"]) for e in one[2:]])
        with open(self.path("saved-one/model.safetensors"), "rb") as first, \
                open(self.path("resumed/model.safetensors"), "rb") as second:
            self.assertTrue(first.read() == second.read(), "the saved weights differ")

    def test_forward(self):
        self.compile("host")
        self.compile("device", "--target", "cuda", "--gpu-code", "emulated")
        outputs = []
        for name in ("host", "device"):
            # One row of tokens without pictures.
            ids = struct.pack("<6i", 1, 5, 9, 14, 3, 7)
            header = json.dumps({"input_ids": {"dtype": "I32", "shape": [1, 6], "data_offsets": [0, 24]}}).encode()
            header += b" " * (-len(header) % 8)
            with open(self.path("inputs.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header + ids)
            call("omnibal-run", self.path(name), "--weights", f"{MODEL}/model.safetensors", "--forward",
                 self.path("inputs.safetensors"), "--output", self.path(f"{name}.safetensors"))
            outputs.append(read_safetensors(self.path(f"{name}.safetensors")))
        host, device = outputs
        self.assertEqual(host.keys(), device.keys())
        for name, values in host.items():
            largest = max(abs(x) for x in values)
            worst = max(abs(x - y) for x, y in zip(values, device[name], strict=True))
            self.assertLess(worst, 0.03 * largest)
            self.assertGreater(worst, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
