#!/usr/bin/env python3
"""Runs with other settings than reference.json's against PyTorch's (training.json of test/scripts/training_reference.py).

    training_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import io
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from judgement import Float32  # noqa: E402
from projections import norm, projections  # noqa: E402
from reference_losses import caps_of, read_safetensors, write_steps  # noqa: E402

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


class Optimizers(Case):
    """Optimizers with one moment, or moments of 8 bits, which the compiler plans for."""

    def stages_of(self, program):
        with open(os.path.join(program, "stages.json")) as file:
            return json.load(file)

    def test_they_learn_as_pytorchs_do(self):
        for name, flags, replicas in (("lion", (), 1), ("lion", ("--stages", 2), 1), ("lion", ("--zero", 1), 2),
                                      ("sgd", (), 1), ("sgd", ("--stages", 2), 1), ("nesterov", ("--stages", 2, "--zero", 1), 2),
                                      ("muon", (), 1), ("muon", ("--stages", 3), 2),
                                      ("adamw8bit", (), 1), ("adamw8bit", ("--stages", 2, "--zero", 1), 2),
                                      ("adafactor", (), 1), ("adafactor", ("--stages", 3), 2),
                                      ("adafactor", ("--model-parallel", 2, "--layouts", "none"), 1), ("adafactor's settings", (), 1)):
            with self.subTest(name=name, flags=flags):
                case = CASES[name]
                program = self.compile(case["steps"], *case["compile_flags"], *flags, replicas=replicas)
                saves = ("--save", self.path("saved"), "--overwrite") if "moved" in case else ()
                self.judge(self.train(program, case["steps"], *case["flags"], *saves)[1], case["steps"])
                if saves:
                    self.judge_moved(read_safetensors(self.path("saved/model.safetensors")), case["moved"])

    def judge_moved(self, saved, rows):
        start = read_safetensors(f"{MODEL}/model.safetensors")
        self.assertEqual(rows.keys(), start.keys())
        for name, row in rows.items():
            moved = [a - b for a, b in zip(saved[name], start[name], strict=True)]
            deviation = max(abs(a - float(b)) for a, b in zip(projections(name, moved), row["projections"], strict=True))
            self.assertLess(deviation, max(8 * float(row["float32_deviation"]), 2e-4 * float(row["norm"])), name)

    def test_one_moment_takes_less_memory(self):
        steps = CASES["lion"]["steps"]
        persistent = {kind: self.stages_of(self.compile(steps, "--optimizer", kind, name=kind))[0]["persistent_bytes"]
                      for kind in ("adamw", "lion", "sgd")}
        trained = sum(8 * shape for shape in self.elements("lion"))
        # 16 bytes a parameter with two moments, 12 with one, each array rounded up to 64 bytes.
        self.assertEqual(persistent["lion"], persistent["sgd"])
        self.assertAlmostEqual((persistent["adamw"] - persistent["lion"]) * 2, trained, delta=0.02 * trained)

    def test_moments_of_8_bits_take_less_memory(self):
        steps = CASES["adamw8bit"]["steps"]
        persistent = {kind: self.stages_of(self.compile(steps, "--optimizer", kind, name=kind))[0]["persistent_bytes"]
                      for kind in ("adamw", "adamw8bit")}

        def lines(size): # memory is handed out in 64 bytes
            return -(-size // 64) * 64
        # By hand: a code a value, behind the scales of 256 values each, in place of four bytes a value.
        saved = sum(2 * (lines(4 * count) - lines(4 * -(-count // 256)) - lines(count)) for count in self.elements("adamw8bit"))
        self.assertEqual(persistent["adamw"] - persistent["adamw8bit"], saved)

    def test_losses_with_moments_of_8_bits_are_near_those_with_32(self):
        case, exact = CASES["adamw8bit"], CASES["ema"]["steps"] # which are AdamW's
        _, lines = self.train(self.compile(case["steps"], *case["compile_flags"]), case["steps"], *case["flags"])
        for line, step in zip(lines, exact, strict=True):
            self.assertAlmostEqual(line["loss"], float(step["loss_float64"]), delta=2e-4)
        self.assertNotEqual(lines[-1]["loss"], float(exact[-1]["loss_float32"]))

    def test_moments_of_8_bits_need_whole_parameters(self):
        says = self.call("omnibal-compile", f"{MODEL}/model.onnx", "--weights", f"{MODEL}/model.safetensors", "--optimizer", "adamw8bit",
                         "--tiles", 4, "--tokens", 64, "--dry-run", "--model-parallel", 2, "--layout-price", 1, code=1)
        self.assertIn("--optimizer adamw8bit: layouts split this parameter", says)

    def elements(self, program):
        for parameter in self.stages_of(self.path(program))[0]["parameters"]:
            if parameter["trainable"]:
                count = 1
                for size in parameter["shape"]:
                    count *= size
                yield count

    def test_resumed_runs_have_the_same_bits(self):
        for name in ("lion", "adamw8bit"):
            with self.subTest(name=name):
                self.check_resuming(CASES[name], self.path(name))

    def check_resuming(self, case, checkpoints):
        program = self.compile(case["steps"], *case["compile_flags"])
        _, whole = self.train(program, case["steps"], *case["flags"])
        self.train(program, case["steps"], *case["flags"], "--checkpoint", checkpoints, "--checkpoint-every", 5, "--keep", 5)
        middle = os.path.join(checkpoints, "step-00000005")
        for flags, replicas in (((), 1), (("--zero", 1), 2)):
            other = self.compile(case["steps"], *case["compile_flags"], *flags, name="other", replicas=replicas)
            _, lines = self.train(other, case["steps"], *case["flags"], "--resume", middle)
            if replicas == 1:
                self.assertEqual([line["loss"] for line in lines[-5:]], [line["loss"] for line in whole[5:]])
            self.judge(lines[-5:], case["steps"][5:])

    def test_matrices_of_muon(self):
        case = CASES["muon"]
        program, checkpoints = self.compile(case["steps"], *case["compile_flags"]), self.path("checkpoints")
        matrices = [q for q in self.stages_of(program)[0]["parameters"] if q.get("orthogonalized")]
        self.assertGreater(len(matrices), 20)
        for q in matrices:
            self.assertEqual(len(q["shape"]), 2)
            self.assertNotRegex(q["name"], "embed|lm_head|norm")
            self.assertEqual(q["offsets"][3], -1) # no second moment
        largest = max(2 * (q["shape"][0] * q["shape"][1] + min(q["shape"]) ** 2) for q in matrices)
        says, whole = self.train(program, case["steps"], *case["flags"])
        self.assertRegex(says, rf"{largest * 4 / 1000:.1f} kB|{largest * 4 / 1e6:.2f} MB")
        self.train(program, case["steps"], *case["flags"], "--checkpoint", checkpoints, "--checkpoint-every", 5, "--keep", 5)
        _, lines = self.train(program, case["steps"], *case["flags"], "--resume", os.path.join(checkpoints, "step-00000005"), "--threads", 2)
        self.assertEqual([line["loss"] for line in lines[-5:]], [line["loss"] for line in whole[5:]])
        for flags, why in ((("--zero", 1, "--data-parallel", 2), "with --zero 1 replicas divide matrices"),
                           (("--target", "cuda"), "target cuda has no such update"),
                           (("--freeze-match", "proj|fc|query|key|value|dense|linear|weight"), "muon finds no weight")):
            says = self.call("omnibal-compile", f"{MODEL}/model.onnx", "--weights", f"{MODEL}/model.safetensors", "--optimizer", "muon",
                             "--tiles", 4, "--tokens", 64, "--dry-run", *flags, code=1)
            self.assertIn(why, says)

    def test_variances_of_adafactor(self):
        """By hand: a parameter [..., r, c] has ... x r and ... x c variances, and another one has one of each element."""
        case = CASES["adafactor"]
        program, checkpoints = self.compile(case["steps"], *case["compile_flags"]), self.path("checkpoints")
        parameters = [q for q in self.stages_of(program)[0]["parameters"] if q["trainable"]]
        self.assertEqual({len(q["shape"]) for q in parameters}, {1, 2, 3, 4})

        def lines(size): # memory is handed out in 64 bytes
            return -(-size // 64) * 64
        shapes = {}
        for q in parameters:
            *_, r, c = shape = q["shape"] if len(q["shape"]) > 1 else [0, *q["shape"]]
            shapes[q["name"]] = [[*shape[:-1], 1], [*shape[:-2], 1, c]] if r else [q["shape"]]
            self.assertEqual(q["offsets"][3] >= 0, r > 0)
        plain = self.stages_of(self.compile(case["steps"], name="adamw"))[0]
        saved = sum(2 * lines(4 * math.prod(q["shape"])) - sum(lines(4 * math.prod(shape)) for shape in shapes[q["name"]]) for q in parameters)
        self.assertEqual(plain["persistent_bytes"] - self.stages_of(program)[0]["persistent_bytes"], saved)

        _, whole = self.train(program, case["steps"], *case["flags"])
        self.train(program, case["steps"], *case["flags"], "--checkpoint", checkpoints, "--checkpoint-every", 5, "--keep", 5)
        middle = os.path.join(checkpoints, "step-00000005")
        with open(os.path.join(middle, "stage-0.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, expected in shapes.items():
            self.assertEqual([header[f"moment{i}/{name}"]["shape"] for i in (1, 2) if f"moment{i}/{name}" in header], expected)
        _, resumed = self.train(program, case["steps"], *case["flags"], "--resume", middle, "--threads", 2)
        self.assertEqual([line["loss"] for line in resumed[-5:]], [line["loss"] for line in whole[5:]])
        # A checkpoint of one layout goes on in another one, and what that writes in the first one again.
        other = self.compile(case["steps"], *case["compile_flags"], "--stages", 2, name="other", replicas=2)
        _, resumed = self.train(other, case["steps"], *case["flags"], "--resume", middle, "--steps", 7, "--checkpoint", self.path("others"))
        self.judge(resumed[-2:], case["steps"][5:7])
        _, resumed = self.train(program, case["steps"], *case["flags"], "--resume", self.path("others"))
        self.judge(resumed[-3:], case["steps"][7:])
        says, _ = self.train(program, case["steps"], *case["flags"], "--beta2-decay", -0.7, "--resume", middle)
        self.assertIn("changed since the checkpoint: beta2_decay -0.8 -> -0.7", says)

    def test_adafactor_needs_whole_parameters_and_the_host(self):
        for flags, why in ((("--zero", 1, "--data-parallel", 2), "--optimizer adafactor: with --zero 1 replicas divide matrices"),
                           (("--target", "cuda"), "--optimizer adafactor: target cuda has no such update"),
                           (("--model-parallel", 2, "--layout-price", 1), "--optimizer adafactor: layouts split this parameter")):
            says = self.call("omnibal-compile", f"{MODEL}/model.onnx", "--weights", f"{MODEL}/model.safetensors", "--optimizer",
                             "adafactor", "--tiles", 4, "--tokens", 64, "--dry-run", *flags, code=1)
            self.assertIn(why, says)

    def test_moments_of_another_optimizer_are_refused(self):
        case = CASES["lion"]
        program, checkpoints = self.compile(case["steps"], *case["compile_flags"]), self.path("checkpoints")
        self.train(program, case["steps"], *case["flags"], "--steps", 2, "--checkpoint", checkpoints)
        for kind in ("adamw", "sgd", "adamw8bit", "adafactor"):
            other = self.compile(case["steps"], "--optimizer", kind, name=kind)
            says, _ = self.train(other, case["steps"], *case["flags"], "--resume", checkpoints, code=1)
            self.assertIn(f"its moments are those of lion, and the program's optimizer is {kind}", says)

    def test_settings_of_other_optimizers_are_refused(self):
        steps = CASES["lion"]["steps"][:1]
        for kind, flags in (("adamw", ("--momentum", 0.9)), ("lion", ("--eps", 1e-6)), ("sgd", ("--beta1", 0.8)), ("lion", ("--nesterov",)),
                            ("adafactor", ("--beta2", 0.99)), ("adafactor", ("--momentum", 0.9)), ("adamw", ("--beta2-decay", -0.5)),
                            ("muon", ("--eps2", 0.01)), ("lion", ("--update-clip", 2))):
            program = self.compile(steps, "--optimizer", kind, name=kind)
            says, _ = self.train(program, steps, *flags, code=1)
            self.assertIn(f"{flags[0]}: the program's optimizer, {kind}, has no such setting", says)


class OptimizersOfADevice(Case):
    """Moments of 8 bits on the emulated device."""

    def test_they_learn_as_on_the_host(self):
        case, checkpoints = CASES["adamw8bit"], self.path("checkpoints")
        steps = case["steps"][:3]
        flags = ("--target", "cuda", "--dtype", "float32", "--gpu-code", "emulated")
        program = self.compile(steps, *case["compile_flags"], *flags)
        _, whole = self.train(program, steps, *case["flags"], "--checkpoint", checkpoints, "--checkpoint-every", 2, "--keep", 5)
        self.judge(whole, steps)
        # What the device has made of its moments, the host goes on with, and the other way round.
        host = self.compile(steps, *case["compile_flags"], name="host")
        middle = os.path.join(checkpoints, "step-00000002")
        for other in (program, host):
            _, lines = self.train(other, steps, *case["flags"], "--resume", middle)
            self.judge(lines[-1:], steps[2:])


class Averages(Case):
    """Moving averages of weights (--ema)."""
    case = CASES["ema"]

    def averages_of(self, program, *flags, name="averages", **options):
        says, lines = self.train(program, self.case["steps"], *self.case["flags"], "--save", self.path("saved"), "--save-ema", self.path(name),
                                 "--save-dtype", "float32", *flags, **options)
        return lines, read_safetensors(self.path(f"{name}/model.safetensors"))

    def test_they_are_pytorchs(self):
        start = read_safetensors(f"{MODEL}/model.safetensors")
        for flags, replicas in (((), 1), (("--stages", 2), 1), (("--stages", 2, "--zero", 1), 2), (("--model-parallel", 2), 1)):
            with self.subTest(flags=flags):
                program = self.compile(self.case["steps"], "--ema", *flags, replicas=replicas)
                lines, averages = self.averages_of(program, "--overwrite")
                self.judge(lines, self.case["steps"])
                self.assertEqual(averages.keys(), start.keys())
                for name, row in self.case["averages"].items():
                    moved = [a - b for a, b in zip(averages[name], start[name], strict=True)]
                    expected, found = [float(p) for p in row["projections"]], projections(name, moved)
                    self.assertLess(max(abs(a - b) for a, b in zip(expected, found, strict=True)),
                                    max(8 * float(row["float32_deviation"]), 2e-4 * float(row["norm"])), name)
                    self.assertAlmostEqual(norm(moved), float(row["norm"]), delta=1e-4 * float(row["norm"]))

    def test_training_is_as_without(self):
        lines = {}
        for name, flags in (("plain", ()), ("averaged", ("--ema",))):
            program = self.compile(self.case["steps"], *flags, name=name)
            lines[name] = [line["loss"] for line in self.train(program, self.case["steps"], "--save", self.path(f"saved-{name}"))[1]]
        self.assertEqual(lines["plain"], lines["averaged"])
        self.assertEqual(*(read_safetensors(self.path(f"saved-{name}/model.safetensors")) for name in lines))

    def test_resumed_runs_have_the_same_bits(self):
        program, checkpoints = self.compile(self.case["steps"], "--ema"), self.path("checkpoints")
        lines, whole = self.averages_of(program, "--checkpoint", checkpoints, "--checkpoint-every", 5, "--keep", 5)
        middle = os.path.join(checkpoints, "step-00000005")
        for flags in (("--threads", 1), ("--threads", 2)):
            resumed, averages = self.averages_of(program, "--resume", middle, *flags, name="resumed")
            self.assertEqual([line["loss"] for line in resumed[-5:]], [line["loss"] for line in lines[5:]])
            self.assertEqual(averages, whole)
        says, _ = self.train(program, self.case["steps"], *self.case["flags"][:-1], 0.5, "--resume", middle)
        self.assertIn("changed since the checkpoint: ema_decay 0.9 -> 0.5", says)
        # A run that is over already leaves what the checkpoint has, whatever its layout.
        for flags, replicas in ((("--stages", 2), 1), (("--zero", 1), 2), (("--model-parallel", 2), 1)):
            other = self.compile(self.case["steps"], "--ema", *flags, name="other", replicas=replicas)
            self.assertEqual(self.averages_of(other, "--resume", checkpoints, name="other-saved")[1], whole)
        self.call("omnibal-run", "--export-checkpoint", checkpoints, "--weights", f"{MODEL}/model.safetensors", "--save-ema",
                  self.path("exported"), "--save-dtype", "float32")
        self.assertEqual(read_safetensors(self.path("exported/model.safetensors")), whole)
        self.assertFalse(os.path.exists(self.path("exported/none")))

    def test_averages_may_begin_and_end_at_a_checkpoint(self):
        steps = self.case["steps"]
        programs = {name: self.compile(steps, *flags, name=name) for name, flags in (("plain", ()), ("averaged", ("--ema",)))}
        for name, other in (("plain", "averaged"), ("averaged", "plain")):
            self.train(programs[name], steps, "--steps", 3, "--checkpoint", self.path(name + ".ck"), "--save", self.path(name + ".saved"))
            says, lines = self.train(programs[other], steps, "--resume", self.path(name + ".ck"))
            self.assertIn("has no moving averages, which begin with its weights" if other == "averaged" else "has moving averages, which end here", says)
            self.assertEqual(len(lines), 10)
        self.averages_of(programs["averaged"], "--steps", 3, "--resume", self.path("plain.ck"))
        self.assertEqual(read_safetensors(self.path("averages/model.safetensors")), read_safetensors(self.path("plain.saved/model.safetensors")))
        says = self.call("omnibal-run", "--export-checkpoint", self.path("plain.ck"), "--weights", f"{MODEL}/model.safetensors", "--save-ema",
                         self.path("exported"), code=1)
        self.assertIn("has no moving averages; its program was compiled without --ema", says)

    def test_evaluations_of_averages(self):
        data = os.path.join(MODEL, "data-000000.tar")
        program = self.compile(self.case["steps"], "--stages", 2, "--zero", 1, "--ema", replicas=2)
        flags = ("--evaluate-every", 5, "--evaluate-data", data)
        lines, _ = self.averages_of(program, *flags, "--evaluate-ema")
        evaluated = [line["evaluation"]["loss"] for line in lines if "evaluation" in line]
        plain = [line["loss"] for line in lines if "evaluation" not in line]
        self.call("omnibal-run", program, "--weights", self.path("averages"), "--data", data, "--preprocess",
                  f"{MODEL}/preprocessor_config.json", "--threads", 1, "--evaluate", "--log", self.path("evaluation.json"))
        with open(self.path("evaluation.json")) as file:
            self.assertAlmostEqual(json.load(file)["loss"], evaluated[-1], delta=1e-6)
        lines, _ = self.averages_of(program, *flags)
        self.assertEqual([line["loss"] for line in lines if "evaluation" not in line], plain)
        self.assertNotAlmostEqual([line["evaluation"]["loss"] for line in lines if "evaluation" in line][-1], evaluated[-1], delta=1e-3)

    def test_adapters_are_averaged(self):
        program = self.compile(self.case["steps"], "--ema", "--lora", "language.*(q|v)_proj", "--lora-rank", 4)
        self.train(program, self.case["steps"], "--save", self.path("saved"), "--save-ema", self.path("averages"))
        trained, averages = (read_safetensors(self.path(f"{name}/adapter_model.safetensors")) for name in ("saved", "averages"))
        self.assertEqual(trained.keys(), averages.keys())
        for name, values in averages.items():
            if "lora_B" in name: # which begins as zero: 0.999 of it is kept in every step
                self.assertLess(norm(values), 0.01 * norm(trained[name]))
                self.assertGreater(norm(values), 0)

    def test_what_cannot_be_meant_is_refused(self):
        steps = self.case["steps"][:1]
        program, averaged = self.compile(steps, name="plain"), self.compile(steps, "--ema")
        for flags in (("--ema-decay", 0.9), ("--save-ema", self.path("averages"))):
            says, _ = self.train(program, steps, *flags, code=1)
            self.assertIn(f"{flags[0]}: {program} keeps no moving averages; omnibal-compile --ema", says)
        for flags, why in ((("--ema-decay", 1), "--ema-decay"), (("--evaluate-ema",), "--evaluate-ema needs --evaluate-every"),
                           (("--save", self.path("x"), "--save-ema", self.path("x")), "x is the folder of --save"),
                           (("--merge-adapters", "--save-ema", self.path("x")), "has no adapters")):
            says, _ = self.train(averaged, steps, *flags, code=1 if "adapters" in why else 2)
            self.assertIn(why, says)


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
