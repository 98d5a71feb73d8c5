#!/usr/bin/env python3
"""Mixtures of experts: routers by softmax and by sigmoid, groups of experts, shared experts, transposed weights and
pictures; against PyTorch, whose experts run by its own loop over them."""
import os
import sys
import tempfile
import unittest
from unittest import mock

from small_training import TOLERANCE, Training, run, worst

import torch
import transformers
from safetensors.torch import load_file
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Qwen2VLImageProcessor

from exporter.small_models import roughen

BIN = sys.argv.pop()
TEXT = dict(hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, vocab_size=128, max_position_embeddings=256, moe_intermediate_size=24, tie_word_embeddings=False)


def qwen3_moe():
    """Softmax over all experts, the chosen ones' weights add up to one."""
    return transformers.Qwen3MoeConfig(**TEXT, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True,
                                       decoder_sparse_step=1, mlp_only_layers=[])


def glm4_moe():
    """Sigmoid with a correction of the choice, two groups of which one is taken, a shared expert, a dense first layer."""
    return transformers.Glm4MoeConfig(**TEXT, n_routed_experts=8, num_experts_per_tok=3, n_group=2, topk_group=1,
                                      n_shared_experts=1, first_k_dense_replace=1, norm_topk_prob=True,
                                      routed_scaling_factor=1.5, use_qk_norm=True)


def minimax_m2():
    """Sigmoid with corrections of the choice that the checkpoint has under a name of its own, equal in all layers."""
    return transformers.MiniMaxM2Config(**{**TEXT, "intermediate_size": 24}, num_local_experts=4, num_experts_per_tok=2)


def mixtral():
    """One matrix of its own for each expert in the checkpoint."""
    text = {name: value for name, value in TEXT.items() if name != "moe_intermediate_size"}
    return transformers.MixtralConfig(**text, num_local_experts=4, num_experts_per_tok=2)


def aria_text():
    """Matrices [in, out]; softmax over the chosen experts alone."""
    text = {name: value for name, value in TEXT.items() if name != "moe_intermediate_size"}
    return transformers.AriaTextConfig(**text, moe_num_experts=4, moe_topk=2, moe_num_shared_experts=1)


def qwen3_vl_moe():
    return transformers.Qwen3VLMoeConfig(
        image_token_id=4, video_token_id=5, vision_start_token_id=6, vision_end_token_id=7, tie_word_embeddings=False,
        vision_config=dict(depth=3, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=4, out_hidden_size=48,
                           num_position_embeddings=16, deepstack_visual_indexes=[0, 1], spatial_merge_size=2,
                           temporal_patch_size=2),
        text_config=dict(**TEXT, num_experts=5, num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[],
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[3, 3, 2],
                                              mrope_interleaved=True)))


class Experts(unittest.TestCase):
    def training(self, config, processor=None, pictures=False):
        torch.manual_seed(1)
        auto = transformers.AutoModelForImageTextToText if pictures else transformers.AutoModelForCausalLM
        model = roughen(auto.from_config(config, experts_implementation="eager"), 2)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        training = Training(model, folder, processor)
        self.assertLess(training.difference, 1e-4)
        return training

    def check(self, training, *all_flags):
        expected = training.in_pytorch()
        for flags in all_flags:
            self.assertLess(worst(training.trained(BIN, *flags), expected), TOLERANCE, flags)

    def test_softmax(self):
        training = self.training(qwen3_moe())
        self.check(training, ("--stages", 1), ("--stages", 3, "--partition", "layers"), ("--stages", 2, "--remat", "full"),
                   ("--stages", 2, "--schedule", "zb-h1", "--partition", "layers"))
        program = training.compiled(BIN, "--stages", 1)
        text = run(f"{BIN}/omnibal-run", "--print", program)
        self.assertIn("grouped_gemm", text)
        self.assertIn("grouped_gemm_backward", text)

    def test_sigmoid_in_groups(self):
        self.check(self.training(glm4_moe()), ("--stages", 1), ("--stages", 2, "--remat", "full"))

    def test_corrections_do_not_train(self):
        training = self.training(minimax_m2())
        self.check(training, ("--stages", 2))
        run(f"{BIN}/omnibal-run", training.compiled(BIN), "--weights", f"{training.folder}/model", "--data",
            f"{training.folder}/data-000000.tar", "--steps-file", f"{training.folder}/steps.jsonl", "--steps", 1,
            "--save-gradients", f"{training.folder}/gradients.safetensors", "--save", f"{training.folder}/trained")
        trained = {name for name in load_file(f"{training.folder}/gradients.safetensors") if "correction_bias" in name}
        saved = {name for name in load_file(f"{training.folder}/trained/model.safetensors") if "correction_bias" in name}
        self.assertEqual((len(trained), len(saved)), (0, 3))

    def test_a_tensor_for_each_expert(self):
        self.check(self.training(mixtral()), ("--stages", 2))

    def test_matrices_that_lie_transposed(self):
        self.check(self.training(aria_text()), ("--stages", 2))

    def test_pictures(self):
        processor = Qwen2VLImageProcessor(do_resize=False, patch_size=4, merge_size=2, temporal_patch_size=2)
        training = self.training(qwen3_vl_moe(), processor, pictures=True)
        self.check(training, ("--stages", 1), ("--stages", 3, "--partition", "layers"))

    def test_on_the_emulated_device(self):
        with mock.patch.dict(os.environ, {"OMNIBAL_PLUGINS": os.path.join(os.path.dirname(BIN), "emulated")}):
            training = self.training(qwen3_moe())
            expected = training.in_pytorch()
            flags = ("--target", "cuda", "--gpu-code", "emulated", "--stages", 2)
            self.assertLess(worst(training.trained(BIN, *flags, "--dtype", "float32"), expected), TOLERANCE)
            self.assertLess(worst(training.trained(BIN, *flags), expected), 3e-3)  # in bfloat16


if __name__ == "__main__":
    unittest.main()
