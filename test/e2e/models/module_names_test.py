#!/usr/bin/env python3
"""No module's name decides anything: every committed model with all its modules renamed at random, half of them to words
that mislead, compiles to the same program with the same parameters frozen.

    module_names_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from inline_weights import weights_flags  # noqa: E402
from rename_modules import rename  # noqa: E402

BIN, DATA = sys.argv[1:3]
PARTS = ["vision", "projector", "language"]
SEEDS = [1, 2, 3]


def graphs():
    """Folder and graph of every committed model."""
    found = sorted(glob.glob(os.path.join(DATA, "*", "model*.onnx")))
    return [(os.path.dirname(path), os.path.basename(path)) for path in found]


def call(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    if result.returncode != 0:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result


def compile_model(folder, graph, result, freeze):
    shutil.rmtree(result, ignore_errors=True)
    return call(os.path.join(BIN, "omnibal-compile"), os.path.join(folder, graph), "--tiles", "6", "--tokens", "200",
                "--stages", "2", "--microbatches", "2", "--freeze", freeze, *weights_flags(folder, graph), "-o", result)


def parts(folder, graph):
    """The part of every parameter, from the layers that the compiler finds."""
    text = call(os.path.join(BIN, "omnibal-opt"), os.path.join(folder, graph), *weights_flags(folder, graph),
                "--omnibal-specialize", "--omnibal-raise=tokens=64", "--omnibal-form-layers").stdout
    parameters = dict(re.findall(r'(%\w+) = omnibal.get_parameter @"?([^" ]+)"? :', text))
    found = {}
    for kind, operands in re.findall(r'omnibal.layer "[^"]*" (\w+) inputs\([^)]*\) parameters\(([^)]*)\)', text):
        for operand in operands.split(", ") if operands else []:
            # A tied table is read by the embedding and by the head.
            found[parameters[operand]] = "language" if kind == "head" else kind
    return found


def stages_of(program):
    with open(os.path.join(program, "stages.json")) as file:
        return json.load(file)


def frozen(program):
    return {parameter["name"] for stage in stages_of(program) for parameter in stage["parameters"]
            if not parameter["trainable"]}


def without_names(value, names):
    """The file's contents with new parameter names in place of old ones and without labels of nodes."""
    if isinstance(value, dict):
        return {key: without_names(item, names) for key, item in value.items() if key not in ("label", "model")}
    if isinstance(value, list):
        return [without_names(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


class ModuleNames(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-names-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, *names):
        return os.path.join(self.work, *names)

    def test_graphs_are_found(self):
        self.assertGreaterEqual(len(graphs()), 16)

    def test_parts(self):
        """Every parameter of every graph belongs to the same part, whatever it is called."""
        for number, (folder, graph) in enumerate(graphs()):
            expected = parts(folder, graph)
            self.assertEqual(set(expected.values()), set(PARTS))
            for seed in SEEDS:
                with self.subTest(folder=os.path.basename(folder), graph=graph, seed=seed):
                    names = rename(folder, graph, self.path("renamed"), number * len(SEEDS) + seed)
                    renamed = parts(self.path("renamed"), "model.onnx")
                    self.assertEqual(renamed, {names[name]: part for name, part in expected.items()})

    def test_frozen_parameters(self):
        """--freeze takes the same parameters of every model, whatever they are called."""
        for number, (folder, graph) in enumerate(graphs()):
            part = PARTS[number % len(PARTS)]
            with self.subTest(folder=os.path.basename(folder), graph=graph, part=part):
                names = rename(folder, graph, self.path("renamed"), number)
                compile_model(folder, graph, self.path("plain"), part)
                compile_model(self.path("renamed"), "model.onnx", self.path("other"), part)
                expected = frozen(self.path("plain"))
                self.assertTrue(expected)
                self.assertEqual(frozen(self.path("other")), {names[name] for name in expected})

    def test_programs(self):
        """The whole program but for names, for several renamings of one model."""
        folder, graph = os.path.join(DATA, "tiny-internvl"), "model.onnx"
        compile_model(folder, graph, self.path("plain"), "vision")
        for seed in SEEDS:
            with self.subTest(seed=seed):
                names = rename(folder, graph, self.path("renamed"), seed)
                output = compile_model(self.path("renamed"), "model.onnx", self.path("other"), "vision")
                for file in sorted(os.listdir(self.path("plain"))):
                    if file == "manifest.json":
                        continue  # sizes and checksums of the others
                    self.compare(file, names)
                # Names that mislead are said to.
                self.assertIn("by the graph", output.stderr)

    def compare(self, file, names):
        contents = []
        for program, table in (("plain", names), ("other", {})):
            with open(self.path(program, file), "rb") as stream:
                data = stream.read()
            if file.endswith(".json"):
                data = without_names(json.loads(data), table)
            contents.append(data)
        self.assertEqual(contents[0], contents[1], file)

    def test_committed_names_agree_with_the_graph(self):
        for folder, graph in graphs():
            with self.subTest(folder=os.path.basename(folder), graph=graph):
                output = compile_model(folder, graph, self.path("plain"), "vision")
                self.assertNotIn("by the graph", output.stderr)
                with open(os.path.join(folder, "reference.json")) as stream:
                    variants = json.load(stream)["variants"]
                # What PyTorch froze, of what the graph reads.
                unused = set(variants["train_all"]["without_gradient"])
                self.assertEqual(frozen(self.path("plain")), set(variants["freeze_vision"]["frozen"]) - unused)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
