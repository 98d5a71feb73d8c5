#!/usr/bin/env python3
"""The balancing loss of routers: a step's loss is that of its label tokens and so many times the mean over its
micro-batches of Transformers' `aux_loss`, of all tokens of the micro-batch; against PyTorch, with one call a micro-batch."""
import copy
import json
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import experts_test
from small_training import GROUP, TOLERANCE, Training, run, worst

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy, pad

from exporter import small_runs
from exporter.small_models import roughen

BIN = experts_test.BIN
# Large: gradient norms without it differ by far more than the tolerance.
COEFFICIENT = 0.5


def asking(config, coefficient=COEFFICIENT):
    """The configuration with the balancing loss in the model's own."""
    text = getattr(config, "text_config", config)
    text.output_router_logits, text.router_aux_loss_coef = True, coefficient
    return config


def granite_moe():
    """Chooses by the largest logits, and has factors on everything."""
    return transformers.GraniteMoeConfig(hidden_size=48, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, vocab_size=128, max_position_embeddings=256,
                                         num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=True,
                                         logits_scaling=2.0, residual_multiplier=0.5)


def as_rows(samples):
    """What the model takes for the samples of a micro-batch at once, each a row with padding behind it."""
    length = max(inputs["input_ids"].shape[1] for inputs in samples)
    rows = {}
    for name in {name for inputs in samples for name in inputs}:
        values = [inputs[name] for inputs in samples if name in inputs]
        if name == "mm_token_type_ids":  # absent without pictures
            values = [inputs.get(name, torch.zeros_like(inputs["input_ids"])) for inputs in samples]
        if name not in ("pixel_values", "image_grid_thw"):
            values = [pad(value, (0, length - value.shape[1])) for value in values]
        rows[name] = torch.cat(values)
    return rows


def pytorch_steps(training, coefficient=COEFFICIENT, frozen=lambda name: False):
    """(loss, gradient norm, loss of tokens, loss of routers) of each step in float64."""
    model = copy.deepcopy(training.model).double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen(name))
    trains = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trains, lr=small_runs.RATE, eps=small_runs.EPSILON, weight_decay=0.0)
    for step in training.steps:
        labeled = sum(t != -100 for group in step for n in group for t in training.samples[n][0]["labels"][1:])
        optimizer.zero_grad(set_to_none=True)
        tokens = routers = 0.0
        for group in step:
            rows = as_rows([training.samples[n][1] for n in group])
            rows = {name: v.double() if v.is_floating_point() else v for name, v in rows.items()}
            result = model(**rows, use_cache=False)
            targets = [torch.tensor(training.samples[n][0]["labels"][1:]) for n in group]
            of_tokens = sum(cross_entropy(result.logits[i, :len(t)], t, reduction="sum") for i, t in enumerate(targets)) / labeled
            of_routers = result.aux_loss / len(step)
            (of_tokens + coefficient * of_routers).backward()
            tokens, routers = tokens + float(of_tokens), routers + float(of_routers)
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]))
        yield tokens + coefficient * routers, float(norm), tokens, routers
        optimizer.step()


class Balancing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.softmax = cls.training(asking(experts_test.qwen3_moe()))

    @classmethod
    def training(cls, config, processor=None, pictures=False):
        torch.manual_seed(1)
        auto = transformers.AutoModelForImageTextToText if pictures else transformers.AutoModelForCausalLM
        model = roughen(auto.from_config(config, experts_implementation="eager"), 2)
        training = Training(model, cls.enterClassContext(tempfile.TemporaryDirectory()), processor)
        assert training.difference < 1e-4  # of logits and aux_loss, in ONNX Runtime
        return training

    def with_own_files(self):
        """The same model with samples and steps that may be changed."""
        training = copy.copy(self.softmax)
        training.folder = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copytree(self.softmax.folder, training.folder, dirs_exist_ok=True)
        return training

    def trained(self, training, *flags):
        """As pytorch_steps, from the log."""
        training.trained(BIN, *flags)
        with open(f"{training.folder}/run.jsonl") as file:
            return [tuple(line[name] for name in ("loss", "grad_norm", "token_loss", "router_loss"))
                    for line in map(json.loads, file)]

    def check(self, training, *all_flags):
        expected = list(pytorch_steps(training))
        plain = list(pytorch_steps(training, 0.0))
        self.assertGreater(worst([x[1:2] for x in plain], [x[1:2] for x in expected]), 1e-3)  # it is in the gradients
        for flags in all_flags:
            self.assertLess(worst(self.trained(training, *flags), expected), TOLERANCE, flags)

    def test_softmax(self):
        training = self.softmax
        self.check(training, ("--stages", 1), ("--stages", 2, "--remat", "full"), ("--stages", 3, "--partition", "layers"),
                   ("--stages", 2, "--schedule", "zb-h1", "--partition", "layers"))

    def test_a_tensor_for_each_expert(self):
        self.check(self.training(asking(experts_test.mixtral())), ("--stages", 2))

    def test_the_largest_logits_and_a_tied_table(self):
        self.check(self.training(asking(granite_moe())), ("--stages", 2, "--partition", "layers"))

    def test_pictures(self):
        training = self.training(asking(experts_test.qwen3_vl_moe()), experts_test.Qwen2VLImageProcessor(
            do_resize=False, patch_size=4, merge_size=2, temporal_patch_size=2), pictures=True)
        self.check(training, ("--stages", 1), ("--stages", 3, "--partition", "layers"))
        vision = lambda name: ".visual." in name
        expected = list(pytorch_steps(training, frozen=vision))
        self.assertLess(worst(self.trained(training, "--stages", 2, "--freeze-match", "[.]visual[.]"), expected), TOLERANCE)

    def test_replicas_and_empty_micro_batches(self):
        """The mean is over the micro-batches of all replicas that have tokens."""
        training = self.with_own_files()
        with open(f"{training.folder}/steps.jsonl") as file:
            lines = [json.loads(line)["groups"] for line in file]
        with open(f"{training.folder}/steps.jsonl", "w") as file:
            for groups in lines:  # two replicas: the second one's second micro-batch is empty
                split = [groups[0][:1], groups[0][1:], groups[1], []]
                file.write(json.dumps({"groups": split}) + "\n")
        training.steps = [[step[0][:1], step[0][1:], step[1]] for step in training.steps]
        self.check(training, ("--stages", 2, "--data-parallel", 2))

    def test_another_coefficient(self):
        training = self.softmax
        expected = list(pytorch_steps(training, 0.125))
        self.assertLess(worst(self.trained(training, "--router-loss-coefficient", 0.125), expected), TOLERANCE)
        training.trained(BIN, "--router-loss-coefficient", 0)
        self.assertNotIn("router_loss", open(f"{training.folder}/run.jsonl").read())
        self.assertLess(worst(small_runs.logged(training.folder), [x[:2] for x in pytorch_steps(training, 0.0)]), TOLERANCE)

    def test_a_coefficient_without_the_loss_is_an_error(self):
        training = self.training(experts_test.qwen3_moe())
        with self.assertRaisesRegex(AssertionError, "the graph has no output router_loss"):
            training.compiled(BIN, "--router-loss-coefficient", 0.1)

    def test_evaluation_gives_both(self):
        training = self.with_own_files()
        training.samples = training.samples[:GROUP]  # all of them are one micro-batch
        training.steps = [[list(range(GROUP))]]
        small_runs.write_samples(training.folder, [(sample, []) for sample, *_ in training.samples])
        loss, _, tokens, routers = next(pytorch_steps(training))
        run(f"{BIN}/omnibal-run", training.compiled(BIN, "--stages", 2), "--weights", f"{training.folder}/model", "--data",
            f"{training.folder}/data-000000.tar", "--evaluate", "--log", f"{training.folder}/scores.json")
        with open(f"{training.folder}/scores.json") as file:
            scores = json.load(file)
        ours = [[scores[name] for name in ("loss", "token_loss", "router_loss")]]
        self.assertLess(small_runs.largest_difference(ours, [[loss, tokens, routers]]), TOLERANCE)

    def test_the_graphs_outputs_are_the_logits(self):
        training = self.softmax
        inputs = {name: value.int() for name, value in training.samples[0][1].items()}
        save_file(inputs, f"{training.folder}/in.safetensors")
        run(f"{BIN}/omnibal-run", training.compiled(BIN, "--stages", 2), "--weights", f"{training.folder}/model", "--forward",
            f"{training.folder}/in.safetensors", "-o", f"{training.folder}/out.safetensors")
        with torch.no_grad():
            wanted = training.model(**training.samples[0][1], use_cache=False).logits
        made = load_file(f"{training.folder}/out.safetensors")
        self.assertEqual(list(made), ["logits"])
        torch.testing.assert_close(made["logits"], wanted, rtol=1e-4, atol=1e-5)

    def test_on_the_emulated_device(self):
        """Whose kernels run over more rows than there are tokens."""
        with mock.patch.dict(os.environ, {"OMNIBAL_PLUGINS": os.path.join(os.path.dirname(BIN), "emulated")}):
            training = self.softmax
            expected = list(pytorch_steps(training))
            flags = ("--target", "cuda", "--gpu-code", "emulated", "--stages", 2)
            self.assertLess(worst(self.trained(training, *flags, "--dtype", "float32"), expected), TOLERANCE)
            self.assertLess(worst(self.trained(training, *flags), expected), 5e-3)  # in bfloat16


if __name__ == "__main__":
    unittest.main()
