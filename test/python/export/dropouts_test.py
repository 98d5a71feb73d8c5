#!/usr/bin/env python3
"""A model's own dropout in the graphs of export.py: where it is, with which ratio, that evaluation has none, and that
omnibal-compile takes it.

    dropouts_test.py BIN_FOLDER
"""
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import onnx
from onnx import numpy_helper
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
from exporter.constructs import dropouts

BIN = sys.argv[1]
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 128}


class Dropouts(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def export(self, *options, name="model", **ratios):
        """What export.py says; it compares the graph with PyTorch in evaluation mode itself."""
        with open(f"{self.work}/config.json", "w") as file:
            json.dump({**GPT2, **ratios}, file)
        run = subprocess.run([sys.executable, f"{ROOT}/tools/python/export.py", f"{self.work}/config.json", "--out", f"{self.work}/{name}", *options],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("ONNX Runtime differs from PyTorch by", run.stdout)
        return run.stdout

    def graph(self, name="model"):
        return onnx.load(f"{self.work}/{name}/model.onnx", load_external_data=False).graph

    def dropped(self):
        """(module, ratio) of each dropout of training."""
        graph = self.graph()
        constants = {node.output[0]: numpy_helper.to_array(node.attribute[0].t) for node in graph.node
                     if node.op_type == "Constant" and node.attribute[0].name == "value"}
        found = []
        for node in graph.node:
            if node.op_type == "Dropout":
                self.assertEqual(constants[node.input[2]], True)
                scopes = next(p.value for p in node.metadata_props if p.key.endswith("name_scopes"))
                found.append((scopes.split("'")[-4], round(float(constants[node.input[1]]), 6)))
        return found

    def compile(self, *flags, folder="model"):
        return subprocess.run([f"{BIN}/omnibal-compile", f"{self.work}/{folder}/model.onnx", "--tiles", "1", "--tokens", "64", *flags],
                              capture_output=True, text=True)

    def test_the_models_places_and_ratios(self):
        said = self.export(embd_pdrop=0.2, resid_pdrop=0.1, attn_pdrop=0.3)
        self.assertEqual(self.dropped(), [("transformer.drop", 0.2), *((f"transformer.h.{layer}.{place}", 0.1) for layer in (0, 1)
                                                                      for place in ("attn.resid_dropout", "mlp.dropout"))])
        self.assertIn("dropout in 5 places", said)
        self.assertIn("nothing in attention", said)
        self.assertIn("attn_pdrop 0.3 of GPT2Config", said)
        for flags in ((), ("--dropout", "hidden"), ("--dropout", "0.25"), ("--dropout", "0")):
            run = self.compile(*flags, "--stages", "2", "--dry-run")
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_graphs_without(self):
        self.assertIn("attn_pdrop", self.export(embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.3))
        self.assertEqual(self.dropped(), [])
        self.assertNotIn("dropout", self.export("--no-dropout", name="told", embd_pdrop=0.1, resid_pdrop=0.1))
        self.assertEqual(self.graph().SerializeToString(deterministic=True), self.graph("told").SerializeToString(deterministic=True))

    def test_nothing_dropped_is_the_program_of_evaluation(self):
        """To the byte, of a graph whose dropout has no training mode."""
        self.export(embd_pdrop=0.2, resid_pdrop=0.1)
        os.mkdir(f"{self.work}/evaluation")
        shutil.copyfile(f"{self.work}/model/model.safetensors", f"{self.work}/evaluation/model.safetensors")
        proto = onnx.load(f"{self.work}/model/model.onnx", load_external_data=False)
        with open(f"{self.work}/evaluation/model.onnx", "wb") as file:
            file.write(dropouts.in_evaluation(proto).SerializeToString())
        for folder, program, flags in (("model", "none", ("--dropout", "0")), ("evaluation", "evaluation", ()), ("model", "some", ())):
            run = self.compile(*flags, "-o", f"{self.work}/{program}-program", folder=folder)
            self.assertEqual(run.returncode, 0, run.stderr)
        names = os.listdir(f"{self.work}/evaluation-program")
        differing = {program: filecmp.cmpfiles(f"{self.work}/{program}-program", f"{self.work}/evaluation-program", names, shallow=False)[1:]
                     for program in ("none", "some")}
        self.assertEqual(differing["none"], ([], []))
        self.assertIn("functions.json", differing["some"][0])

    def test_one_picture_at_a_time(self):
        x = torch.randn(3, 4)
        with dropouts.kept():
            found = torch.export.export(Pictures(), (x,), strict=False)
            torch.testing.assert_close(torch.vmap(torch.nn.Dropout(0.5))(x), x)
        nodes = [node for node in found.graph.nodes if node.target is torch.ops.omnibal.dropout.default]
        self.assertEqual([node.args[1] for node in nodes], [0.25])
        torch.testing.assert_close(found.module()(x), 2 * x)


class Pictures(torch.nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: 2 * torch.nn.functional.dropout(row, 0.25, training=False))(x)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
