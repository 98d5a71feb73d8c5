#!/usr/bin/env python3
"""Answers of a model while it trains (--sample-every): answers_test.py BIN_FOLDER DATA_FOLDER

Greedy answers are those of PyTorch (test/scripts/answers_reference.py), on every layout of ranks.
"""
import json
import os
import shutil
import sys
import tarfile
import unittest

from run_case import MODEL, MPIRUN, RunCase

with open(f"{MODEL}/answers.json", encoding="utf-8") as _file:
    REFERENCE = json.load(_file)
TOKENS = 8
STILL = ("--lr", "1e-12", "--weight-decay", "0", "--steps", "1")


class Answers(RunCase):
    layouts = {"one": (), "two": ("--stages", "2"), "replicas": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2"),
               "parts": ("--model-parallel", "2", "--layout-price", "1"), "noisy": ("--neftune", "5"),
               "adapted": ("--lora", "q_proj", "--lora-dropout", "0.5")}

    def log(self, *flags, program="one", **options):
        self.run_tool(*flags, "--log", self.path("log.jsonl"), program=program, **options)
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def answers(self, *flags, **options):
        """Those after the last step by sample, and what was said."""
        lines = [line for line in self.log("--sample-every", 1, "--sample-tokens", TOKENS, *flags, **options) if "answers" in line]
        return {answer["sample"]: answer for answer in lines[-1]["answers"]}

    def test_they_are_those_of_pytorch(self):
        for program in self.layouts:
            with self.subTest(program=program):
                found = self.answers(*STILL, "--sample-count", len(REFERENCE), program=program)
                self.assertEqual({key: answer["ids"] for key, answer in found.items()}, {key: row["ids"] for key, row in REFERENCE.items()})

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
