#!/usr/bin/env python3
"""Replicas that divide the optimizer's state (ZeRO-1): zero_test.py BIN_FOLDER DATA_FOLDER

Nothing but memory tells a run with shares from one without: losses, norms, saved weights, checkpoints and gradients
have equal bytes, however ranks are started; checkpoints of either go on in the other, and with other replicas.
"""
import io
import json
import math
import os
import subprocess
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from outcomes import OutcomeCase, TiedCase, layout  # noqa: E402
from run_case import BIN, MODEL  # noqa: E402

BLOCK = 16384  # shares begin at multiples of so many elements


class ChainCase(OutcomeCase):
    def unlabeled(self):
        """A shard with every sample once more, without a label: its steps update nothing."""
        with tarfile.open(f"{MODEL}/data-000000.tar") as source, tarfile.open(self.path("data.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
            for prefix in ("", "no-"):
                for member in source.getmembers():
                    content = source.extractfile(member).read()
                    if prefix and member.name.endswith(".json"):
                        sample = json.loads(content)
                        content = json.dumps(dict(sample, labels=[-100] * len(sample["labels"]))).encode()
                    info = tarfile.TarInfo(prefix + member.name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        return self.path("data.tar")

    def check_chain(self, layouts):
        """Read by one layout and written again by the next, behind a step without a label: the same values and moments."""
        data = self.unlabeled()

        def steps(count, learns):
            keys = [[key for group in groups for key in group] for groups in self.steps[:3]]
            if not learns: # other groups, which are read from their beginning
                keys = [["no-" + key for key in keys[0]]] * 3
            return self.write_steps([[step[i::count] for i in range(count)] for step in keys])

        before, expected = None, None
        for number, (program, groups) in enumerate(layouts):
            with self.subTest(before=before, program=program):
                resume = ("--resume", self.path(f"{before}.ck")) if before else ()
                self.run_tool(*resume, "--checkpoint", self.path(f"{program}.ck"), "--save", self.path(f"{program}.saved"), "--steps",
                              str(3 + number), "--lr", "1e-2", program=program, steps=steps(groups, not before), data=data)
                self.assertEqual(self.checkpoints(f"{program}.ck"), [3 + number])
                found = self.named(self.tensors(f"{program}.ck"))
                expected = expected or found
                self.assertTrue(found == expected, f"{program} has other values or moments than {before}")
                self.assertEqual(self.weights(f"{program}.saved"), self.weights(f"{layouts[0][0]}.saved"))
            before = program
        return expected


class Zero(ChainCase):
    layouts = {name + ending: flags + more for name, flags in
               {"two": layout(1, 2), "three": layout(1, 3), "deep": layout(2, 2), "frozen": layout(2, 3, "--freeze", "vision"),
                "four": layout(1, 4, groups=8), "planned": layout(2, 2, "--schedule", "per-step"),
                "halves": layout(2, 2, "--schedule", "zb-h1")}.items()
               for ending, more in (("", ()), ("-zero", ("--zero", "1")))} | {"alone": ("--microbatches", "6")}

    def test_no_bit_changes(self):
        for name, groups in (("two", 6), ("three", 6), ("four", 8), ("deep", 6), ("frozen", 6), ("planned", 6), ("halves", 6)):
            with self.subTest(program=name):
                self.assertSame(self.outcome(name, groups), self.outcome(f"{name}-zero", groups, "--threads", "2"), name)

    def test_however_ranks_are_started(self):
        for name, groups, ranks in (("two-zero", 6, 2), ("deep-zero", 6, 4), ("frozen-zero", 6, 6)):
            threads = self.outcome(name, groups)
            for launch in ("mpirun", "tcp"):
                with self.subTest(program=name, launch=launch):
                    self.assertSame(threads, self.outcome(name, groups, ranks=ranks, launch=launch), f"{name} by {launch}")

    def test_a_run_goes_on_from_its_checkpoint(self):
        whole = self.outcome("deep-zero", 6)
        self.outcome("deep-zero", 6, "--steps", "2")
        with open(self.path("run.jsonl")) as file:
            self.assertEqual(len(file.readlines()), 2)
        steps = self.groups(6)
        self.run_tool("--checkpoint", self.path("run.ck"), "--resume", "auto", "--save", self.path("later.saved"), "--lr", "1e-3", "--clip",
                      "0.5", "--log", self.path("run.jsonl"), program="deep-zero", steps=steps)
        self.assertEqual((self.log("run.jsonl"), self.weights("later.saved"), self.tensors("run.ck")), whole[:3])

    def test_checkpoints_do_not_tell(self):
        found = self.check_chain((("two-zero", 6), ("two", 6), ("three-zero", 6), ("deep-zero", 6), ("four-zero", 8), ("alone", 6),
                                  ("halves-zero", 6)))
        self.assertTrue(any(any(value) for name, value in found.items() if name.startswith("moment2/")))

    def test_checkpoints_without_a_copy_in_memory(self):
        staged = self.outcome("deep-zero", 6)
        self.assertSame(staged, self.outcome("deep-zero", 6, "--checkpoint-buffer", "0"), "no buffer")

    def test_steps_without_a_number_are_skipped(self):
        self.assertEqual(self.skipping("two"), self.skipping("two-zero"))

    def skipping(self, program):
        """Weights of which one is not a number make no step possible: all are skipped, and nothing changes."""
        weights = self.path("bad.safetensors")
        with open(f"{MODEL}/model.safetensors", "rb") as file:
            content = bytearray(file.read())
        content[-4:] = b"\x00\x00\xc0\x7f"
        with open(weights, "wb") as file:
            file.write(content)
        said = self.run_tool("--skip-nonfinite", "2", "--log", self.path("skip.jsonl"), program=program, steps=self.groups(6, 3),
                             weights=weights, code=1)
        self.assertIn("more than --skip-nonfinite 2", said)
        with open(self.path("skip.jsonl")) as file:
            return [json.loads(line)["skipped"] for line in file]

    def test_persistent_memory(self):
        """By hand: values and gradients of a float32 parameter are 8 bytes, and its moments 8 / 2 with two replicas."""
        def stages_of(program):
            with open(f"{self.programs}/{program}/stages.json") as file:
                return json.load(file)

        for name, replicas in (("two", 2), ("three", 3), ("deep", 2)):
            for whole, shares in zip(stages_of(name), stages_of(f"{name}-zero")):
                trained = []
                for parameter in whole["parameters"]:
                    count = 1
                    for size in parameter["shape"]:
                        count *= size
                    trained.append(count if parameter["trainable"] else 0)
                states = 0
                for bucket in shares["buckets"]:
                    blocks = -(-sum(trained[i] for i in bucket["parameters"]) // BLOCK)
                    largest = max(b - a for a, b in zip(bucket["bounds"], bucket["bounds"][1:]))
                    self.assertLessEqual(largest, -(-blocks // replicas) * BLOCK)
                    states += 2 * 4 * largest
                moments = 2 * 4 * sum(trained)
                saved = whole["persistent_bytes"] - shares["persistent_bytes"]
                self.assertLess(abs(saved - (moments - states)), 64 * 2 * len(trained) + 64 * 2 * len(shares["buckets"]))
                # To the alignment: at most a block a bucket more than the quotient.
                self.assertLessEqual(states, moments / replicas + 2 * 4 * BLOCK * len(shares["buckets"]))
                self.assertLess(shares["arena_bytes"], whole["arena_bytes"])

    def test_one_replica_has_nothing_to_divide(self):
        result = subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", "--zero", "1", "-o",
                                 self.path("p")], stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--zero is 1 with 1 data-parallel replicas", result.stderr)


def more_state(*flags):
    """Programs whose optimizer keeps something else than two moments."""
    return {"alone": ("--microbatches", "6", *flags), "deep": layout(2, 1, *flags), "three": layout(1, 3, *flags),
            "three-zero": layout(1, 3, "--zero", "1", *flags), "deep-zero": layout(2, 2, "--zero", "1", *flags)}


class Averages(ChainCase):
    """Moving averages are divided, kept and read like moments."""
    layouts = more_state("--ema")

    def test_no_bit_changes(self):
        whole = self.outcome("three", 6)
        self.assertSame(whole, self.outcome("three-zero", 6, "--threads", "2"), "averages")
        names = self.named(whole[2])
        self.assertEqual({name[8:] for name in names if name.startswith("average/")}, {name[7:] for name in names if name.startswith("weight/")})

    def test_saved_averages_are_the_checkpoints(self):
        for program in ("alone", "three-zero", "deep-zero"):
            self.outcome(program, 6, "--save-ema", self.path("run.averages"), "--save-dtype", "float32", "--ema-decay", "0.7")
            stored, saved = self.named(self.tensors("run.ck")), self.named({"": self.bytes("run.averages/model.safetensors")})
            for name, value in stored.items():
                if name.startswith("average/"):
                    self.assertTrue(value == saved[name[8:]], (program, name))
                    self.assertTrue(value != stored["weight/" + name[8:]], (program, name))
            # The trained values are saved as ever.
            for name, value in self.named({"": self.bytes("run.saved/model.safetensors")}).items():
                self.assertTrue(value == stored.get("weight/" + name, value), (program, name))

    def test_checkpoints_do_not_tell(self):
        found = self.check_chain((("three-zero", 6), ("three", 6), ("alone", 6), ("deep-zero", 6), ("deep", 6)))
        self.assertTrue(any(found[name] != found["weight/" + name[8:]] for name in found if name.startswith("average/")))

    def test_persistent_memory(self):
        """By hand: values and gradients are 8 bytes a parameter, and moments and averages 12, or 12 / 3 with three replicas."""
        for program, replicas in (("alone", 1), ("three-zero", 3)):
            with open(f"{self.programs}/{program}/stages.json") as file:
                (stage,) = json.load(file)
            parameters, shares = stage["parameters"], stage["buckets"] if replicas > 1 else []
            self.assertTrue(all("average" in part for part in shares or parameters))
            trained = sum(math.prod(q["shape"]) for q in parameters)
            rounding = 64 * (5 * len(parameters) + len(stage["constants"])) + 8 * sum(math.prod(c["shape"]) for c in stage["constants"])
            self.assertLessEqual(abs(stage["persistent_bytes"] - (8 + 12 / replicas) * trained), rounding + 12 * BLOCK * len(shares))


class Coded(ChainCase):
    """Moments of 8 bits, in blocks that no share cuts."""
    layouts = more_state("--optimizer", "adamw8bit")

    def test_no_bit_changes(self):
        whole = self.outcome("three", 6)
        self.assertSame(whole, self.outcome("three-zero", 6, "--threads", "2"), "moments of 8 bits")
        names = self.named(whole[2])
        for name, codes in names.items():
            if name.startswith("moment"):
                kind, parameter = name.split("/", 1)
                elements = len(names["weight/" + parameter]) // 4
                self.assertEqual(len(codes), 4 * -(-elements // 256) if kind.endswith("_scales") else elements, name)
        self.assertEqual(sum(name.startswith("moment2_scales/") for name in names), sum(name.startswith("weight/") for name in names))

    def test_checkpoints_do_not_tell(self):
        found = self.check_chain((("three-zero", 6), ("three", 6), ("alone", 6), ("deep-zero", 6), ("deep", 6)))
        self.assertTrue(all(any(value) for name, value in found.items() if name.startswith("moment1_scales/model.language_model.layers")))

    def test_shares_have_whole_blocks(self):
        with open(f"{self.programs}/three-zero/stages.json") as file:
            (stage,) = json.load(file)
        for bucket in stage["buckets"]:
            elements = sum(-(-math.prod(stage["parameters"][i]["shape"]) // 256) * 256 for i in bucket["parameters"])
            self.assertEqual(bucket["bounds"][-1], elements)
            largest = max(b - a for a, b in zip(bucket["bounds"], bucket["bounds"][1:]))
            self.assertEqual(bucket["offsets"][1] - bucket["offsets"][0], -(-(-(-largest // 4096) * 64 + largest) // 64) * 64)


class Tied(TiedCase):
    """The same where two stages have copies of one parameter: their gradients add up first."""
    layouts = {"tied": layout(2, 2), "tied-zero": layout(2, 2, "--zero", "1")}

    def test_no_bit_changes(self):
        self.assertSame(self.outcome("tied", 6), self.outcome("tied-zero", 6), "tied")

    def test_however_ranks_are_started(self):
        self.assertSame(self.outcome("tied-zero", 6), self.outcome("tied-zero", 6, ranks=4, launch="mpirun"), "tied")

    def test_a_run_goes_on_from_its_checkpoint(self):
        whole = self.outcome("tied-zero", 6)
        self.outcome("tied-zero", 6, "--steps", "2")
        self.run_tool("--checkpoint", self.path("run.ck"), "--resume", "auto", "--save", self.path("later.saved"), "--lr", "1e-3", "--clip",
                      "0.5", "--log", self.path("run.jsonl"), program="tied-zero", steps=self.groups(6))
        self.assertEqual((self.log("run.jsonl"), self.weights("later.saved"), self.tensors("run.ck")), whole[:3])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
