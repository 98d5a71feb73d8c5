#!/usr/bin/env python3
"""A learned table of positions that is resampled to pictures of any size by cubic interpolation, sixteen entries a patch
(GLM-4V): pictures of several sizes in a batch, smaller and larger than the table, against PyTorch."""
import json
import sys
import tempfile
import unittest

from small_training import TOLERANCE, Training, worst

import torch
from transformers import Glm4vConfig, Glm4vForConditionalGeneration
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil as Glm4vImageProcessor

from exporter.small_models import roughen

BIN = sys.argv.pop()
TABLE = "model.visual.embeddings.position_embedding.weight"


def small_model():
    config = Glm4vConfig(
        image_token_id=4, video_token_id=5, image_start_token_id=6, image_end_token_id=7, video_start_token_id=8,
        video_end_token_id=9, tie_word_embeddings=False,
        vision_config=dict(depth=2, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=4, out_hidden_size=48,
                           image_size=20, spatial_merge_size=2, temporal_patch_size=2),
        text_config=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=128, max_position_embeddings=256,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 2, 2],
                                              partial_rotary_factor=1.0)))
    torch.manual_seed(3)
    return roughen(Glm4vForConditionalGeneration(config), 4)


class PositionTable(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        processor = Glm4vImageProcessor(do_resize=False, patch_size=4, merge_size=2, temporal_patch_size=2)
        cls.training = Training(small_model(), cls.folder, processor)
        cls.whole = cls.training.in_pytorch()

    def check(self, expected, *flags):
        self.assertLess(worst(self.training.trained(BIN, *flags), expected), TOLERANCE, flags)

    def test_the_graph_is_the_model(self):
        self.assertLess(self.training.difference, 1e-4)

    def test_sixteen_entries_a_patch_are_recorded(self):
        with open(f"{self.folder}/model/omnibal.json") as file:
            pictures = json.load(file)["pictures"]
        self.assertEqual(pictures, dict(patch=4, merge=2, temporal=2, window=0, grid_side=5, interpolation="bicubic", align_corners=False))

    def test_one_to_three_stages(self):
        for stages in (1, 2, 3):
            self.check(self.whole, "--stages", stages, "--partition", "layers")

    def test_recomputation(self):
        self.check(self.whole, "--stages", 2, "--remat", "full")

    def test_the_table_decides(self):
        """Without the table's training losses are others: the comparison sees it."""
        frozen = self.training.in_pytorch(lambda name: name == TABLE)
        self.assertGreater(worst(frozen, self.whole), 10 * TOLERANCE)


if __name__ == "__main__":
    unittest.main()
