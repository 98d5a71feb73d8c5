#!/usr/bin/env python3
"""Adapters that omnibal-run trains and saves, in PEFT and Transformers: the folder of adapters loads beside the model, the
merged folder loads alone, and the logits of both are those of omnibal-run --forward.

    python3 adapters_test.py build/bin
"""
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest
import warnings

from saved_folder_test import inputs_of
from small_training import ROOT, Training, run, small_runs

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import load_file, save_file

BIN = None
# Of logits that are around 1; training changes them by more than a hundredfold of it.
TOLERANCE = 2e-5
PROJECTIONS = "(q|k|v|o|gate|up|down)_proj"


def loaded(model, adapters, kind):
    """The model with adapters in PEFT, which must find every tensor."""
    base = kind.from_pretrained(model, dtype=torch.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        wrapped = peft.PeftModel.from_pretrained(base, adapters)
    assert not [w for w in said if "missing" in str(w.message) or "unexpected" in str(w.message)], [str(w.message) for w in said]
    stored = load_file(f"{adapters}/adapter_model.safetensors")
    # An output layer with an adapter is there itself, too.
    present = {name: value for name, value in peft.get_peft_model_state_dict(wrapped).items() if ".base_layer." not in name}
    assert stored.keys() == present.keys(), stored.keys() ^ present.keys()
    for name, values in stored.items():
        assert np.array_equal(values, present[name].float().numpy()), name
    return wrapped.eval()


def logits_of(model, inputs):
    with torch.no_grad():
        return model(**{k: torch.from_numpy(v) for k, v in inputs.items()}, use_cache=False).logits.float().numpy()


class Adapters(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="omnibal-adapters-")
        self.addCleanup(shutil.rmtree, self.folder)

    def compare(self, model, program, training, inputs, kind):
        """Trains twice, to save both forms, and compares logits before and after."""
        save_file(inputs, f"{self.folder}/inputs.safetensors")

        def forward(weights, *flags):
            run(f"{BIN}/omnibal-run", program, "--weights", weights, *flags, "--forward", f"{self.folder}/inputs.safetensors",
                "-o", f"{self.folder}/outputs.safetensors")
            return load_file(f"{self.folder}/outputs.safetensors")["logits"]

        adapters, merged = f"{self.folder}/adapters", f"{self.folder}/merged"
        command = [f"{BIN}/omnibal-run", program, "--weights", model, *training]
        run(*command, "--save", adapters)
        run(*command, "--save", merged, "--merge-adapters")
        ours = forward(model, "--adapter", adapters)
        theirs = logits_of(loaded(model, adapters, kind), inputs)
        self.assertEqual(ours.shape, theirs.shape)
        self.assertLess(np.abs(ours - theirs).max(), TOLERANCE)
        whole, report = kind.from_pretrained(merged, dtype=torch.float32, output_loading_info=True)
        self.assertFalse(report["missing_keys"] or report["unexpected_keys"] or report["mismatched_keys"], report)
        self.assertLess(np.abs(ours - logits_of(whole.eval(), inputs)).max(), TOLERANCE)
        # Fresh adapters do nothing.
        base = logits_of(kind.from_pretrained(model, dtype=torch.float32).eval(), inputs)
        self.assertLess(np.abs(forward(model) - base).max(), TOLERANCE)
        self.assertGreater(np.abs(ours - base).max(), 100 * TOLERANCE)

    def check_committed(self, name, model, *flags):
        """A model of test/data, whose samples serve."""
        source = f"{ROOT}/test/data/{name}"
        with open(f"{source}/reference.json") as file:
            steps = [step["groups"] for step in json.load(file)["variants"]["train_all"]["steps"]][:3]
        with open(f"{self.folder}/steps.jsonl", "w") as file:
            file.writelines(json.dumps({"groups": groups}) + "\n" for groups in steps)
        program = f"{self.folder}/program"
        run(f"{BIN}/omnibal-compile", f"{model}/model.onnx", "--weights", model, "--tiles", "32", "--tokens", "768", "--microbatches",
            str(len(steps[0])), *flags, "-o", program)
        training = ["--data", f"{source}/data-000000.tar", "--preprocess", f"{source}/preprocessor_config.json", "--steps-file",
                    f"{self.folder}/steps.jsonl", "--lr", "5e-3"]
        self.compare(model, program, training, inputs_of(source, "sample-0001"), transformers.AutoModelForImageTextToText)

    def test_internvl_with_modules_to_save(self):
        model = f"{ROOT}/test/data/tiny-internvl"
        self.check_committed("tiny-internvl", model, "--stages", "2", "--lora", f"language.*{PROJECTIONS}", "--lora-rank", "4",
                             "--lora-alpha", "8", "--rslora", "--modules-to-save", "multi_modal_projector.linear_1|language_model.norm")

    def test_all_linear_layers(self):
        model = f"{ROOT}/test/data/tiny-internvl"
        self.check_committed("tiny-internvl", model, "--lora", f"{PROJECTIONS}|fc[12]|linear_[12]|projection_layer|lm_head", "--lora-rank",
                             "3", "--lora-alpha", "4.5")

    def test_magnitudes(self):
        model = f"{ROOT}/test/data/tiny-internvl"
        self.check_committed("tiny-internvl", model, "--stages", "2", "--lora", f"language.*{PROJECTIONS}", "--lora-rank", "4", "--lora-alpha",
                             "8", "--rslora", "--dora", "--modules-to-save", "multi_modal_projector.linear_1|language_model.norm")
        with open(f"{self.folder}/adapters/adapter_config.json") as file:
            self.assertTrue(json.load(file)["use_dora"])
        self.assertIn("base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                      load_file(f"{self.folder}/adapters/adapter_model.safetensors"))

    def test_magnitudes_of_all_linear_layers(self):
        model = f"{ROOT}/test/data/tiny-internvl"
        self.check_committed("tiny-internvl", model, "--lora", f"{PROJECTIONS}|fc[12]|linear_[12]|projection_layer|lm_head", "--lora-rank",
                             "3", "--lora-alpha", "4.5", "--dora")

    def test_a_checkpoint_whose_names_transformers_changes(self):
        """As LLaVA's own is: language_model.model.layers... is model.language_model.layers... of the model."""
        model = f"{self.folder}/model"
        shutil.copytree(f"{ROOT}/test/data/tiny-llava", model)
        tensors = {}
        for name, values in load_file(f"{model}/model.safetensors").items():
            for new, old in (("model.language_model.", "language_model.model."), ("lm_head.", "language_model.lm_head."), ("model.", "")):
                if name.startswith(new):
                    name = old + name.removeprefix(new)
                    break
            tensors[name] = values
        self.assertIn("language_model.model.layers.0.self_attn.q_proj.weight", tensors)
        save_file(tensors, f"{model}/model.safetensors", metadata={"format": "pt"})
        import export
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            export.export_model(model, model)
        self.check_committed("tiny-llava", model, "--lora", f"^language_model.model.*{PROJECTIONS}$", "--lora-rank", "2", "--lora-alpha", "4")
        self.assertIn("base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight",
                      load_file(f"{self.folder}/adapters/adapter_model.safetensors"))

    def test_weights_that_are_transposed(self):
        self.check_transposed()

    def test_magnitudes_of_weights_that_are_transposed(self):
        self.check_transposed("--dora")

    def check_transposed(self, *flags_of_compiler):
        """GPT-2's are [in, out]."""
        torch.manual_seed(1)
        config = transformers.GPT2Config(n_embd=48, n_layer=2, n_head=4, n_positions=64, vocab_size=128, resid_pdrop=0, embd_pdrop=0,
                                         attn_pdrop=0)
        training = Training(transformers.GPT2LMHeadModel(config).eval(), self.folder)
        program = training.compiled(BIN, "--lora", "attn.c_attn|mlp.c_fc|c_proj", "--lora-rank", "4", "--lora-alpha", "8", *flags_of_compiler)
        ids = np.array([training.samples[0][0]["input_ids"]], dtype=np.int64)
        flags = small_runs.training(self.folder)
        flags[flags.index("--lr") + 1] = 2e-2
        self.compare(f"{self.folder}/model", program, flags, dict(input_ids=ids, attention_mask=np.ones_like(ids)),
                     transformers.AutoModelForCausalLM)
        with open(f"{self.folder}/adapters/adapter_config.json") as file:
            self.assertTrue(json.load(file)["fan_in_fan_out"])


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
