#!/usr/bin/env python3
"""Fine-tuning over frozen weights in 8 and 4 bits: quantized_test.py BIN_FOLDER DATA_FOLDER

Ten steps are those of PyTorch over weights that it has quantized itself (test/scripts/quantized_reference.py), on every
layout of ranks. Bytes are counted by hand.
"""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from adapters_test import ADAPTERS, LORA, REPLICAS, TWO_STAGES, AdapterCase, compile_model, judge, optimizer, scale_of, shapes_of, stages_of  # noqa: E402
from judgement import Float32  # noqa: E402
from mode_batches import Mode, ModeCase, write_folder  # noqa: E402
from reference_losses import read_safetensors  # noqa: E402
from run_case import BIN, MODEL  # noqa: E402

with open(f"{ADAPTERS}/quantized.json", encoding="utf-8") as _file:
    REFERENCE = json.load(_file)
INT8, NF4 = (tuple(REFERENCE[name]["flags"]) for name in ("int8", "nf4"))
BELOW = ("--quantize-frozen", "nf4")  # adapters
DORA = (*LORA, "--dora")
DEVICE = ("--target", "cuda", "--gpu-code", "emulated", "--dtype")


def aligned(bytes_):
    return (bytes_ + 63) // 64 * 64


def stored_bytes(kind, rows, columns):
    scales, codes = (rows, rows * columns) if kind == "int8" else (-(-rows * columns // 64), -(-rows * columns // 2))
    return 4 * (scales + -(-codes // 4))


def quantized_of(stage):
    return {q["name"]: q["quantized"] for q in stage["parameters"] if "quantized" in q}


class Training(AdapterCase):
    layouts = {f"{kind}-{name}": flags + more for kind, flags in (("int8", INT8), ("nf4", NF4))
               for name, more in (("one", ()), ("two", TWO_STAGES), ("recomputed", ("--remat", "full")),
                                  ("shares", (*TWO_STAGES, *REPLICAS, "--zero", "1")))} | {
        "int8-halves": (*INT8, *TWO_STAGES, "--schedule", "zb-h1"), "nf4-planned": (*NF4, *TWO_STAGES, "--schedule", "per-step"),
        "nf4-together": (*NF4, "--model-parallel", "2", "--layouts", "none")}

    def test_ten_steps_are_those_over_weights_that_pytorch_has_quantized(self):
        for program in self.layouts:
            kind, layout = program.split("-")
            start = REFERENCE[kind]["start"]
            with self.subTest(program=program):
                self.run_tool(*optimizer(), "--adapter", f"{ADAPTERS}/{start}", "--save", self.path("saved"), "--log", self.path("log.jsonl"),
                              program=program)
                judge(self, start, self.path("log.jsonl"), self.path("saved"), program, REFERENCE[kind])

    def test_the_weights_that_are_meant_are_quantized(self):
        for program in self.layouts:
            kind = program.split("-")[0]
            found = {}
            for stage in stages_of(f"{self.programs}/{program}"):
                found |= quantized_of(stage)
            self.assertEqual(found, dict.fromkeys(REFERENCE[kind]["weights"], kind), program)


class Modes(ModeCase):
    MODEL = MODEL

    def test_training_modes_share_their_weights(self):
        modes = [Mode(kind, count, self.samples, 1) for kind, count in (("short", 4), ("long", 2))]
        write_folder(self.path("batches"), self.samples, modes, [0, 1] * 5, stages=2)
        flags = ["--stages", "2", *INT8, "--batches", self.path("batches"), "-o", self.path("program")]
        subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", *flags], check=True, stdout=subprocess.DEVNULL)
        flags = ["--weights", f"{MODEL}/model.safetensors", "--data", self.shard, "--preprocess", f"{MODEL}/preprocessor_config.json",
                 "--batches", self.path("batches"), *map(str, optimizer()), "--adapter", f"{ADAPTERS}/{REFERENCE['int8']['start']}",
                 "--log", self.path("log.jsonl"), "--save", self.path("saved")]
        subprocess.run([f"{BIN}/omnibal-run", self.path("program"), *flags], check=True, stderr=subprocess.DEVNULL)
        judge(self, REFERENCE["int8"]["start"], self.path("log.jsonl"), self.path("saved"), "two training modes", REFERENCE["int8"])


class Memory(AdapterCase):
    layouts = {"whole": LORA, "int8": (*LORA, "--quantize-frozen", "int8"), "nf4": (*LORA, *BELOW), "nf4-two": (*LORA, *BELOW, *TWO_STAGES),
               "whole-two": (*LORA, *TWO_STAGES), "wide": NF4}

    def test_bytes_of_the_arena_fall_by_those_of_the_weights(self):
        for program, whole in (("int8", "whole"), ("nf4", "whole"), ("nf4-two", "whole-two"), ("wide", "whole")):
            for quantized, plain in zip(*(stages_of(f"{self.programs}/{name}") for name in (program, whole)), strict=True):
                kinds, saved = quantized_of(quantized), 0
                self.assertEqual(len(quantized["parameters"]), len(plain["parameters"]))
                for a, b in zip(quantized["parameters"], plain["parameters"], strict=True):
                    self.assertEqual((a["name"], a["shape"], a["trainable"]), (b["name"], b["shape"], b["trainable"]))
                    if a["name"] in kinds:
                        self.assertEqual((a["dtype"], b["dtype"]), ("i32", "f32"))
                        saved += aligned(4 * math.prod(a["shape"])) - aligned(stored_bytes(kinds[a["name"]], *a["shape"]))
                self.assertGreater(saved, 0)
                self.assertEqual(plain["persistent_bytes"] - quantized["persistent_bytes"], saved)

    def test_what_the_compiler_says(self):
        done = compile_model(*LORA, *BELOW)
        self.assertEqual(done.returncode, 0, done.stderr)
        shapes = shapes_of(f"{MODEL}/model.safetensors")
        weights = [shapes[name.replace(".lora_A", "").removeprefix("base_model.model.")]
                   for name in shapes_of(f"{ADAPTERS}/lora/adapter_model.safetensors") if ".lora_A" in name]
        numbers, bytes_ = sum(map(math.prod, weights)), sum(stored_bytes("nf4", *shape) for shape in weights)
        self.assertIn(f"quantized: 42 frozen weights with {numbers:,} numbers in nf4 take {bytes_:,} bytes, and as float32 {4 * numbers:,}\n", done.stdout)
        self.assertNotIn("quantized", compile_model(*LORA).stdout)
        printed = subprocess.run([f"{BIN}/omnibal-run", f"{self.programs}/nf4", "--print"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertRegex(printed, r"layers\.0\.mlp\.down_proj\.weight nf4 \[64, 116\] frozen")

    def test_plans_under_a_limit_count_the_smaller_weights(self):
        arena = {program: stages_of(f"{self.programs}/{program}")[0]["arena_bytes"] for program in ("whole", "nf4")}
        limit = ("--memory-limit-bytes", str((arena["whole"] + arena["nf4"]) // 2), "--remat", "none")
        self.assertEqual(compile_model(*LORA, *BELOW, *limit).returncode, 0)
        self.assertNotEqual(compile_model(*LORA, *limit).returncode, 0)


class Values(AdapterCase):
    layouts = {"one": (*LORA, *BELOW), "two": (*LORA, *BELOW, *TWO_STAGES), "replicas": (*LORA, *BELOW, *REPLICAS), "whole": LORA,
               "frozen": ("--freeze", "language", "--quantize-frozen", "int8", "--quantize-match", "language_model")}

    def log(self):
        with open(self.path("log.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_merging_adds_adapters_to_the_weights_as_they_are(self):
        flags = (*optimizer(), "--steps", 2, "--adapter", f"{ADAPTERS}/lora")
        self.run_tool(*flags, "--save", self.path("saved"))
        self.run_tool(*flags, "--save", self.path("merged"), "--merge-adapters")
        base, merged = read_safetensors(f"{MODEL}/model.safetensors"), read_safetensors(self.path("merged/model.safetensors"))
        adapters, shapes = read_safetensors(self.path("saved/adapter_model.safetensors")), shapes_of(f"{MODEL}/model.safetensors")
        scale, changed = scale_of(self.path("saved")), set()
        for name, a in adapters.items():
            if ".lora_A" not in name:
                continue
            weight, b = name.removeprefix("base_model.model.").replace(".lora_A", ""), adapters[name.replace("lora_A", "lora_B")]
            rows, columns = shapes[weight]
            rank = len(a) // columns
            changed.add(weight)
            for row in range(0, rows, 13):
                for column in range(0, columns, 7):
                    sum_ = sum(b[row * rank + r] * a[r * columns + column] for r in range(rank))
                    self.assertAlmostEqual(merged[weight][row * columns + column], base[weight][row * columns + column] + scale * sum_, delta=1e-6)
        self.assertEqual(len(changed), 42)
        self.assertEqual({name for name in base if base[name] != merged[name]}, changed)

    def test_a_run_goes_on_from_its_checkpoint_and_says_that_weights_were_others(self):
        whole = self.saved("--steps", 4, "--checkpoint", self.path("a"), "--checkpoint-every", 2, "--keep-every", 2)
        for program in ("one", "two", "replicas"):
            again = self.saved("--steps", 4, "--resume", self.path("a/step-00000002"), program=program)
            if program == "one":
                self.assertEqual(whole, again)
        said = self.run_tool(*optimizer(), "--steps", 4, "--resume", self.path("a/step-00000002"), program="whole")
        self.assertIn('quantized "42 weights in nf4" -> "none"', said)
        self.run_tool(*optimizer(), "--steps", 2, "--checkpoint", self.path("b"), program="whole")
        said = self.run_tool(*optimizer(), "--steps", 3, "--resume", self.path("b"))
        self.assertIn('quantized "none" -> "42 weights in nf4"', said)

    def test_loading_is_deterministic(self):
        one = self.saved("--steps", 2)
        self.assertEqual(one, self.saved("--steps", 2, "--threads", 2))
        self.assertEqual(one, self.saved("--steps", 2, program="two"))

    def test_frozen_weights_without_adapters(self):
        self.run_tool(*optimizer(), "--steps", 2, "--log", self.path("log.jsonl"), program="frozen")
        with open(f"{MODEL}/reference.json") as file:
            steps = json.load(file)["variants"]["train_all"]["steps"]
        # The loss of the model itself, but for what eight bits lose.
        self.assertAlmostEqual(self.log()[0]["loss"], float(steps[0]["loss_float64"]), delta=0.01)
        self.assertNotEqual(self.log()[0]["loss"], float(steps[0]["loss_float64"]))

    def test_numbers_that_are_not_finite_are_refused_by_name(self):
        name = "model.language_model.layers.2.mlp.up_proj.weight"
        for bad, word in ((math.nan, "nan"), (-math.inf, "-inf")):
            broken = self.path("model.safetensors")
            shutil.copy(f"{MODEL}/model.safetensors", broken)
            with open(broken, "r+b") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                begin = json.loads(file.read(length))[name]["data_offsets"][0]
                file.seek(8 + length + begin + 4 * (5 * 64 + 9))
                file.write(struct.pack("<f", bad))
            said = self.run_tool("--steps", 1, weights=broken, code=1)
            self.assertRegex(said, re.escape(f'parameter "{name}": the number in row 5, column 9 is {word}, and nf4 stores finite numbers only'))


class Graphs(AdapterCase):
    layouts = {}

    def test_weights_that_an_exporter_has_transposed(self):
        saved = {}
        for graph in ("model.onnx", "model-optimized.onnx"):
            done = compile_model(*LORA, *BELOW, "--weights", MODEL, graph=graph, output=f"{self.programs}/{graph}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.run_tool(*optimizer(), "--steps", 2, "--adapter", f"{ADAPTERS}/lora", "--save", self.path("saved"), program=graph)
            saved[graph] = read_safetensors(self.path("saved/adapter_model.safetensors"))
        one, other = saved.values()
        for name, values in one.items():
            for a, b in zip(values, other[name], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=name)


class Emulated(AdapterCase):
    """Programs of target cuda on the emulated device, where a kernel of their own makes numbers of the codes."""
    layouts = {"int8-float32": (*INT8, *DEVICE, "float32"), "nf4-bfloat16": (*NF4, *TWO_STAGES, *DEVICE, "bfloat16"),
               "dora-host": (*DORA, *BELOW), "dora-device": (*DORA, *BELOW, *DEVICE, "float32")}

    def first_steps(self, program, steps, *flags):
        self.run_tool(*optimizer(), "--steps", steps, "--log", self.path("log.jsonl"), *flags, program=program)
        with open(self.path("log.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_first_steps_are_those_over_weights_that_pytorch_has_quantized(self):
        for program, steps in (("int8-float32", 2), ("nf4-bfloat16", 1)):
            kind, numbers = program.split("-")
            log = self.first_steps(program, steps, "--adapter", f"{ADAPTERS}/{REFERENCE[kind]['start']}")
            for entry, step in zip(log, REFERENCE[kind]["steps"][:steps], strict=True):
                for what, most in (("loss", 5e-4), ("grad_norm", 3e-2)):
                    with self.subTest(kind=kind, numbers=numbers, what=what):
                        if numbers == "float32":
                            self.assertLessEqual(Float32.of_number(entry[what], step, what), 1)
                        else:
                            expected = float(step[what + "_float64"])
                            self.assertLessEqual(abs(entry[what] - expected), most * expected)

    def test_magnitudes_over_codes_are_those_of_the_host(self):
        host, device = (self.first_steps(program, 1) for program in ("dora-host", "dora-device"))
        for one, other in zip(host, device, strict=True):
            for what in ("loss", "grad_norm"):
                self.assertAlmostEqual(one[what], other[what], delta=1e-5 * one[what])


class Errors(AdapterCase):
    layouts = {"one": (*LORA, *BELOW)}

    def test_flags_of_the_compiler(self):
        for flags, code, says in (
                ((*LORA, *BELOW, "--model-parallel", "2"), 2, "--quantize-frozen does not go together with --model-parallel"),
                (BELOW, 2, "--quantize-frozen needs --lora"),
                ((*LORA, "--quantize-match", "q_proj"), 2, "--quantize-match needs --quantize-frozen"),
                ((*LORA, *BELOW, "--quantize-match", ""), 2, "--quantize-match is empty"),
                ((*LORA, "--quantize-frozen", "fp4"), 2, "--quantize-frozen"),
                ((*LORA, *BELOW, "--quantize-match", "("), 1, "is not a regular expression"),
                ((*LORA, *BELOW, "--quantize-match", "resampler"), 1, "no frozen weight of a linear layer matches 'resampler'"),
                ((*BELOW, "--quantize-match", "q_proj"), 1, "no frozen weight of a linear layer matches 'q_proj'; those that match train")):
            with self.subTest(flags=flags):
                done = compile_model(*flags)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)
        done = compile_model(*LORA, *BELOW, "--quantize-match", "language_model")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 frozen parameters match 'language_model' but stay as they are, because not linear layers alone read them: "
                      "'model.language_model.embed_tokens.weight'", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
