#!/usr/bin/env python3
"""Dropout and noise: random_test.py BIN_FOLDER DATA_FOLDER

Ten steps are those of PyTorch with the same random numbers (test/scripts/random_reference.py, dropout_reference.py), on every
layout of ranks.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from judgement import Float32  # noqa: E402
from run_case import BIN, MODEL, MPIRUN, RunCase  # noqa: E402

with open(f"{MODEL}/random.json", encoding="utf-8") as _file:
    REFERENCE = json.load(_file)
with open(f"{MODEL}/dropout.json", encoding="utf-8") as _file:
    REFERENCE["own"] = json.load(_file)
NOISE, DROPOUT = (tuple(REFERENCE[name]["flags"]) for name in ("neftune", "dropout"))
START = ("--adapter", f"{MODEL}/adapters/dropout")
TWO_STAGES = ("--stages", "2")
REPLICAS = ("--data-parallel", "2", "--microbatches", "2")
EMULATED = ("--target", "cuda", "--gpu-code", "emulated", "--dtype", "float32")


def optimizer():
    with open(f"{MODEL}/reference.json", encoding="utf-8") as file:
        settings = json.load(file)["optimizer"]
    return ("--lr", settings["lr"], "--beta1", settings["betas"][0], "--beta2", settings["betas"][1], "--eps", settings["eps"],
            "--weight-decay", settings["weight_decay"], "--clip", settings["clip_grad_norm"])


class RandomCase(RunCase):
    def lines(self, name="log.jsonl"):
        with open(self.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def train(self, program, *flags, seed=None, log="log.jsonl", settings=None, **options):
        """(loss, gradient norm) of each step."""
        start = START if "dropout" in program else ()
        seed = REFERENCE["dropout"]["seed"] if seed is None else seed
        self.run_tool(*(settings or optimizer()), *start, "--seed", seed, "--log", self.path(log), *flags, program=program, **options)
        return [(line["loss"], line["grad_norm"]) for line in self.lines(log)]

    def check(self, case, program, **options):
        self.train(program, **options)
        worst = 0.0
        for line, step in zip(self.lines(), REFERENCE[case]["steps"], strict=True):
            for what in ("loss", "grad_norm"):
                share = Float32.of_number(line[what], step, what)
                self.assertLessEqual(share, 1, f"step {step['step']}: {what} {line[what]}, PyTorch {step[what + '_float64']}")
                worst = max(worst, share)
        print(f"{program}: {worst:.3f} of the tolerance used")

    def check_emulated(self, case):
        """Two steps of the program for the device."""
        environment = {"OMNIBAL_PLUGINS": os.path.join(os.path.dirname(BIN.rstrip("/")), "emulated")}
        steps = self.write_steps([step["groups"] for step in REFERENCE[case]["steps"]][:2])
        self.train(f"{case}-emulated", steps=steps, environment=environment)
        for line, step in zip(self.lines(), REFERENCE[case]["steps"]):
            for what in ("loss", "grad_norm"):
                self.assertLessEqual(Float32.of_number(line[what], step, what), 1, (case, step["step"], what, line[what]))

    def evaluated(self, program):
        """The mean loss of all samples."""
        command = [f"{BIN}/omnibal-run", f"{self.programs}/{program}", "--weights", MODEL, "--data", f"{MODEL}/data-000000.tar",
                   "--preprocess", f"{MODEL}/preprocessor_config.json", "--evaluate", "--log", self.path(program)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path(program), encoding="utf-8") as file:
            return json.load(file)["loss"]


class Training(RandomCase):
    layouts = {f"{case}-{name}": flags + more for case, flags in (("neftune", NOISE), ("dropout", DROPOUT)) for name, more in (
        ("one", ()), ("two", TWO_STAGES), ("shares", (*TWO_STAGES, *REPLICAS, "--zero", "1")), ("recomputed", ("--remat", "full")),
        ("halves", (*TWO_STAGES, "--schedule", "zb-h1")), ("planned", (*TWO_STAGES, "--schedule", "per-step")))}

    def test_ten_steps_are_those_of_pytorch(self):
        for program in self.layouts:
            with self.subTest(program=program):
                self.check(program.split("-")[0], program)

    def test_processes_compute_the_same(self):
        self.check("dropout", "dropout-shares", launcher=(*MPIRUN, "4"))


class Parts(RandomCase):
    layouts = {f"{case}-{name}": (*flags, "--model-parallel", "2", *more) for case, flags in (("neftune", NOISE), ("dropout", DROPOUT))
               for name, more in (("alike", ("--layouts", "none")), ("divided", ("--layout-price", "1")))}

    def test_parts_draw_the_same_numbers(self):
        for program in self.layouts:
            with self.subTest(program=program):
                self.check(program.split("-")[0], program)


class Device(RandomCase):
    """Generated code for the device, emulated."""
    layouts = {"neftune-emulated": (*NOISE, *EMULATED), "dropout-emulated": (*DROPOUT, *EMULATED)}

    def test_kernels_of_the_device_draw_the_same_numbers(self):
        for case in ("neftune", "dropout"):
            self.check_emulated(case)


class Own(RandomCase):
    """The model's own dropout, which its graph has: in 24 places, with six ratios."""
    graph = "model-dropout.onnx"
    layouts = {f"own-{name}": flags for name, flags in (
        ("one", ()), ("two", TWO_STAGES), ("recomputed", ("--remat", "full")), ("two-recomputed", (*TWO_STAGES, "--remat", "full")),
        ("selected", ("--remat", "selective-1")), ("shares", (*TWO_STAGES, *REPLICAS, "--zero", "1")),
        ("halves", (*TWO_STAGES, "--schedule", "zb-h1")), ("planned", (*TWO_STAGES, "--schedule", "per-step")),
        ("alike", ("--model-parallel", "2", "--layouts", "none")), ("divided", ("--model-parallel", "2", "--layout-price", "1")))}
    layouts |= {"own-emulated": EMULATED, "none": ("--dropout", "0"), "more": ("--dropout", "0.5"), "hidden": ("--dropout", "hidden")}

    def test_ten_steps_are_those_of_pytorch(self):
        for program in self.layouts:
            if program.startswith("own-") and not program.endswith("emulated"):
                with self.subTest(program=program):
                    self.check("own", program)

    def test_stages_change_no_bit_of_a_loss(self):
        for one, two in (("own-one", "own-two"), ("own-recomputed", "own-two-recomputed")):
            self.assertEqual(*([loss for loss, _ in self.train(program)] for program in (one, two)))

    def test_kernels_of_the_device_draw_the_same_numbers(self):
        self.check_emulated("own")

    def test_a_resumed_run_has_the_bits_of_one_that_went_through(self):
        whole = self.train("own-two")
        self.train("own-two", "--steps", 4, "--checkpoint", self.path("saved"))
        self.assertEqual(self.train("own-two", "--steps", 10, "--checkpoint", self.path("saved"), "--resume", "auto", log="rest.jsonl"), whole[4:])

    def test_step_and_seed_decide(self):
        steps = self.write_steps([self.steps[0]] * 2, "same.jsonl")
        still = ("--lr", 1e-12, "--weight-decay", 0)
        first, again, other = (self.train("own-one", seed=seed, settings=still, steps=steps) for seed in (3, 3, 4))
        self.assertEqual(first, again)
        self.assertGreater(abs(first[0][0] - first[1][0]), 1e-4)
        self.assertGreater(abs(first[0][0] - other[0][0]), 1e-4)

    def test_evaluation_drops_nothing(self):
        """Other ops are fused, which rounds otherwise."""
        self.assertAlmostEqual(self.evaluated("own-one"), self.evaluated("none"), delta=1e-7)

    def test_the_flag_decides(self):
        self.assertEqual(self.train("hidden", "--steps", 2), self.train("own-one", "--steps", 2))
        own, more = (self.train(program, "--steps", 1)[0][0] for program in ("own-one", "more"))
        self.assertGreater(abs(own - more), 1e-3)

    def test_mistakes(self):
        for value in ("1", "-0.1", "some", "nan"):
            found = subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/{self.graph}", "--tiles", "4", "--tokens", "64", f"--dropout={value}", "--dry-run"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(found.returncode, 0)
            self.assertIn("--dropout", found.stderr)


class Behavior(RandomCase):
    layouts = {"neftune": NOISE, "dropout": DROPOUT, "plain": ()}

    def test_the_seed_decides(self):
        for program in ("neftune", "dropout"):
            first, again, other = (self.train(program, "--steps", 2, seed=seed) for seed in (3, 3, 4))
            self.assertEqual(first, again)
            self.assertNotEqual(first[0], other[0])

    def test_a_step_of_the_same_samples_draws_anew(self):
        steps = self.write_steps([self.steps[0]] * 2, "same.jsonl")
        for program in ("neftune", "dropout"):
            (first, _), (second, _) = self.train(program, settings=("--lr", 1e-12, "--weight-decay", 0), steps=steps)
            self.assertGreater(abs(first - second), 1e-4)

    def test_a_resumed_run_has_the_bits_of_one_that_went_through(self):
        for program in ("neftune", "dropout"):
            whole = self.train(program)
            self.train(program, "--steps", 4, "--checkpoint", self.path(program))
            rest = self.train(program, "--steps", 10, "--checkpoint", self.path(program), "--resume", "auto", log="rest.jsonl")
            self.assertEqual(rest, whole[4:])

    def test_evaluation_has_neither(self):
        self.assertEqual(self.evaluated("neftune"), self.evaluated("plain"))

    def test_the_folder_says_what_was_dropped(self):
        self.train("dropout", "--steps", 1, "--save", self.path("saved"))
        with open(self.path("saved/adapter_config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["lora_dropout"], 0.25)

    def test_mistakes(self):
        for flags, says in ((("--lora-dropout", "0.1"), "--lora-dropout needs --lora"), (("--lora", "q_proj", "--lora-dropout", "1"), "--lora-dropout"),
                            (("--lora", "q_proj", "--lora-dropout", "0.1", "--dora"), "--dora goes without --lora-dropout"), (("--neftune", "-1"), "--neftune")):
            found = subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "4", "--tokens", "64", *flags, "--dry-run"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(found.returncode, 0)
            self.assertIn(says, found.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
