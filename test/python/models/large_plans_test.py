#!/usr/bin/env python3
"""Large models of dynamic resolution are planned from their configurations alone, in 10 s of a core and 2 GB:
large_plans_test.py BIN_FOLDER [unittest options]"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from transformers import Qwen2_5_VLConfig, Qwen3VLMoeConfig

SECONDS, BYTES = 10, 2 * 1000 ** 3


def dense():
    """As Qwen2.5-VL of 72 thousand million parameters: windows, rotary positions of three axes."""
    return Qwen2_5_VLConfig(
        text_config=dict(hidden_size=8192, intermediate_size=29568, num_hidden_layers=80, num_attention_heads=64,
                         num_key_value_heads=8, vocab_size=152064, tie_word_embeddings=False),
        vision_config=dict(depth=32, hidden_size=1280, intermediate_size=3456, num_heads=16, out_hidden_size=8192,
                           fullatt_block_indexes=[7, 15, 23, 31], window_size=112, patch_size=14, spatial_merge_size=2),
        tie_word_embeddings=False)


def mixture():
    """As Qwen3-VL of 30 thousand million parameters: 128 experts a layer of which a token takes 8, features of three
    inner vision layers in the language model."""
    return Qwen3VLMoeConfig(
        text_config=dict(hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_experts=128,
                         num_experts_per_tok=8, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4,
                         head_dim=128, vocab_size=151936, tie_word_embeddings=False),
        vision_config=dict(depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=2048,
                           patch_size=16, spatial_merge_size=2, deepstack_visual_indexes=[8, 16, 24]),
        tie_word_embeddings=False)


class LargePlans(unittest.TestCase):
    def plan(self, config, stages, parameters):
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            subprocess.run([sys.executable, f"{ROOT}/tools/python/export.py", f"{folder}/config.json", "--out", f"{folder}/graph",
                            "--no-weights"], check=True, stdout=subprocess.DEVNULL)
            # A child's usage is known once it ended; the largest of all children would be the exporter's.
            with tempfile.TemporaryFile("w+") as output:
                child = subprocess.Popen([f"{BIN}/omnibal-compile", f"{folder}/graph/model.onnx", "--tiles", "4096", "--tokens", "8192",
                                          "--stages", str(stages), "--microbatches", str(2 * stages), "--target", "cuda",
                                          "--dtype", "bfloat16", "--dry-run"], stdout=output, stderr=output)
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
                output.seek(0)
                text = output.read()
        self.assertEqual(child.returncode, 0, text)
        print(f"{usage.ru_utime + usage.ru_stime:.1f} s, {usage.ru_maxrss / 1e6:.2f} GB")
        self.assertLess(usage.ru_utime + usage.ru_stime, SECONDS)
        self.assertLess(usage.ru_maxrss * 1024, BYTES)
        rows = re.findall(r"^ +\d+ +([\d.]+)([MG]) ", text, re.MULTILINE)
        self.assertEqual(len(rows), stages, text)
        planned = sum(float(count) * {"M": 1e6, "G": 1e9}[unit] for count, unit in rows)
        self.assertAlmostEqual(planned / parameters, 1, delta=0.005)  # by hand, from the published sizes
        self.assertIn("gap 0.00%", text)

    def test_dense(self):
        self.plan(dense(), 16, 73.4e9)

    def test_mixture_of_experts(self):
        self.plan(mixture(), 8, 31.07e9)


if __name__ == "__main__":
    unittest.main()
