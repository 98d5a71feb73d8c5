#!/usr/bin/env python3
"""What attention within pictures costs, from the compiler's count and from a calibration to balanced batches and back:
picture_costs_test.py BIN_FOLDER DATA_FOLDER

The model is a small Qwen2.5-VL: each layer of its vision is a block that attends within windows and one that attends within
whole pictures. Its work is counted by hand, on a device that does one operation in a nanosecond.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-qwen2_5_vl")
SHARD, PROCESSOR = os.path.join(MODEL, "data-000000.tar"), os.path.join(MODEL, "preprocessor_config.json")
UNITS, TOKENS = 80, 420
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

# Of the vision: width, width of the MLP, layers of two blocks; a unit is 2 x 2 patches, a window 4 x 4.
WIDTH, INNER, LAYERS, PATCHES, WINDOW = 48, 104, 2, 4, 16
# Scores and their sums: two products of all heads for every pair of patches. Backward: five for these two.
PAIR = 4 * WIDTH
LINEAR = 2 * PATCHES * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER)  # a unit of a block: qkv and output, gate, up and down


def call(tool, *arguments, code=0):
    command = [os.path.join(BIN, tool), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, env=ENVIRONMENT)
    if result.returncode != code:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result


def read(path):
    with open(path) as file:
        return json.load(file)


def numbers(path):
    """A one-dimensional array of int64."""
    with open(path, "rb") as file:
        data = file.read()
    body = data[10 + struct.unpack("<H", data[8:10])[0]:]
    return struct.unpack(f"<{len(body) // 8}q", body)


def groups_of(folder):
    samples, borders = numbers(f"{folder}/samples.npy"), numbers(f"{folder}/groups.npy")
    return [samples[begin:end] for begin, end in zip(borders, borders[1:])]


def pictures_of_samples():
    """The units of each picture of each sample; the model's units are 8 pixels wide."""
    samples = []
    with tarfile.open(SHARD) as tar:
        for member in tar:
            if member.name.endswith(".json"):
                samples.append([])
            else:
                width, height = struct.unpack(">II", tar.extractfile(member).read()[16:24])
                samples[-1].append(width // 8 * (height // 8))
    return samples


class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-pictures-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        device = {"flops": {"float32": 10 ** 9}, "memory_bytes": 10 ** 12, "bytes_per_s": 10 ** 18}
        cls.write("cluster.json", {"stages": 2, "device": device})

    @classmethod
    def path(cls, name):
        return os.path.join(cls.work, name)

    @classmethod
    def write(cls, name, value):
        with open(cls.path(name), "w") as file:
            json.dump(value, file)
        return cls.path(name)

    @classmethod
    def compile(cls, *flags, graph="model.onnx", model=MODEL, cost="model.cost"):
        """The problem and the batch cost."""
        call("omnibal-compile", os.path.join(model, graph), "--tiles", UNITS, "--tokens", TOKENS, "--emit-problem",
             cls.path("problem.json"), "--emit-batch-cost", cls.path(cost), "--dry-run", *flags)
        return read(cls.path("problem.json")), read(cls.path(cost))

    def counted(self, *flags, **options):
        return self.compile("--cluster", self.path("cluster.json"), *flags, **options)

    def batch(self, name, *flags):
        call("omnibal-batch", SHARD, "--preprocess", PROCESSOR, "--tiles", UNITS, "--tokens", TOKENS, *flags, "-o", self.path(name))
        return self.path(name)


class ByHand(Test):
    def test_only_whole_pictures_count_in_squares(self):
        for graph in ("model.onnx", "model-opset23.onnx"):
            for flags, times in ((("--remat", "none"), 1 + 2.5), (("--remat", "full"), 1 + 1 + 2.5),
                                 (("--freeze", "vision"), 1)):
                _, cost = self.counted(*flags, graph=graph)
                self.assertAlmostEqual(cost["tile_square_ns"], LAYERS * PAIR * PATCHES ** 2 * times, delta=1e-3, msg=flags)

    def test_a_layer_at_the_caps(self):
        """Windows by windows, pictures by pictures: one of all units, or those of the data."""
        def forward(squares):
            return 2 * LINEAR * UNITS + PAIR * (PATCHES * WINDOW * UNITS + PATCHES ** 2 * squares)
        pictures = pictures_of_samples()
        units, squares = sum(map(sum, pictures)), sum(u * u for sample in pictures for u in sample)
        self.assertGreater(max(map(len, pictures)), 1)
        folder = self.batch("caps")
        for flags, expected in (((), UNITS ** 2), (("--batches", folder), -(-squares * UNITS // units))):
            problem, _ = self.counted(*flags)
            layers = [layer for layer in problem["layers"] if layer["name"].startswith("vision.layers")]
            self.assertEqual(len(layers), LAYERS)
            for layer in layers:
                self.assertAlmostEqual(layer["forward_ns"], forward(expected), delta=1)

    def test_micro_batches_by_their_pictures(self):
        """Equal units are not equal work."""
        def vision(units, squares):  # forward and backward, with the embedding of 2 x 3 x 4 x 4 values a patch
            attention = PATCHES * WINDOW * units + PATCHES ** 2 * squares
            return 2 * 2 * PATCHES * 96 * WIDTH * units + LAYERS * (3 * 2 * LINEAR * units + 3.5 * PAIR * attention)
        pictures = pictures_of_samples()
        folder = self.batch("loads")
        groups = [[pictures[i] for i in group] for group in groups_of(folder)]
        loads = [(sum(map(sum, group)), sum(u * u for sample in group for u in sample)) for group in groups]
        full = vision(UNITS, sum(s for _, s in loads) * UNITS / sum(u for u, _ in loads))
        problem, _ = self.counted("--batches", folder, "--microbatches", len(groups))
        for (units, squares), factors in zip(loads, problem["microbatches"], strict=True):
            self.assertAlmostEqual(factors["vision"], vision(units, squares) / full, delta=1.1e-4)
            self.assertAlmostEqual(factors["projector"], units / UNITS, delta=1e-4)
        self.assertGreater(max(abs(vision(u, s) / full - u / UNITS) for u, s in loads), 0.01)

    def test_tiles_of_one_size_have_no_such_cost(self):
        _, cost = self.counted(model=os.path.join(DATA, "tiny-internvl"))
        self.assertEqual(set(cost), {"tile_ns", "token_ns", "square_ns"})


class FromCostToSteps(Test):
    def test_a_run_on_batches_by_this_cost(self):
        self.counted()
        folder = self.batch("batches", "--ranks", 2, "--cost", self.path("model.cost"))
        facts = read(f"{folder}/batches.json")
        self.assertEqual(facts["cost"], read(self.path("model.cost")))
        self.assertIn("dist_ratio_cost", facts["after"])
        call("omnibal-compile", os.path.join(MODEL, "model.onnx"), "--tiles", UNITS, "--tokens", TOKENS, "--data-parallel", 2,
             "--microbatches", 1, "--stages", 1, "--batches", folder, "-o", self.path("program"))
        # Into the second epoch, whose groups follow from lengths, squares and settings.
        run = (self.path("program"), "--weights", os.path.join(MODEL, "model.safetensors"), "--data", SHARD, "--preprocess",
               PROCESSOR, "--batches", folder, "--steps", facts["steps"] + 2)
        call("omnibal-run", *run, "--log", self.path("run.jsonl"))
        with open(self.path("run.jsonl")) as file:
            self.assertEqual(len(file.readlines()), facts["steps"] + 2)
        # A folder of other pictures with equal units: the first sample with several becomes one of one.
        pictures = pictures_of_samples()
        changed = next(i for i, sample in enumerate(pictures) if len(sample) > 1)
        with open(f"{folder}/squares.npy", "r+b") as file:
            header = 10 + struct.unpack("<H", file.read(10)[8:])[0]
            file.seek(header + 8 * changed)
            self.assertEqual(struct.unpack("<q", file.read(8))[0], sum(u * u for u in pictures[changed]))
            file.seek(header + 8 * changed)
            file.write(struct.pack("<q", sum(pictures[changed]) ** 2))
        message = call("omnibal-run", *run, code=1).stderr
        self.assertIn(f"the pictures of sample {changed} ", message)
        self.assertIn("squares.npy", message)


class Measured(Test):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        call("omnibal-compile", os.path.join(MODEL, "model.onnx"), "--tiles", UNITS, "--tokens", TOKENS, "--stages", 1, "--remat",
             "none", "-o", cls.path("program"))
        call("omnibal-run", cls.path("program"), "--calibrate", cls.path("table.json"), "--threads", 1)
        cls.table = read(cls.path("table.json"))

    def entries(self, within_pictures):
        return [entry for entry in self.table["functions"] if entry["layer"].startswith("vision.layers") == within_pictures]

    def test_terms_and_loads(self):
        self.assertEqual(len(self.entries(True)), 2)  # forward and backward of equal layers
        for entry in self.entries(True):
            self.assertGreaterEqual(entry["tile_square_ns"], 0)
            loads = {}
            for units, tokens, lengths, labels, ns, squares in entry["measured"]:
                self.assertTrue(units <= squares <= units ** 2 and squares % 2 == units % 2 and ns > 0)
                loads.setdefault(units, set()).add(squares)
            self.assertGreater(len(loads[UNITS]), 1)  # else squares and units could not be told apart
        for entry in self.entries(False):
            self.assertNotIn("tile_square_ns", entry)
            self.assertEqual({len(load) for load in entry["measured"]}, {5})

    def with_table(self, table, *flags):
        return self.compile("--stages", 2, "--remat", "none", "--calibration", self.write("used.json", table), *flags)

    def test_costs_are_those_of_the_table(self):
        table = json.loads(json.dumps(self.table))
        for entry in table["functions"]:
            if "tile_square_ns" in entry:
                entry["tile_square_ns"] = 1000
        # Two functions of each of the layers.
        problem, cost = self.with_table(table)
        self.assertAlmostEqual(cost["tile_square_ns"], 2 * 1000 * LAYERS, delta=1)
        forward = next(entry for entry in table["functions"] if "tile_square_ns" in entry and "forward" in entry["name"])
        layer = next(layer for layer in problem["layers"] if layer["name"].startswith("vision.layers"))
        self.assertAlmostEqual(layer["forward_ns"], forward["fixed_ns"] + forward["tile_ns"] * UNITS + 1000 * UNITS ** 2, delta=1)
        # The factors of micro-batches follow the pictures of the data.
        folder = self.batch("measured")
        groups = read(f"{folder}/batches.json")["groups"]
        factors = [step["vision"] for step in self.with_table(table, "--batches", folder, "--microbatches", groups)[0]["microbatches"]]
        self.assertEqual(len(factors), groups)
        self.assertGreater(len(set(factors)), 1)

    def test_a_table_of_before_there_was_such_a_term(self):
        old = json.loads(json.dumps(self.table))
        for entry in old["functions"]:
            entry.pop("tile_square_ns", None)
            entry["measured"] = [load[:5] for load in entry["measured"]]
        _, cost = self.with_table(old)
        self.assertEqual(set(cost), {"tile_ns", "token_ns", "square_ns"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
