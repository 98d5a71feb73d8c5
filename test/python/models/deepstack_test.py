#!/usr/bin/env python3
"""Features of inner vision layers that are added to hidden states of the first language layers (Qwen3-VL): one to three
stages, frozen vision, recomputation, against PyTorch."""
import sys
import tempfile
import unittest

from small_training import TOLERANCE, Training, worst

import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Qwen2VLImageProcessor

from exporter.small_models import roughen

BIN = sys.argv.pop()


def small_model():
    config = Qwen3VLConfig(
        image_token_id=4, video_token_id=5, vision_start_token_id=6, vision_end_token_id=7, tie_word_embeddings=False,
        vision_config=dict(depth=4, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=4, out_hidden_size=48,
                           num_position_embeddings=16, deepstack_visual_indexes=[0, 2], spatial_merge_size=2,
                           temporal_patch_size=2),
        text_config=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=16, vocab_size=128, max_position_embeddings=256,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[3, 3, 2],
                                              mrope_interleaved=True)))
    torch.manual_seed(3)
    return roughen(Qwen3VLForConditionalGeneration(config), 4)


class Deepstack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        processor = Qwen2VLImageProcessor(do_resize=False, patch_size=4, merge_size=2, temporal_patch_size=2)
        cls.training = Training(small_model(), folder, processor)
        cls.whole = cls.training.in_pytorch()
        inner = ("model.visual.patch_embed.", "model.visual.pos_embed.", "model.visual.blocks.")
        cls.frozen = cls.training.in_pytorch(lambda name: name.startswith(inner))

    def check(self, expected, *flags):
        self.assertLess(worst(self.training.trained(BIN, *flags), expected), TOLERANCE, flags)

    def test_the_graph_is_the_model(self):
        self.assertLess(self.training.difference, 1e-4)

    def test_one_to_three_stages(self):
        for stages in (1, 2, 3):
            self.check(self.whole, "--stages", stages, "--partition", "layers")

    def test_features_cross_several_stages(self):
        # Each of 13 layers is a stage's first or last in some of these.
        self.check(self.whole, "--stages", 6, "--partition", "layers", "--schedule", "gpipe")
        self.check(self.whole, "--stages", 2, "--partition", "layers", "--schedule", "interleaved:3")
        self.check(self.whole, "--stages", 3, "--partition", "layers", "--schedule", "zb-h1")

    def test_recomputation(self):
        self.check(self.whole, "--stages", 2, "--remat", "full")

    def test_frozen_vision(self):
        for flags in (("--stages", 1), ("--stages", 3, "--partition", "layers", "--remat", "full")):
            self.check(self.frozen, "--freeze", "vision", *flags)


if __name__ == "__main__":
    unittest.main()
