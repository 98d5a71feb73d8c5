#!/usr/bin/env python3
"""Rows of embeddings that PyTorch does not train (`padding_idx`): samples hold the token, its row stays as it was, and
losses and gradient norms are PyTorch's. With a tied matrix the row trains as part of the head."""
import sys
import tempfile
import unittest

from small_training import TOLERANCE, Training, run, worst

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from exporter.small_models import roughen

BIN = sys.argv.pop()
PADDING = 81  # a token like any other, of which samples hold several; they hold 39 too


class Padding(unittest.TestCase):
    def train(self, tied):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        torch.manual_seed(1)
        model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                             num_key_value_heads=2, vocab_size=128, pad_token_id=PADDING, tie_word_embeddings=tied))
        training = Training(roughen(model, 2), folder)
        held = sum(sample["input_ids"].count(PADDING) for sample, *_ in training.samples)
        self.assertGreater(held, 0)
        difference = worst(training.trained(BIN), training.in_pytorch())
        print(f"tied {tied}: {held} tokens of padding, {difference / TOLERANCE:.2f} of the tolerance")
        self.assertLess(difference, TOLERANCE)
        run(f"{BIN}/omnibal-run", f"{folder}/program", "--weights", f"{folder}/model", "--data", f"{folder}/data-000000.tar",
            "--steps-file", f"{folder}/steps.jsonl", "--lr", 1e-3, "--weight-decay", 0, "--save", f"{folder}/saved")
        before, after = (load_file(f"{folder}/{name}/model.safetensors")["model.embed_tokens.weight"] for name in ("model", "saved"))
        self.assertFalse(torch.equal(before[39], after[39]))
        return torch.equal(before[PADDING], after[PADDING])

    def test_the_row_stays(self):
        self.assertTrue(self.train(tied=False))

    def test_a_tied_row_trains_as_part_of_the_head(self):
        self.assertFalse(self.train(tied=True))


if __name__ == "__main__":
    unittest.main()
