#!/usr/bin/env python3
"""Tokens that attend to pictures, against PyTorch: samples of no to three pictures, some side by side, packed."""
import contextlib
import io
import os
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

from small_training import TOLERANCE, Training, run, worst

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import export
from exporter.pictures import crossing
from exporter.errors import ExportError
from exporter.small_models import roughen

BIN = sys.argv.pop()
PIXELS = dict(do_rescale=True, rescale_factor=1 / 255, do_normalize=True, image_mean=[0.5] * 3, image_std=[0.5] * 3)
# Where the pictures of a sample stand among its words, in turn.
PLACES = ["", "wPww", "wwPPwPw", "PwwP"]


def mllama(**vision):
    return transformers.MllamaConfig(
        image_token_index=7,
        vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_global_layers=1, attention_heads=2,
                           image_size=8, patch_size=4, intermediate_layers_indices=[0, 2], vision_output_dim=96, **vision),
        text_config=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=5, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=120, max_position_embeddings=256, cross_attention_layers=[1, 3],
                         pad_token_id=0, bos_token_id=1, eos_token_id=2,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0)))


class CrossTraining(Training):
    """Samples whose pictures are single tokens."""

    def __init__(self, model, folder):
        super().__init__(model, folder, types.SimpleNamespace(to_dict=lambda: PIXELS))

    def sample(self, number, generator):
        word = lambda: int(generator.integers(10, 100))
        places = PLACES[number % len(PLACES)] + "w" * int(generator.integers(3, 9))
        ids = [self.facts.token if place == "P" else word() for place in places]
        labels = [-100 if i < len(ids) // 3 or t == self.facts.token else t for i, t in enumerate(ids)]
        pictures = [generator.integers(0, 256, (*self.facts.size(), 3), dtype=np.uint8) for _ in range(places.count("P"))]
        row = torch.tensor([ids])
        rows = dict(input_ids=row, attention_mask=torch.ones_like(row))
        pixels = [torch.from_numpy((picture / 255 - 0.5) / 0.5).permute(2, 0, 1).float() for picture in pictures]
        inputs, _ = self.facts.with_pictures(rows, torch.stack(pixels) if pixels else [])
        return (dict(input_ids=ids, labels=labels), inputs, len(pictures)), pictures


class Crossing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        torch.manual_seed(1)
        model = roughen(transformers.AutoModelForImageTextToText.from_config(mllama()), 2)
        cls.training = CrossTraining(model, cls.folder)
        cls.expected = cls.training.in_pytorch()

    def check(self, tolerance, *flags):
        self.assertLess(worst(self.training.trained(BIN, *flags), self.expected), tolerance, flags)

    def test_export(self):
        self.assertLess(self.training.difference, 1e-4)

    def test_training(self):
        for flags in (("--stages", 1), ("--stages", 3, "--partition", "layers"), ("--stages", 2, "--remat", "full"),
                      ("--stages", 2, "--schedule", "zb-h1", "--partition", "layers")):
            self.check(TOLERANCE, *flags)

    def test_frozen_vision(self):
        frozen = lambda name: "vision_model" in name
        expected = self.training.in_pytorch(frozen)
        ours = self.training.trained(BIN, "--stages", 2, "--freeze-match", "vision_model")
        self.assertLess(worst(ours, expected), TOLERANCE)

    def test_on_the_emulated_device(self):
        with mock.patch.dict(os.environ, {"OMNIBAL_PLUGINS": os.path.join(os.path.dirname(BIN), "emulated")}):
            flags = ("--target", "cuda", "--gpu-code", "emulated", "--stages", 2)
            self.check(TOLERANCE, *flags, "--dtype", "float32")
            self.check(5e-3, *flags)  # in bfloat16

    def forward(self, given, program=None):
        save_file({n: v.contiguous() for n, v in given.items()}, f"{self.folder}/in.safetensors")
        run(f"{BIN}/omnibal-run", program or self.training.compiled(BIN, "--stages", 1), "--weights", f"{self.folder}/model", "--forward",
            f"{self.folder}/in.safetensors", "-o", f"{self.folder}/out.safetensors")
        return load_file(f"{self.folder}/out.safetensors")["logits"]

    def test_the_mask_of_the_processor(self):
        inputs, graph = self.training.facts.sample([3])
        with torch.no_grad():
            wanted = self.training.model(**inputs, use_cache=False).logits
        self.assertLess(float((self.forward(graph) - wanted).abs().max()), 1e-4)
        graph[crossing.SEEN] = graph[crossing.SEEN].clone()
        graph[crossing.SEEN][0, -1, 0] = 1  # a picture that is too far back
        with self.assertRaisesRegex(AssertionError, "cross_attention_mask of row 0, token 19, is not what the places of the "
                                                    "image tokens give"):
            self.forward(graph)

    def test_attention_as_one_operator(self):
        with contextlib.redirect_stdout(io.StringIO()):
            report = export.export_model(f"{self.folder}/model", f"{self.folder}/model", opset=23, name="new.onnx")
        self.assertIn("Attention", {node.op_type for node in report.proto.graph.node})
        run(f"{BIN}/omnibal-compile", report.path, "--weights", f"{self.folder}/model", "--tiles", 4, "--tokens", 64, "--stages", 2,
            "-o", f"{self.folder}/new")
        inputs, graph = self.training.facts.sample([2], seed=4)
        with torch.no_grad():
            wanted = self.training.model(**inputs, use_cache=False).logits
        self.assertLess(float((self.forward(graph, f"{self.folder}/new") - wanted).abs().max()), 1e-4)

    def test_nothing_says_which_token_marks_pictures(self):
        alone = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copy(f"{self.folder}/model/model.onnx", alone)
        with self.assertRaisesRegex(AssertionError, r"does not say which token marks them \(`image_token_id`\)"):
            run(f"{BIN}/omnibal-compile", f"{alone}/model.onnx", "--weights", f"{self.folder}/model", "--tiles", 4,
                "--tokens", 64, "--stages", 1, "--dry-run")

    def test_pictures_side_by_side_of_other_tokens(self):
        ids = [7, 3, 7, 7, 3]
        self.assertEqual(crossing.seen_pictures(ids, 7), [(0, 1), (0, 1), (1, 2), (1, 3), (1, 3)])

    def test_a_processor_of_another_rule(self):
        from transformers.models.mllama import processing_mllama
        last = lambda ids, token: [[place, -1] for place, value in enumerate(ids) if value == token]
        with mock.patch.object(processing_mllama, "get_cross_attention_token_mask", last):
            with self.assertRaisesRegex(ExportError, "shows tokens other pictures"):
                crossing.check_rule(self.training.model)

    def test_a_mask_of_another_name(self):
        from exporter.pictures import probing
        from exporter.small_models import small_model
        with self.assertRaisesRegex(ExportError, "attend to pictures by image_attention_mask; only cross_attention_mask"):
            probing.candidates(small_model("idefics"))

    def test_tiles_that_stay_empty(self):
        config = mllama(max_num_tiles=5, supported_aspect_ratios=[[1, 1], [2, 2]])
        model = transformers.AutoModelForImageTextToText.from_config(config)
        with self.assertRaisesRegex(ExportError, "no arrangement of tiles uses all 5"):
            crossing.arrangement(model, [(8, 8)])


if __name__ == "__main__":
    unittest.main()
