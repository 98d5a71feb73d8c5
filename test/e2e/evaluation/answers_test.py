#!/usr/bin/env python3
"""Answers of a model while it trains (--sample-every): answers_test.py BIN_FOLDER DATA_FOLDER

Greedy answers are those of PyTorch (test/scripts/answers_reference.py), on every layout of ranks.
"""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, DATA, LONGEST, MODEL, MPIRUN, RunCase  # noqa: E402

with open(f"{MODEL}/answers.json", encoding="utf-8") as _file:
    REFERENCE = json.load(_file)
TOKENS = 8
STILL = ("--lr", "1e-12", "--weight-decay", "0", "--steps", "1")


def prompts_of(folder):
    """Tokens before an answer, by sample."""
    with open(f"{folder}/fixture.json", encoding="utf-8") as file:
        image = json.load(file)["image_token_id"]
    with tarfile.open(f"{folder}/data-000000.tar") as tar:
        samples = {member.name[:-5]: json.load(tar.extractfile(member)) for member in tar if member.name.endswith(".json")}
    found = {}
    for key, sample in samples.items():
        last = max((t for t, token in enumerate(sample["input_ids"]) if token == image), default=0)
        found[key] = next((t for t in range(last + 1, len(sample["labels"])) if sample["labels"][t] != -100), None)
    return found


class AnswersCase(RunCase):
    def log(self, *flags, program="one", **options):
        self.run_tool(*flags, "--log", self.path("log.jsonl"), program=program, **options)
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def answers(self, *flags, **options):
        """Those after the last step by sample, and what was said."""
        lines = [line for line in self.log("--sample-every", 1, "--sample-tokens", TOKENS, *flags, **options) if "answers" in line]
        return {answer["sample"]: answer for answer in lines[-1]["answers"]}

    def check_kept(self, program, count, tokens=lambda n: n + TOKENS - 1):
        """The ids of PyTorch, and how many tokens were run for them by the length of the prompt."""
        prompts = prompts_of(MODEL)
        found = self.answers(*STILL, "--sample-count", count, program=program)
        self.assertEqual(len(found), count)
        for key, answer in found.items():
            self.assertEqual(answer["ids"], REFERENCE[key]["ids"])
            self.assertEqual(answer["tokens_run"], tokens(prompts[key]))


class Answers(AnswersCase):
    layouts = {"one": (), "two": ("--stages", "2"), "replicas": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2"),
               "parts": ("--model-parallel", "2", "--layout-price", "1"), "noisy": ("--neftune", "5"),
               "adapted": ("--lora", "q_proj", "--lora-dropout", "0.5")}

    def test_they_are_those_of_pytorch(self):
        for program in self.layouts:
            with self.subTest(program=program):
                found = self.answers(*STILL, "--sample-count", len(REFERENCE), program=program)
                self.assertEqual({key: answer["ids"] for key, answer in found.items()}, {key: row["ids"] for key, row in REFERENCE.items()})

    def test_keys_and_values_are_kept(self):
        """A prompt is run once, and then one token after the other; without them each run is one over everything."""
        shutil.copytree(f"{self.programs}/two", f"{self.programs}/whole")
        with open(f"{self.programs}/whole/manifest.json", encoding="utf-8") as file:
            program = json.load(file)
        self.assertTrue(program["info"].pop("incremental"))
        with open(f"{self.programs}/whole/manifest.json", "w", encoding="utf-8") as file:
            json.dump(program, file)
        for name, tokens in (("two", lambda n: n + TOKENS - 1), ("whole", lambda n: sum(n + t for t in range(TOKENS)))):
            with self.subTest(name=name):
                self.check_kept(name, 6, tokens)

    def test_processes_agree(self):
        found = self.answers(*STILL, "--sample-count", 5, program="replicas", launcher=(*MPIRUN, "4"))
        self.assertEqual(len(found), 5)
        for key, answer in found.items():
            self.assertEqual(answer["ids"], REFERENCE[key]["ids"])

    def folder(self, ends):
        """The model with a tokenizer, and tokens at which answers end."""
        folder = self.path("model")
        os.makedirs(folder)
        shutil.copy(f"{MODEL}/model.safetensors", folder)
        vocabulary = {f"\u0120w{i}": i for i in range(2, 200)}
        tokenizer = {"model": {"type": "BPE", "vocab": vocabulary}, "decoder": {"type": "ByteLevel"},
                     "added_tokens": [{"id": 2, "content": "<eos>", "special": True}, {"id": 1, "content": "<bos>", "special": True}]}
        with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        with open(f"{folder}/generation_config.json", "w", encoding="utf-8") as file:
            json.dump({"eos_token_id": ends}, file)
        return folder

    def test_texts_and_ends(self):
        found = self.answers(*STILL, "--sample-count", 10, weights=self.folder([65, 2]))
        self.assertEqual(len(found), 10)
        for key, answer in found.items():
            ids = REFERENCE[key]["ids"]
            ids = ids[:ids.index(65)] if 65 in ids else ids
            self.assertEqual(answer["ids"], ids)
            self.assertEqual(answer["answer"], "".join(f" w{i}" for i in ids))
            expected = REFERENCE[key]["expected"]
            self.assertEqual(expected[-1], 2)
            self.assertEqual(answer["expected"], "".join(f" w{i}" for i in expected[:-1]))

    def test_they_are_said(self):
        says = self.run_tool(*STILL, "--sample-every", 1, "--sample-count", 1, "--sample-tokens", 1, weights=self.folder(2))
        self.assertIn('answer after step 1 to "sample-0000": " w96" (in the data: " w15 w19', says)

    def test_training_has_the_bits_of_a_run_without(self):
        runs = []
        for flags in ((), ("--sample-every", 2, "--sample-tokens", 3)):
            steps = [line["loss"] for line in self.log("--steps", 5, "--save", self.path("saved"), *flags) if "loss" in line]
            runs.append((steps, self.weights("saved")))
        self.assertEqual(runs[0], runs[1])

    def test_when(self):
        lines = self.log("--steps", 5, "--sample-every", 2, "--sample-tokens", 1)
        self.assertEqual([line["step"] + 1 for line in lines if "answers" in line], [2, 4, 5])

    def test_held_out_prompts(self):
        with tarfile.open(f"{MODEL}/data-000000.tar") as tar, tarfile.open(self.path("held.tar"), "w") as held:
            for member in tar:
                if member.name.startswith("sample-0007."):
                    held.addfile(member, tar.extractfile(member))
        found = self.answers(*STILL, "--evaluate-every", 1, "--evaluate-data", self.path("held.tar"))
        self.assertEqual(list(found), ["sample-0007"])
        self.assertEqual(found["sample-0007"]["ids"], REFERENCE["sample-0007"]["ids"])

    def test_mistakes(self):
        folder = self.folder(2)
        with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as file:
            file.write('{"model": {}}')
        self.run_tool(*STILL, "--sample-every", 1, weights=folder, code=1, says="it has no model.vocab")


class Emulated(AnswersCase):
    """The cuda target, on the emulated device (OMNIBAL_PLUGINS says where that is)."""
    layouts = {"device": ("--stages", "2", "--target", "cuda", "--dtype", "float32", "--gpu-code", "emulated")}

    def test_keys_and_values_are_kept_on_the_device(self):
        self.check_kept("device", 5)


class OtherModels(unittest.TestCase):
    """Pictures of unequal sizes and positions along three axes, and another language model."""

    def check(self, model, *flags):
        folder = os.path.join(DATA, model)
        with open(f"{folder}/answers.json", encoding="utf-8") as file:
            reference = json.load(file)
        with open(f"{folder}/reference.json", encoding="utf-8") as file:
            steps = [step["groups"] for step in json.load(file)["variants"]["train_all"]["steps"][:1]]
        with tempfile.TemporaryDirectory() as work:
            with open(f"{work}/steps.jsonl", "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"groups": groups}) + "\n" for groups in steps)
            subprocess.run([f"{BIN}/omnibal-compile", f"{folder}/model.onnx", "--tiles", "160", "--tokens", "640", *flags, "-o", f"{work}/p"],
                           check=True, stdout=subprocess.DEVNULL)
            subprocess.run([f"{BIN}/omnibal-run", f"{work}/p", "--weights", f"{folder}/model.safetensors", "--data", f"{folder}/data-000000.tar",
                            "--preprocess", f"{folder}/preprocessor_config.json", "--steps-file", f"{work}/steps.jsonl", *STILL, "--sample-every", "1",
                            "--sample-tokens", str(TOKENS), "--sample-count", str(len(reference)), "--log", f"{work}/log.jsonl"], check=True, timeout=LONGEST,
                           stderr=subprocess.DEVNULL)
            with open(f"{work}/log.jsonl", encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        found = {answer["sample"]: (answer["ids"], answer["tokens_run"]) for line in lines for answer in line.get("answers", ())}
        prompts = prompts_of(folder)
        self.assertEqual(found, {key: (row["ids"], prompts[key] + TOKENS - 1) for key, row in reference.items()})

    def test_unequal_pictures(self):
        self.check("tiny-qwen2_5_vl", "--stages", "2")

    def test_llama(self):
        self.check("tiny-llava")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
