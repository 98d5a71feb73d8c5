#!/usr/bin/env python3
"""Direct preference optimization against PyTorch with TRL's formula (preference.json of
test/scripts/preference_reference.py).

    preference_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from judgement import Float32  # noqa: E402
from mode_batches import Mode, Samples, write_folder  # noqa: E402
from preference_pairs import caps_of_pairs, write_pairs, write_singles  # noqa: E402
from reference_losses import write_steps  # noqa: E402

BIN, DATA = sys.argv[1:3]
# Rewards are differences of log-probabilities of about 30: of these, a float32 number has so much of a unit.
REWARD = 1e-5


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.use("tiny-internvl")

    def use(self, model):
        self.model = os.path.join(DATA, model)
        with open(os.path.join(self.model, "preference.json")) as file:
            self.cases = json.load(file)
        self.shard = self.path("pairs.tar")
        shutil.copy(os.path.join(self.model, "fixture.json"), self.folder.name)  # says how pictures are counted
        write_pairs(os.path.join(self.model, "data-000000.tar"), self.shard)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def call(self, tool, *flags, code=0):
        result = subprocess.run([os.path.join(BIN, tool), *map(str, flags)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=300)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def compile(self, case, *flags, name="program", replicas=1, microbatches=None, caps=None):
        tiles, tokens = caps or caps_of_pairs(case["steps"], self.shard)
        self.call("omnibal-compile", f"{self.model}/model.onnx", "--weights", f"{self.model}/model.safetensors", "--tiles", tiles,
                  "--tokens", tokens, "--microbatches", microbatches or len(case["steps"][0]["groups"]) // replicas,
                  "--data-parallel", replicas, *case.get("compile_flags", ()), *flags, "-o", self.path(name))
        return self.path(name)

    def run_on(self, program, *flags, data=None, code=0):
        return self.call("omnibal-run", program, "--weights", f"{self.model}/model.safetensors", "--data", data or self.shard,
                         "--preprocess", f"{self.model}/preprocessor_config.json", "--threads", 1, *flags, code=code)

    def train(self, program, case, *flags, log="run.jsonl", reference="references.jsonl", steps=None, code=0, data=None):
        """What it says, and the lines of its log."""
        write_steps(self.path("steps.jsonl"), steps or case["steps"])
        files = ("--reference", self.path(reference)) if reference else ()
        says = self.run_on(program, "--steps-file", self.path("steps.jsonl"), "--log", self.path(log), *files, *case["flags"],
                           *flags, code=code, data=data)
        if code:
            return says, []
        with open(self.path(log)) as file:
            return says, [json.loads(line) for line in file]

    def judge(self, lines, case):
        self.assertEqual(len(lines), len(case["steps"]))
        for line, step in zip(lines, case["steps"], strict=True):
            for name in ("loss", "grad_norm"):
                self.assertLessEqual(Float32.of_number(line[name], step, name), 1,
                                     f"step {line['step']}: {name} is {line[name]}, PyTorch's {step}")
            for name in ("reward_chosen", "reward_rejected", "reward_margin"):
                exact, single = (float(step[f"{name}_{dtype}"]) for dtype in ("float64", "float32"))
                self.assertAlmostEqual(line[name], exact, delta=4 * abs(single - exact) + REWARD, msg=f"step {line['step']}: {name}")
            self.assertAlmostEqual(line["reward_margin"], line["reward_chosen"] - line["reward_rejected"], delta=1e-12)
            if line["step"] > 0:  # rewards of 0 are rounding alone
                self.assertAlmostEqual(line["reward_accuracy"], float(step["reward_accuracy_float64"]), delta=1e-7)
            self.assertEqual(line["samples"], sum(len(group) for group in step["groups"]))

    def judge_references(self, case, name="references.jsonl"):
        with open(self.path(name)) as file:
            header, *lines = [json.loads(line) for line in file]
        self.assertEqual((header["format"], header["samples"]), ("omnibal.references/1", len(case["references"])))
        self.assertEqual({line["key"] for line in lines}, case["references"].keys())
        for line in lines:
            values = case["references"][line["key"]]
            for side, exact, single in zip(("chosen", "rejected"), values["float64"], values["float32"], strict=True):
                exact, single = float(exact), float(single)
                self.assertAlmostEqual(line[side], exact, delta=max(4 * abs(single - exact), 1e-6 * abs(exact)))


class Losses(Case):
    def test_losses_and_rewards_are_pytorchs(self):
        for name, stages, flags in (("dpo", 1, ()), ("dpo", 2, ("--remat", "full")), ("smoothed", 1, ("--remat", "full")),
                                    ("smoothed", 2, ())):
            with self.subTest(name=name, stages=stages):
                case = self.cases[name]
                program = self.compile(case, "--stages", stages, *flags)
                says, lines = self.train(program, case)
                self.judge(lines, case)
                self.judge_references(case)
                self.assertIn("margin", says)

    def test_pictures_of_their_own_sizes(self):
        self.use("tiny-qwen2_5_vl")
        case = self.cases["dpo"]
        self.judge(self.train(self.compile(case, "--stages", 2), case)[1], case)
        self.judge_references(case)

    def test_replicas_and_accumulation_count_pairs(self):
        """The mean over the pairs of the whole step, however they are divided."""
        case = self.cases["dpo"]
        divided = [{"groups": half} for step in case["steps"] for half in (step["groups"][:2], step["groups"][2:])]
        for name, settings, flags, steps in (
                ("two", dict(replicas=2), (), None), ("zero", dict(replicas=2), ("--zero", 1), None),
                ("accumulated", dict(microbatches=2), (), divided), ("both", dict(replicas=2, microbatches=1), (), divided)):
            with self.subTest(name=name):
                program = self.compile(case, *flags, name=name, **settings)
                more = () if steps is None else ("--accumulate", 2)
                self.judge(self.train(program, case, *more, steps=steps)[1], case)

    def test_packings_of_the_same_pairs_give_the_same_losses(self):
        case = self.cases["smoothed"]
        each = [{**step, "groups": [[key] for group in step["groups"] for key in group]} for step in case["steps"]]
        most = max(len(step["groups"]) for step in each)
        for step in each:
            step["groups"] += [[]] * (most - len(step["groups"]))
        whole = [{**step, "groups": [[key for group in step["groups"] for key in group]]} for step in case["steps"]]
        for name, steps in (("each", each), ("whole", whole)):
            with self.subTest(name=name):
                program = self.compile(case, name=name, microbatches=len(steps[0]["groups"]), caps=caps_of_pairs(steps, self.shard))
                self.judge(self.train(program, case, steps=steps)[1], case)

    def test_schedules(self):
        case = self.cases["dpo"]
        for flags in (("--stages", 2, "--schedule", "per-step"), ("--stages", 2, "--schedule", "zb-h1"),
                      ("--stages", 2, "--schedule", "interleaved:2", "--remat", "selective-1")):
            with self.subTest(flags=flags):
                self.judge(self.train(self.compile(case, *flags), case)[1], case)

    def test_parts_of_a_stage(self):
        case = self.cases["dpo"]
        for flags in ((), ("--layouts", "none")):
            with self.subTest(flags=flags):
                self.judge(self.train(self.compile(case, "--model-parallel", 2, *flags), case)[1], case)

    def test_work_is_that_of_the_sequences(self):
        """Whatever the loss needs twice: no more operations are counted than for the same sequences alone."""
        keys = write_singles(os.path.join(self.model, "data-000000.tar"), self.path("singles.tar"))[:8]
        self.assertEqual(len(keys), 8)
        groups = [keys[i:i + 2] for i in range(0, 8, 2)]
        case = {**self.cases["dpo"], "steps": [{"groups": groups}]}
        singles = [{"groups": [[f"{key}-{side}" for key in group for side in ("chosen", "rejected")] for group in groups]}]
        of = {}
        for remat in ("none", "full"):
            program = self.compile(case, "--remat", remat, caps=(8, 400))
            of[remat] = self.train(program, case)[1][0]
        plain = {**case, "compile_flags": [], "steps": singles}
        of["plain"] = self.train(self.compile(plain, caps=(8, 400)), plain, reference=None, data=self.path("singles.tar"))[1][0]
        for name in ("tokens", "label_tokens", "model_flops"):
            self.assertEqual([line[name] for line in of.values()], 3 * [of["plain"][name]], name)
        self.assertEqual((of["none"]["samples"], of["plain"]["samples"]), (8, 16))

    def test_training_modes(self):
        """Two modes in turn, of other caps and numbers of micro-batches."""
        case, fixture = self.cases["dpo"], self.path("fixture")
        os.mkdir(fixture)
        shutil.copy(self.shard, os.path.join(fixture, "data-000000.tar"))
        samples = Samples(fixture, case["steps"], self.path("modes.tar"))
        modes = [Mode("short", 6, samples, 1), Mode("long", 2, samples, 1)]
        write_folder(self.path("batches"), samples, modes, [step % 2 for step in range(len(case["steps"]))], 2)
        self.call("omnibal-compile", f"{self.model}/model.onnx", "--stages", 2, "--batches", self.path("batches"),
                  *case["compile_flags"], "-o", self.path("program"))
        self.run_on(self.path("program"), "--batches", self.path("batches"), "--log", self.path("run.jsonl"), "--reference",
                    self.path("references.jsonl"), *case["flags"], data=self.path("modes.tar"))
        with open(self.path("run.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["mode"] for line in lines], 5 * ["short", "long"])
        self.judge(lines, case)

    def test_adapters(self):
        case = self.cases["lora"]
        adapters = ("--adapter", f"{self.model}/adapters/lora")
        for stages in (1, 2):
            self.judge(self.train(self.compile(case, "--stages", stages), case, *adapters)[1], case)
        self.judge_references(case)

    def test_processes(self):
        case = self.cases["dpo"]
        program = self.compile(case, "--stages", 2, replicas=2)
        write_steps(self.path("steps.jsonl"), case["steps"])
        flags = [program, "--weights", f"{self.model}/model.safetensors", "--data", self.shard, "--preprocess",
                 f"{self.model}/preprocessor_config.json", "--threads", 1, "--steps-file", self.path("steps.jsonl"),
                 "--reference", self.path("references.jsonl"), *case["flags"], "--log", self.path("run.jsonl")]
        subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", os.path.join(BIN, "omnibal-run"),
                        *map(str, flags)], check=True, timeout=300)
        with open(self.path("run.jsonl")) as file:
            self.judge([json.loads(line) for line in file], case)
        self.judge_references(case)


class Emulated(Case):
    """The cuda target, on the emulated device (OMNIBAL_PLUGINS says where that is)."""

    def test_float32_is_as_near_as_the_host(self):
        case = {**self.cases["smoothed"], "steps": self.cases["smoothed"]["steps"][:2]}
        program = self.compile(case, "--stages", 2, "--target", "cuda", "--dtype", "float32", "--gpu-code", "emulated")
        self.judge(self.train(program, case)[1], case)
        self.judge_references(case)

    def test_bfloat16_learns_the_same(self):
        case = {**self.cases["smoothed"], "steps": self.cases["smoothed"]["steps"][:2]}
        program = self.compile(case, "--target", "cuda", "--gpu-code", "emulated")
        _, lines = self.train(program, case)
        for line, step in zip(lines, case["steps"], strict=True):
            self.assertAlmostEqual(line["loss"], float(step["loss_float64"]), delta=2e-2)
            self.assertAlmostEqual(line["grad_norm"] / float(step["grad_norm_float64"]), 1, delta=3e-2)


class Evaluation(Case):
    def test_evaluation_while_training_and_afterwards(self):
        case = self.cases["dpo"]
        program = self.compile(case, "--stages", 2)
        says, lines = self.train(program, case, "--evaluate-every", 5, "--evaluate-data", self.shard, "--evaluate-reference",
                                 self.path("held.jsonl"), "--save", self.path("saved"))
        self.judge([line for line in lines if "evaluation" not in line], case)
        self.judge_references(case, "held.jsonl")
        found = [line["evaluation"] for line in lines if "evaluation" in line]
        self.assertEqual(len(found), 2)
        self.assertEqual([each["samples"] for each in found], [64, 64])
        self.assertGreater(found[1]["reward_margin"], found[0]["reward_margin"])
        self.assertGreater(found[0]["reward_accuracy"], 0.8)
        self.assertIn("chosen answer preferred", says)
        self.call("omnibal-run", program, "--weights", self.path("saved"), "--data", self.shard, "--preprocess",
                  f"{self.model}/preprocessor_config.json", "--evaluate", "--reference", self.path("references.jsonl"), "--log",
                  self.path("evaluated.json"))
        with open(self.path("evaluated.json")) as file:
            self.assertEqual(json.load(file), found[1])

    def test_resumed_runs_have_the_same_bits(self):
        case = self.cases["dpo"]
        program = self.compile(case)
        _, whole = self.train(program, case, "--checkpoint", self.path("checkpoints"), "--checkpoint-every", 5, "--keep", 5)
        os.remove(self.path("references.jsonl"))  # made again, by the first weights
        _, lines = self.train(program, case, "--resume", self.path("checkpoints/step-00000005"))
        for a, b in zip(whole[5:], lines[-5:], strict=True):
            self.assertEqual([a[name] for name in ("loss", "grad_norm", "reward_margin")],
                             [b[name] for name in ("loss", "grad_norm", "reward_margin")])

    def test_references_alone(self):
        case = self.cases["dpo"]
        program, references = self.compile(case, "--stages", 2), self.path("references.jsonl")
        says = self.run_on(program, "--find-references", "--reference", references)
        self.assertIn("finding the log-probabilities of 64 pairs", says)
        self.judge_references(case)
        self.assertNotIn("finding", self.run_on(program, "--find-references", "--reference", references))
        self.assertNotIn("finding", self.train(program, case)[0])
        for flags, says in (((), "--find-references needs --reference FILE"), (("--evaluate", "--reference", references), "exclude each other")):
            self.assertIn(says, self.run_on(program, "--find-references", *flags, code=2))

    def test_an_epoch_has_as_many_pairs_as_samples(self):
        case = self.cases["dpo"]
        says, lines = self.train(self.compile(case), case, "--loss-normalizer", "epoch")
        counts = [sum(len(group) for group in step["groups"]) for step in case["steps"]]
        self.assertIn(f"divided by its pairs a step, {sum(counts) / len(counts):.1f}", says)
        scale = counts[0] / (sum(counts) / len(counts))
        self.assertAlmostEqual(lines[0]["grad_norm"] / (scale * float(case["steps"][0]["grad_norm_float64"])), 1, delta=1e-5)


class Errors(Case):
    def setUp(self):
        super().setUp()
        self.case = self.cases["dpo"]
        self.steps = self.case["steps"][:1]

    def fails(self, program, *flags, says, code=1, **settings):
        self.assertIn(says, self.train(program, self.case, *flags, steps=self.steps, code=code, **settings)[0])

    def changed(self, change):
        path = self.path("changed.tar")
        write_pairs(os.path.join(self.model, "data-000000.tar"), path, change)
        return path

    def test_data_of_another_kind(self):
        program = self.compile(self.case)
        self.fails(program, data=f"{self.model}/data-000000.tar", says='is no pair of answers (it has no field "chosen_tokens"), but the '
                   "program was compiled with --loss dpo")
        plain = self.compile({"steps": self.case["steps"]}, name="plain")
        self.fails(plain, reference=None, says='is a pair of answers (field "chosen_tokens"), but the program learns from single ones')
        self.fails(plain, says="--reference is for programs that learn from pairs of answers")
        self.assertIn("is no pair of answers", self.run_on(program, "--show-sample", "sample-0001", code=1,
                                                           data=f"{self.model}/data-000000.tar"))
        shown = self.run_on(program, "--show-sample", "sample-0001")
        self.assertIn("chosen answer: 66 tokens, 10 with a label", shown)
        self.assertIn("rejected answer: 65 tokens, 9 with a label", shown)

    def test_a_pair_without_one_side(self):
        program = self.compile(self.case)
        with open(os.path.join(self.model, "fixture.json")) as file:
            token = json.load(file)["image_token_id"]

        def picture(pair):
            return pair["input_ids"].index(token)
        for change, says in (
                (lambda pair: {"chosen_tokens": len(pair["input_ids"])}, "the pair has no rejected answer"),
                (lambda pair: {"chosen_tokens": 0}, "the pair has no chosen answer"),
                (lambda pair: {"chosen_tokens": "half"}, 'field "chosen_tokens" is not a number of tokens'),
                (lambda pair: {"labels": [-100 if t >= pair["chosen_tokens"] else label for t, label in enumerate(pair["labels"])]},
                 "has none for the rejected answer, so there is nothing to compare"),
                (lambda pair: {"input_ids": [5 if t == picture(pair) else each for t, each in enumerate(pair["input_ids"])]},
                 "of the chosen answer holds the image token")):
            data = self.changed(lambda key, pair, change=change: {**pair, **change(pair)} if key == "sample-0001" else pair)
            self.fails(program, data=data, says=says)

    def test_references_of_something_else(self):
        program, references = self.compile(self.case), self.path("references.jsonl")
        self.fails(program, reference=None, says="--reference FILE is required: the program learns from pairs of answers")
        self.assertIn("references.jsonl does not exist; training makes it", self.run_on(program, "--evaluate", "--reference", references, code=1))
        self.fails(program, "--evaluate-every", 1, "--evaluate-data", self.shard, says="--evaluate-data needs --evaluate-reference FILE")
        self.train(program, self.case, steps=self.steps)
        with open(references) as file:
            lines = file.readlines()

        def write(lines):
            with open(references, "w") as file:
                file.writelines(lines)
        header = json.loads(lines[0])
        for changed, says in (
                ([json.dumps({**header, "weights": "fnv1a:0"}) + "\n", *lines[1:]], "were found by other weights than"),
                (lines[:-1], "ends before the last pair"), (lines[1:], "line 1: is not the beginning of omnibal.references/1"),
                ([*lines[:3], lines[3][:20] + "\n", *lines[4:]], "line 4: holds no log-probabilities of a pair"),
                ([json.dumps({**header, "samples": 63}) + "\n", *lines[1:3], *lines[4:]], 'has no log-probabilities of sample "')):
            write(changed)
            self.fails(program, says=says)
        write(lines)
        data = self.changed(lambda key, pair: {**pair, "labels": [*pair["labels"][:-1], 5]})
        self.fails(program, data=data, says="has the reference's log-probabilities of another pair under this key")
        self.train(program, self.case, steps=self.steps)
        other = os.path.join(DATA, "tiny-internvl", "model.safetensors")
        with open(other, "rb") as file:
            weights = bytearray(file.read())
        weights[-1] ^= 1
        with open(self.path("other.safetensors"), "wb") as file:
            file.write(weights)
        self.assertIn("were found by other weights than", self.train(program, self.case, "--weights", self.path("other.safetensors"),
                                                                     steps=self.steps, code=1)[0])

    def test_flags_that_do_not_go_together(self):
        for flags, says in ((("--dpo-beta", 0.2), "--dpo-beta needs --loss dpo"), (("--loss", "dpo", "--dpo-beta", 0), "--dpo-beta"),
                            (("--loss", "dpo", "--label-smoothing", 0.5), "must be below 0.5"), (("--loss", "ppo"), "--loss"),
                            (("--loss", "dpo", "--z-loss", 0.1), "--z-loss is added to the cross entropy of tokens")):
            self.assertIn(says, self.call("omnibal-compile", f"{self.model}/model.onnx", "--tiles", 4, "--tokens", 200, *flags, "-o",
                                          self.path("none"), code=2))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
