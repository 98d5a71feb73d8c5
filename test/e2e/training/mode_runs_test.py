#!/usr/bin/env python3
"""Runs of compiled programs with several training modes: going on after any step, log, normalizers, refusals.

    mode_runs_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from mode_batches import Mode, ModeCase, write_folder  # noqa: E402

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")


class Case(ModeCase):
    MODEL = MODEL

    def call(self, tool, *flags, code=0):
        done = subprocess.run([os.path.join(BIN, tool), *map(str, flags)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def folder(self, name, modes, mode_of_step, stages=1):
        write_folder(self.path(name), self.samples, modes, mode_of_step, stages)
        return self.path(name)

    def program(self, name, batches, stages, replicas, *flags):
        self.call("omnibal-compile", f"{MODEL}/model.onnx", "--stages", stages, "--data-parallel", replicas, *flags, "--batches", batches,
                  "-o", self.path(name))
        return self.path(name)

    def train(self, program, batches, *flags, log=None, code=0):
        """What the run said, and its log."""
        said = self.call("omnibal-run", program, "--weights", f"{MODEL}/model.safetensors", "--data", self.path("data-000000.tar"),
                         "--preprocess", f"{MODEL}/preprocessor_config.json", "--batches", batches, "--lr", "0.001",
                         *(["--log", self.path(log)] if log else []), *flags, code=code)
        if not log:
            return said, []
        with open(self.path(log)) as file:
            return said, [json.loads(line) for line in file]

    def model(self, folder):
        with open(os.path.join(self.path(folder), "model.safetensors"), "rb") as file:
            return file.read()


class GoingOn(Case):
    def test_evaluation_between_steps_of_all_modes(self):
        losses = []
        for degree in (1, 2):
            with self.subTest(degree=degree):
                losses.append(self.check_evaluation(degree)["loss"])
                for name in ("batches", "program", "alone", "beside"):
                    shutil.rmtree(self.path(name))
        self.assertAlmostEqual(*losses, delta=1e-5)

    def check_evaluation(self, degree):
        order = [0, 0, *([0, 1] * 4)]
        modes = [Mode("short", 2, self.samples, 2), Mode("long", 1, self.samples, 2, degree)]
        batches = self.folder("batches", modes, order, 2)
        program = self.program("program", batches, 2, 2)
        _, alone = self.train(program, batches, "--save", self.path("alone"), log="alone.jsonl")
        _, log = self.train(program, batches, "--save", self.path("beside"), "--evaluate-every", 1, "--evaluate-data",
                            self.path("data-000000.tar"), log="beside.jsonl")
        self.assertEqual(self.model("beside"), self.model("alone"))
        steps = [line for line in log if "evaluation" not in line]
        self.assertEqual([(l["step"], l["mode"], l["loss"]) for l in steps], [(l["step"], l["mode"], l["loss"]) for l in alone])
        self.assertEqual([line["step"] for line in log if "evaluation" in line], list(range(len(order))))
        self.call("omnibal-run", program, "--weights", self.path("alone"), "--data", self.path("data-000000.tar"), "--preprocess",
                  f"{MODEL}/preprocessor_config.json", "--evaluate", "--log", self.path("evaluate.json"))
        with open(self.path("evaluate.json")) as file:
            evaluation = json.load(file)
        self.assertEqual(log[-1]["evaluation"], evaluation)
        return evaluation

    def test_after_any_step(self):
        order = [0, 0, *([0, 1] * 4)]  # as with a curriculum
        for stages, replicas, microbatches, degree in ((1, 1, (4, 2), 1), (2, 2, (2, 1), 1), (1, 4, (2, 1), 1), (2, 2, (2, 1), 2)):
            with self.subTest(stages=stages, replicas=replicas, degree=degree):
                name = f"{stages}x{replicas}-{degree}"
                modes = [Mode("short", microbatches[0], self.samples, replicas), Mode("long", microbatches[1], self.samples, replicas, degree)]
                batches = self.folder("b" + name, modes, order, stages)
                program = self.program("p" + name, batches, stages, replicas)
                total = len(order) + 2  # a second epoch begins
                said, log = self.train(program, batches, "--steps", total, "--checkpoint", self.path("c" + name), "--checkpoint-every", 1,
                                       "--keep", 100, "--save", self.path("w" + name), log=f"{name}.jsonl")
                self.assertEqual([line["mode"] for line in log[:len(order)]], [modes[m].name for m in order])
                self.assertEqual({line["mode"] for line in log}, {"short", "long"})
                for mode in modes:
                    steps = sum(line["mode"] == mode.name for line in log)
                    self.assertIn(f"mode {mode.name}  1f1b, micro-batches {mode.microbatches}, caps {mode.tiles} tiles and {mode.tokens} tokens", said)
                    self.assertIn(f"mode {mode.name}: {steps} steps, after its first two", said)
                whole = self.model("w" + name)
                for step in range(1, total):
                    again = f"a{name}-{step}"
                    said, rest = self.train(program, batches, "--steps", total, "--resume", self.path(f"c{name}/step-{step:08}"),
                                            "--save", self.path(again), log=f"{again}.jsonl")
                    self.assertNotIn("changed since", said)
                    self.assertEqual([(l["step"], l["mode"], l["loss"], l["grad_norm"]) for l in rest],
                                     [(l["step"], l["mode"], l["loss"], l["grad_norm"]) for l in log[step:]])
                    self.assertEqual(self.model(again), whole, step)
                    shutil.rmtree(self.path(again))


    def test_an_update_of_steps_of_both_modes(self):
        """With a learning rate of zero the losses of an update are those of its steps."""
        modes = [Mode("short", 2, self.samples, 1), Mode("long", 1, self.samples, 1)]
        batches = self.folder("b", modes, [0, 1] * 5)
        program = self.program("p", batches, 1, 1)
        _, steps = self.train(program, batches, "--lr", 0, log="steps.jsonl")
        said, updates = self.train(program, batches, "--lr", 0, "--accumulate", 2, log="updates.jsonl")
        self.assertIn("an update takes the micro-batches of 2 steps of the list", said)
        self.assertEqual(len(updates), len(steps) // 2)
        for update, (short, long) in zip(updates, zip(steps[::2], steps[1::2]), strict=True):
            for count in ("label_tokens", "samples", "tokens", "tiles"):
                self.assertEqual(update[count], short[count] + long[count])
            labels = short["loss"] * short["label_tokens"] + long["loss"] * long["label_tokens"]
            self.assertAlmostEqual(update["loss"], labels / update["label_tokens"], delta=1e-6)
            self.assertEqual(update["mode"], "long")


class Normalizers(Case):
    def test_label_tokens_of_the_epoch(self):
        order = [0, 1] * 5
        modes = [Mode("short", 2, self.samples, 2), Mode("long", 1, self.samples, 2)]
        batches = self.folder("b", modes, order)
        program = self.program("p", batches, 1, 2)
        flags = ("--steps", len(order) + 1, "--clip", 0)
        _, steps = self.train(program, batches, *flags, log="step.jsonl")
        said, epoch = self.train(program, batches, *flags, "--loss-normalizer", "epoch", log="epoch.jsonl")
        labels = sum(line["label_tokens"] for line in steps[:len(order)])
        self.assertIn(f"losses of epoch 0 are divided by its label tokens a step, {labels / len(order):.1f}", said)
        self.assertIn("losses of epoch 1 are divided by", said)
        # The first step has the same parameters.
        self.assertEqual(epoch[0]["loss"], steps[0]["loss"])
        self.assertAlmostEqual(epoch[0]["grad_norm"] / steps[0]["grad_norm"], steps[0]["label_tokens"] / (labels / len(order)), 9)
        _, samples = self.train(program, batches, *flags, "--loss-normalizer", "samples", log="samples.jsonl")
        self.assertEqual(samples[0]["loss"], steps[0]["loss"])

    def test_samples_of_one_rank_are_those_of_the_step(self):
        modes = [Mode("short", 2, self.samples, 1), Mode("long", 1, self.samples, 1)]
        batches = self.folder("b", modes, [0, 1] * 5)
        program = self.program("p", batches, 1, 1)
        logs = [self.train(program, batches, "--loss-normalizer", how, log=f"{how}.jsonl")[1] for how in ("step", "samples")]
        self.assertEqual(*([(line["loss"], line["grad_norm"]) for line in log] for log in logs))


class Refusals(Case):
    def test_both_values_are_named(self):
        order = [0, 1] * 5
        modes = [Mode("short", 2, self.samples, 2), Mode("long", 1, self.samples, 2)]
        batches = self.folder("b", modes, order)
        program = self.program("p", batches, 1, 2)

        def refused(folder, says, which=program):
            said, _ = self.train(which, folder, code=1)
            lines = [line for line in said.splitlines() if "error" in line]
            self.assertEqual(len(lines), 1, said)
            self.assertIn(says, lines[0])

        other = [Mode("short", 3, self.samples, 2), modes[1]]
        refused(self.folder("microbatches", other, order), 'length group "short" has microbatches 3, but the program\'s train mode 2')
        other = [modes[0], Mode("large", 1, self.samples, 2)]
        refused(self.folder("names", other, order), 'length group "large" is no train mode of the program, which has short, long')
        wide = Mode("long", 1, self.samples, 2)
        wide.tokens += 1
        refused(self.folder("caps", [modes[0], wide], order),
                f'length group "long" has tokens_cap {wide.tokens}, but the program\'s train mode {wide.tokens - 1}')
        ranks = [Mode("short", 4, self.samples, 1), Mode("long", 2, self.samples, 1)]
        refused(self.folder("ranks", ranks, order), "the length groups are for 1 ranks, but the program has 2 data-parallel ranks")
        one = self.folder("one", modes[1:], [0] * 10)
        refused(one, "the folder has one length group, but the program has 2 train modes (short, long)")
        refused(batches, "the folder has 2 length groups, but the program has one train mode", self.program("single", one, 1, 2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
