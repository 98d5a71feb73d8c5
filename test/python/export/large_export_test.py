#!/usr/bin/env python3
"""A published InternVL of 26 thousand million parameters is exported in less than 4 GB: the checkpoint's shards are headers
and holes, the graph points into them."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "test", "support", "python"))
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import onnx
import torch
from transformers import AutoModelForImageTextToText, InternVLConfig
from transformers.core_model_loading import revert_weight_conversion

import checkpoints

LIMIT = 4 * 1000 ** 3


def configuration():
    return InternVLConfig(
        vision_config=dict(hidden_size=3200, num_hidden_layers=45, num_attention_heads=25, intermediate_size=12800,
                           image_size=[448, 448], patch_size=[14, 14], use_qk_norm=True, norm_type="rms_norm"),
        text_config=dict(model_type="qwen2", hidden_size=6144, num_hidden_layers=48, num_attention_heads=48,
                         num_key_value_heads=8, intermediate_size=16384, vocab_size=92553, tie_word_embeddings=False),
        image_token_id=92546, image_seq_length=256, tie_word_embeddings=False)


class LargeExport(unittest.TestCase):
    def test_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            config = configuration()
            config.save_pretrained(folder)
            with torch.device("meta"):
                model = AutoModelForImageTextToText.from_config(config)
            shapes = {name: value.shape for name, value in revert_weight_conversion(model, model.state_dict()).items()}
            self.assertGreater(sum(shape.numel() for shape in shapes.values()), 24e9)
            checkpoints.header_only(folder, shapes)
            del model
            run = subprocess.run([sys.executable, f"{ROOT}/tools/python/export.py", folder], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("not verified", run.stdout)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            print(f"{peak / 1e9:.2f} GB at most")
            self.assertLess(peak, LIMIT)
            graph = onnx.load(f"{folder}/model.onnx", load_external_data=False).graph
            with open(f"{folder}/model.safetensors.index.json") as file:
                stored = json.load(file)["weight_map"]
            places = {t.name: {e.key: e.value for e in t.external_data}["location"] for t in graph.initializer if t.external_data}
            self.assertEqual(places, stored)


if __name__ == "__main__":
    unittest.main()
