#!/usr/bin/env python3
"""Runs with other settings than reference.json's against PyTorch's (training.json of test/scripts/training_reference.py).

    training_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from judgement import Float32  # noqa: E402
from reference_losses import caps_of, write_steps  # noqa: E402

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")
with open(os.path.join(MODEL, "training.json")) as _file:
    CASES = json.load(_file)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def call(self, tool, *flags, code=0):
        result = subprocess.run([os.path.join(BIN, tool), *map(str, flags)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=300)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stderr

    def compile(self, steps, *flags, name="program", replicas=1):
        tiles, tokens = caps_of(steps, os.path.join(MODEL, "data-000000.tar"))
        self.call("omnibal-compile", f"{MODEL}/model.onnx", "--weights", f"{MODEL}/model.safetensors", "--tiles", tiles,
                  "--tokens", tokens, "--microbatches", len(steps[0]["groups"]) // replicas, "--data-parallel", replicas, *flags,
                  "-o", self.path(name))
        return self.path(name)

    def train(self, program, steps, *flags, log="run.jsonl", code=0, data=os.path.join(MODEL, "data-000000.tar")):
        """What it says, and the lines of its log."""
        write_steps(self.path("steps.jsonl"), steps)
        says = self.call("omnibal-run", program, "--weights", f"{MODEL}/model.safetensors", "--data", data,
                         "--preprocess", f"{MODEL}/preprocessor_config.json", "--steps-file", self.path("steps.jsonl"),
                         "--threads", 1, "--log", self.path(log), *flags, code=code)
        if code:
            return says, []
        with open(self.path(log)) as file:
            return says, [json.loads(line) for line in file]

    def judge(self, lines, steps):
        self.assertEqual(len(lines), len(steps))
        for line, step in zip(lines, steps, strict=True):
            for name in ("loss", "grad_norm"):
                self.assertLessEqual(Float32.of_number(line[name], step, name), 1, f"step {line['step']}: {name} is {line[name]}, PyTorch's {step}")


class Groups(Case):
    """Learning rate, weight decay and warm-up by part."""

    def test_parts_learn_as_pytorchs_groups_do(self):
        case = CASES["groups"]
        for flags in (("--stages", 1), ("--stages", 2)):
            says, lines = self.train(self.compile(case["steps"], *flags), case["steps"], *case["flags"])
            self.judge(lines, case["steps"])
            self.assertEqual([line["lr"] for line in lines], [1e-3] * 10)
            self.assertAlmostEqual(lines[0]["lr_of"]["projector"], 5e-3 / 4, delta=1e-15)
            self.assertAlmostEqual(lines[9]["lr_of"]["projector"], 5e-3, delta=1e-15)
            self.assertEqual(lines[3]["lr_of"]["vision & vision_tower"], 1e-4)
            self.assertRegex(says, r"group +lr +weight decay +warm-up +tensors +parameters")
            self.assertRegex(says, r"\n  vision & vision_tower +0.0001 +0.2 +0 +\d+ +[\d,]+\n")
            self.assertRegex(says, r"\n  vision & vision_tower, one dimension +0.0001 +0 +0 ")
            self.assertRegex(says, r"\n  projector +0.005 +0.05 +4 ")
            self.assertRegex(says, r"\n  all others +0.001 +0.05 +0 ")

    def test_every_parameter_is_in_the_table_once(self):
        steps = CASES["groups"]["steps"][:1]
        says, _ = self.train(self.compile(steps), steps, *CASES["groups"]["flags"])
        rows = says[says.index("what trains"):].splitlines()[2:]
        rows = [row.split() for row in rows if row.startswith("  ")]
        with open(os.path.join(MODEL, "gradients.json")) as file:
            names = json.load(file).keys()
        self.assertEqual(sum(int(row[-2]) for row in rows), len(names))

    def test_layer_decay(self):
        case = CASES["layer decay"]
        _, lines = self.train(self.compile(case["steps"], "--stages", 2), case["steps"], *case["flags"])
        self.judge(lines, case["steps"])
        self.assertEqual(lines[0]["lr_of"], {"vision.embedding": 1e-3 / 32, **{f"vision.layers.{i}": 1e-3 / 2 ** (4 - i) for i in range(4)}})

    def test_replicas_that_divide_the_state_learn_the_same(self):
        case, lines = CASES["groups"], {}
        for zero in (0, 1):
            program = self.compile(case["steps"], "--zero", zero, name=f"program{zero}", replicas=2)
            _, lines[zero] = self.train(program, case["steps"], *case["flags"], log=f"{zero}.jsonl")
            self.judge(lines[zero], case["steps"])
        for a, b in zip(*lines.values(), strict=True):
            self.assertEqual((a["loss"], a["grad_norm"]), (b["loss"], b["grad_norm"]))

    def test_adapters_have_groups(self):
        steps = CASES["groups"]["steps"]
        program = self.compile(steps, "--lora", "language.*(q|v)_proj", "--lora-rank", 4)
        says, lines = self.train(program, steps, "--lr-of", "lora_B=0.016", "--lr-of", "lora_A=0.001")
        self.assertRegex(says, r"\n  lora_A +0.001 ")
        self.assertEqual(lines[0]["lr_of"], {"lora_A": 0.001, "lora_B": 0.016})
        self.assertLess(lines[9]["loss"], lines[0]["loss"])

    def test_resumed_runs_have_the_same_bits_and_say_what_was_changed(self):
        case = CASES["groups"]
        program, checkpoints = self.compile(case["steps"]), self.path("checkpoints")
        _, whole = self.train(program, case["steps"], *case["flags"])
        self.train(program, case["steps"], *case["flags"], "--checkpoint", checkpoints, "--checkpoint-every", 5, "--keep", 5)
        middle = os.path.join(checkpoints, "step-00000005")
        says, lines = self.train(program, case["steps"], *case["flags"], "--resume", middle)
        self.assertEqual([line["loss"] for line in lines[-5:]], [line["loss"] for line in whole[5:]])
        self.assertNotIn("changed since", says)
        says, _ = self.train(program, case["steps"], *case["flags"][:6], "--lr-of", "vision=0", "--resume", middle)
        self.assertIn('changed since the checkpoint: lr_of {"projector":0.005,"vision":0.0001} -> {"vision":0.0}', says)
        self.assertIn('changed since the checkpoint: warmup_of {"projector":4.0} -> null', says)

    def test_rules_that_cannot_be_meant_are_refused(self):
        steps = CASES["groups"]["steps"][:1]
        program = self.compile(steps)
        for flags, code, says in (
                (("--lr-of", "visions=1e-4"), 1, "--lr-of visions=0.0001: no parameter that trains has such a name; there are model"),
                (("--lr-of", "vision=1e-4", "--lr-of", "layernorm=1e-3"), 1, "both find model.*layernorm.*disagree"),
                (("--weight-decay-of", "bias$=0.1"), 1, "no parameter that trains and has two dimensions"),
                (("--lr-of", "vision=-1"), 2, "--lr-of vision=-1: -1 is not a finite number of at least 0"),
                (("--lr-of", "vision=nan"), 2, "nan is not a finite number"),
                (("--lr-of", "vision"), 2, '"vision" is not PATTERN=NUMBER'),
                (("--lr-of", "=3"), 2, "is not PATTERN=NUMBER"),
                (("--lr-of", "(=1"), 1, "is no regular expression"),
                (("--warmup-of", "vision=1.5"), 2, "no whole number of steps"),
                (("--layer-decay", "0"), 2, "--layer-decay"), (("--layer-decay", "1.5"), 2, "--layer-decay")):
            self.assertRegex(self.train(program, steps, *flags, code=code)[0], says)
        frozen = self.compile(steps, "--freeze", "vision", name="frozen")
        self.assertIn("no parameter of a vision tower trains", self.train(frozen, steps, "--layer-decay", 0.9, code=1)[0])
        self.assertIn("no parameter that trains", self.train(frozen, steps, "--lr-of", "vision=1", code=1)[0])


class Losses(Case):
    """Label smoothing and z-loss, flags of the compiler."""

    def test_losses_are_pytorchs(self):
        for name, stages in (("label smoothing", 1), ("z-loss", 1), ("both losses", 2)):
            with self.subTest(name=name):
                case = CASES[name]
                program = self.compile(case["steps"], "--stages", stages, *case["compile_flags"])
                self.judge(self.train(program, case["steps"], *case["flags"])[1], case["steps"])

    def test_evaluation_has_the_same_loss(self):
        case = CASES["both losses"]
        loss = {}
        for name, flags in (("plain", ()), ("both", case["compile_flags"])):
            program, log = self.compile(case["steps"], *flags, name=name), self.path(f"{name}.json")
            self.call("omnibal-run", program, "--weights", f"{MODEL}/model.safetensors", "--data", f"{MODEL}/data-000000.tar",
                      "--preprocess", f"{MODEL}/preprocessor_config.json", "--threads", 1, "--evaluate", "--log", log)
            with open(log) as file:
                loss[name] = json.load(file)["loss"]
        self.assertGreater(loss["both"], loss["plain"] + 0.001)

    def test_terms_that_are_none_are_refused(self):
        for flags in (("--label-smoothing", 1), ("--label-smoothing", -0.1), ("--label-smoothing", "nan"), ("--z-loss", -1), ("--z-loss", "inf")):
            self.assertIn(flags[0], self.call("omnibal-compile", f"{MODEL}/model.onnx", "--tiles", 4, "--tokens", 100, *flags,
                                              "-o", self.path("none"), code=2))


class Accumulation(Case):
    """An update of several steps of the list, against reference.json's runs, which have four groups a step."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(MODEL, "reference.json")) as file:
            reference = json.load(file)
        self.whole, settings = reference["variants"]["train_all"]["steps"], reference["optimizer"]
        self.flags = ("--lr", settings["lr"], "--weight-decay", settings["weight_decay"], "--clip", settings["clip_grad_norm"])

    def parts(self, number):
        """The list of steps, each cut into so many."""
        return [{"groups": step["groups"][i * 4 // number:(i + 1) * 4 // number]} for step in self.whole for i in range(number)]

    def test_an_update_sees_all_micro_batches(self):
        _, once = self.train(self.compile(self.whole), self.whole, *self.flags)
        for number, flags in ((2, ("--stages", 1)), (4, ("--stages", 1)), (2, ("--stages", 2)), (2, ("--stages", 2, "--schedule", "zb-h1")),
                              (2, ("--stages", 2, "--schedule", "per-step"))):
            with self.subTest(number=number, flags=flags):
                parts = self.parts(number)
                says, lines = self.train(self.compile(parts, *flags), parts, *self.flags, "--accumulate", number)
                self.judge(lines, self.whole)
                self.assertIn(f"an update takes the micro-batches of {number} steps of the list", says)
                self.assertNotIn("begins again", says)
                for line, step in zip(lines, once, strict=True):
                    for count in ("label_tokens", "samples", "tokens", "tiles", "model_flops"):
                        self.assertEqual(line[count], step[count])
                    if flags == ("--stages", 1):
                        self.assertEqual((line["loss"], line["grad_norm"]), (step["loss"], step["grad_norm"]))

    def test_replicas(self):
        parts = self.parts(2)
        for zero in (0, 1):
            program = self.compile(parts, "--zero", zero, name=f"program{zero}", replicas=2)
            self.judge(self.train(program, parts, *self.flags, "--accumulate", 2)[1], self.whole)

    def test_what_is_resumed_goes_on_in_the_list(self):
        parts, checkpoints = self.parts(2), self.path("checkpoints")
        program = self.compile(parts)
        flags = (*self.flags, "--accumulate", 2)
        _, whole = self.train(program, parts, *flags, "--checkpoint", checkpoints, "--checkpoint-every", 3, "--keep", 9)
        middle = os.path.join(checkpoints, "step-00000006")
        with open(os.path.join(middle, "manifest.json")) as file:
            manifest = json.load(file)
        self.assertEqual((manifest["step"], manifest["data_position"], manifest["settings"]["list_steps"]), (6, 12, 12))
        says, lines = self.train(program, parts, *flags, "--resume", middle)
        self.assertEqual([line["loss"] for line in lines], [line["loss"] for line in whole])
        self.assertNotIn("changed since", says)
        # One step of the list an update from there on: the seventh takes the list's thirteenth.
        says, lines = self.train(program, parts, *self.flags, "--steps", 8, "--resume", middle)
        self.assertIn("changed since the checkpoint: accumulate 2 -> 1", says)
        self.assertEqual([line["samples"] for line in lines[6:]], [sum(map(len, parts[i]["groups"])) for i in (12, 13)])
        self.assertTrue(all(line["loss"] < whole[0]["loss"] for line in lines[6:]))

    def test_a_list_that_leaves_a_rest_begins_again(self):
        parts = self.parts(2)[:5]
        says, lines = self.train(self.compile(parts), parts, *self.flags, "--accumulate", 2)
        self.assertEqual([line["samples"] for line in lines], [sum(map(len, a["groups"])) + sum(map(len, b["groups"]))
                                                              for a, b in ((parts[0], parts[1]), (parts[2], parts[3]), (parts[4], parts[0]))])
        self.assertIn("the list has 5 steps; after them it begins again", says)

    def test_losses_by_the_epochs_labels(self):
        """The sum over an update's part of the list; with one epoch of one update that is the step's own labels."""
        parts = self.parts(2)[:2]
        program = self.compile(parts)
        _, step = self.train(program, parts, *self.flags, "--accumulate", 2)
        _, epoch = self.train(program, parts, *self.flags, "--accumulate", 2, "--loss-normalizer", "epoch")
        self.assertAlmostEqual(step[0]["grad_norm"], epoch[0]["grad_norm"], delta=1e-6 * step[0]["grad_norm"])

    def test_a_bad_sample_of_an_earlier_part_is_left_out(self):
        parts = self.parts(2)[:4]
        program = self.compile(parts)
        keys = [[key for group in part["groups"] for key in group] for part in parts]
        key = next(key for key in keys[2] if key not in keys[0] + keys[1] + keys[3])
        data = self.path("data.tar")
        with tarfile.open(os.path.join(MODEL, "data-000000.tar")) as old, tarfile.open(data, "w", format=tarfile.USTAR_FORMAT) as new:
            for member in old:
                content = old.extractfile(member).read()
                if member.name == f"{key}.json":
                    content = content.replace(b'"input_ids"', b'"input-ids"')
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
        says, lines = self.train(program, parts, *self.flags, "--accumulate", 2, "--skip-bad-samples", 1, data=data)
        self.assertEqual([line.get("skipped_samples") for line in lines], [None, [key]])
        self.assertEqual(lines[1]["samples"], sum(len(group) for part in parts[2:] for group in part["groups"]) - 1)

    def test_what_weighs_losses_by_the_whole_step_is_refused(self):
        parts = self.parts(2)
        program = self.compile(parts, replicas=2)
        says, _ = self.train(program, parts, "--accumulate", 2, "--loss-normalizer", "samples", code=1)
        self.assertIn("--accumulate and --loss-normalizer samples exclude each other", says)
        self.assertRegex(self.train(program, parts, "--accumulate", 0, code=2)[0], "--accumulate")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
