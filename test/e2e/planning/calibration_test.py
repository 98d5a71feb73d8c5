#!/usr/bin/env python3
"""omnibal-run --calibrate and omnibal-compile --calibration as users call them: calibration_test.py BIN_FOLDER DATA_FOLDER

Structure and sanity; how accurate predictions are is for test/bench/plan_accuracy on a quiet machine.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")
TILES, TOKENS = 24, 420
TERMS = ("fixed_ns", "tile_ns", "token_ns", "square_ns", "label_ns")
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def call(*command, environment=ENVIRONMENT):
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                          env=environment)


def read(path):
    with open(path) as file:
        return json.load(file)


def read_groups(folder):
    """Lists of sample numbers from the two files of int64 that omnibal-batch writes."""
    numbers = []
    for name in ("samples.npy", "groups.npy"):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        body = data[10 + struct.unpack("<H", data[8:10])[0]:]
        numbers.append(struct.unpack(f"<{len(body) // 8}q", body))
    return [numbers[0][begin:end] for begin, end in zip(numbers[1], numbers[1][1:])]


class Calibration(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-calibration-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.compile("keep", "--remat", "none", "--partition", "layers")
        result = call(os.path.join(BIN, "omnibal-run"), cls.path("keep"), "--calibrate", cls.path("keep.json"), "--threads",
                      1, "--data", os.path.join(MODEL, "data-000000.tar"), environment=dict(ENVIRONMENT, OMNIBAL_GUARD="1"))
        assert result.returncode == 0, result.stderr
        cls.table = read(cls.path("keep.json"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.work, name)

    @classmethod
    def compile(cls, name, *flags, expect=0, tiles=TILES):
        output = ["-o", cls.path(name)] if name else ["--dry-run"]
        result = call(os.path.join(BIN, "omnibal-compile"), os.path.join(MODEL, "model.onnx"), "--tiles", tiles, "--tokens", TOKENS,
                      "--stages", 2, *flags, *output)
        assert result.returncode == expect, result.stderr
        return result

    def functions(self):
        """By digest, those of the program that a training step calls."""
        functions = read(self.path("keep/functions.json"))
        used = {call["function"] for stage in read(self.path("keep/stages.json")) for chunk in stage["modes"]["train"]["chunks"]
                for kind in ("forward", "backward", "input_grad", "weight_grad") for call in chunk[kind]}
        return {functions[i]["digest"]: functions[i] for i in used if functions[i]["digest"]}

    def test_every_function_of_a_step_is_measured(self):
        measured = {entry["digest"]: entry for entry in self.table["functions"]}
        self.assertEqual(measured.keys(), self.functions().keys())
        for digest, function in self.functions().items():
            entry = measured[digest]
            self.assertEqual(entry["name"], function["name"])
            self.assertEqual(len(entry["measured"]), 6)
            for tiles, tokens, squares, labels, ns in entry["measured"]:
                self.assertTrue(0 < tiles <= TILES and 0 < tokens <= TOKENS and 0 <= labels <= tokens and ns > 0, entry)
                self.assertTrue(tokens <= squares <= tokens * tokens)
            self.assertTrue(all(entry[term] >= 0 for term in TERMS) and any(entry[term] > 0 for term in TERMS), entry)

    def test_terms_are_those_that_a_function_can_have(self):
        entries = {entry["layer"] + " " + entry["name"].split(".")[-1]: entry for entry in self.table["functions"]}
        for start, zero in (("vision", ("token_ns", "square_ns", "label_ns")), ("language.layers", ("tile_ns", "label_ns"))):
            names = [name for name in entries if name.startswith(start)]
            self.assertGreaterEqual(len(names), 2, f"forward and backward of {start}")
            for name in names:
                self.assertEqual([entries[name][term] for term in zero], [0] * len(zero), name)

    def test_facts_about_machine_and_data(self):
        table = self.table
        self.assertEqual(table["schema"], "omnibal.calibration/1")
        self.assertEqual((table["program"]["stages"], table["program"]["threads"]), (2, 1))
        self.assertGreaterEqual(table["machine"]["cores"], 1)
        self.assertTrue(0 < table["labels_per_token"] < 1)
        for link in ("link", "data_parallel"):
            self.assertTrue(table[link]["latency_ns"] >= 0 and table[link]["bytes_per_s"] > 0)
        self.assertTrue(0 <= table["noise"] < 10 and table["action_ns"] >= 0)

    def problem(self, *flags, **options):
        result = self.compile(None, *flags, "--emit-problem", self.path("problem.json"), **options)
        return read(self.path("problem.json")), result

    def test_a_problem_holds_the_measured_times(self):
        problem, result = self.problem("--calibration", self.path("keep.json"), "--remat", "none")
        self.assertIn("the machine measured", result.stdout)
        self.assertNotIn("notice", result.stderr)
        entries = {entry["name"]: entry for entry in self.table["functions"]}
        head = next(entry for name, entry in entries.items() if name.startswith("head") and name.endswith("backward"))
        labels = self.table["labels_per_token"] * TOKENS
        expected = (head["fixed_ns"] + head["tile_ns"] * TILES + head["token_ns"] * TOKENS + head["square_ns"] * TOKENS ** 2 +
                    head["label_ns"] * labels)
        layer = problem["layers"][-1]
        self.assertAlmostEqual(layer["input_grad_ns"] + layer["weight_grad_ns"], expected, delta=2)
        self.assertEqual(problem["cluster"]["link"], self.table["link"])

    def test_factors_of_real_loads_are_ratios_of_measured_times(self):
        lengths = [(2, 60), (0, 200), (1, 90), (3, 110), (0, 40), (1, 300)]
        with open(self.path("lengths.csv"), "w") as file:
            file.write("vit_num,token_num\n" + "".join(f"{tiles},{tokens}\n" for tiles, tokens in lengths))
        result = call(os.path.join(BIN, "omnibal-batch"), self.path("lengths.csv"), "--tiles", TILES, "--tokens", TOKENS, "--ranks", 1,
                      "-o", self.path("batches"))
        self.assertEqual(result.returncode, 0, result.stderr)
        groups = read_groups(self.path("batches"))
        problem, _ = self.problem("--calibration", self.path("keep.json"), "--remat", "none", "--batches", self.path("batches"),
                                  "--microbatches", len(groups))
        entries = [entry for entry in self.table["functions"] if entry["name"].startswith("head")]

        def time(tokens, squares):
            return sum(e["fixed_ns"] + e["token_ns"] * tokens + e["square_ns"] * squares +
                       e["label_ns"] * self.table["labels_per_token"] * tokens for e in entries)
        mean_square = sum(n * n for _, n in lengths) / sum(n for _, n in lengths)
        for factors, group in zip(problem["microbatches"], groups, strict=True):
            tokens, squares = sum(lengths[i][1] for i in group), sum(lengths[i][1] ** 2 for i in group)
            expected = time(tokens, squares) / time(TOKENS, mean_square * TOKENS)
            self.assertAlmostEqual(factors["head"], expected, delta=0.002)

    def test_other_cuts_schedules_and_caps_find_their_layers(self):
        times = []
        for flags in (("--partition", "layers"), ("--partition", "parameters", "--schedule", "gpipe", "--microbatches", 8)):
            problem, result = self.problem("--calibration", self.path("keep.json"), "--remat", "none", *flags)
            self.assertNotIn("notice", result.stderr)
            times.append([layer["forward_ns"] for layer in problem["layers"]])
        self.assertEqual(*times)
        larger, result = self.problem("--calibration", self.path("keep.json"), "--remat", "none", tiles=48)
        self.assertNotIn("notice", result.stderr)
        self.assertGreater(larger["layers"][1]["forward_ns"], times[0][1])

    def test_what_was_not_measured_is_said(self):
        _, result = self.problem("--calibration", self.path("keep.json"), "--remat", "full")
        self.assertIn("have no measured times for full", result.stderr)
        _, result = self.problem("--calibration", self.path("keep.json"), "--remat", "none", "--freeze", "vision")
        self.assertIn("notice", result.stderr)  # nothing flows back into the projector: another backward

    def test_tables_are_merged(self):
        self.compile("full", "--remat", "full", "--partition", "layers")
        result = call("mpirun", "--oversubscribe", "-n", 2, os.path.join(BIN, "omnibal-run"), self.path("full"), "--calibrate",
                      self.path("full.json"), "--threads", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        full = read(self.path("full.json"))
        self.assertEqual(full["labels_per_token"], 1)
        # What is recomputed is the difference of two measurements, and the machine may have been slower during the first.
        for entry in full["functions"]:
            entry.update({term: 10 * entry[term] for term in TERMS})
        with open(self.path("full.json"), "w") as file:
            json.dump(full, file)
        tables = ["--calibration", self.path("keep.json"), "--calibration", self.path("full.json")]
        problem, result = self.problem(*tables, "--remat", "full")
        self.assertNotIn("notice", result.stderr)
        recompute = [next(o["recompute_ns"] for o in layer["remat"] if o["name"] == "full") for layer in problem["layers"]]
        self.assertGreater(sum(recompute), 0)

    def test_a_given_link_wins(self):
        cluster = {"stages": 2, "link": {"latency_ns": 7, "bytes_per_s": 123456789}}
        with open(self.path("cluster.json"), "w") as file:
            json.dump(cluster, file)
        problem, _ = self.problem("--calibration", self.path("keep.json"), "--remat", "none", "--cluster", self.path("cluster.json"))
        self.assertEqual(problem["cluster"]["link"], cluster["link"])

    def test_errors(self):
        def message(text):
            with open(self.path("bad.json"), "w") as file:
                file.write(text)
            return self.compile(None, "--calibration", self.path("bad.json"), expect=1).stderr
        self.assertIn("bad.json: not valid JSON", message("{"))
        self.assertIn("the field \"schema\" is missing", message("{}"))
        broken = dict(self.table, functions=[dict(self.table["functions"][0], tile_ns=-1)])
        self.assertIn("functions[0].tile_ns: a number from 0.0 ", message(json.dumps(broken)))
        self.compile(None, "--calibration", self.path("no-such.json"), expect=2)
        other = self.compile(None, "--calibration", self.path("keep.json"), "--target", "cuda", "--dtype", "float32", expect=1)
        self.assertEqual(other.stderr.count("\n"), 1, other.stderr)
        self.assertIn("keep.json: these are times of a program for target host in float32, but this one is for target cuda", other.stderr)
        run = [os.path.join(BIN, "omnibal-run"), self.path("keep"), "--calibrate"]
        self.assertEqual(call(*run, self.path("t.json"), "--evaluate").returncode, 2)
        result = call(*run, os.path.join(self.path("missing"), "t.json"))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, re.escape("--calibrate"))


class OfADevice(unittest.TestCase):
    """Programs for cuda, on the emulated device."""
    FLAGS = ("--target", "cuda", "--gpu-code", "emulated", "--remat", "none")

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-calibration-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        result = cls.compile("-o", cls.path("program"), "--partition", "layers")
        assert result.returncode == 0, result.stderr
        emulated = os.path.join(os.path.dirname(os.path.abspath(BIN)), "emulated")
        result = call(os.path.join(BIN, "omnibal-run"), cls.path("program"), "--calibrate", cls.path("table.json"), "--threads", 1,
                      environment=dict(ENVIRONMENT, OMNIBAL_PLUGINS=emulated))
        assert result.returncode == 0, result.stderr
        cls.table = read(cls.path("table.json"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.work, name)

    @classmethod
    def compile(cls, *flags):
        return call(os.path.join(BIN, "omnibal-compile"), os.path.join(MODEL, "model.onnx"), "--tiles", 1, "--tokens", 24,
                    "--stages", 2, *cls.FLAGS, *(() if "--dtype" in flags else ("--dtype", "float32")), *flags)

    def plan(self, table):
        """The problem and the plan that omnibal-plan finds for it."""
        with open(self.path("used.json"), "w") as file:
            json.dump(table, file)
        result = self.compile("--calibration", self.path("used.json"), "--dry-run", "--emit-problem", self.path("problem.json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("notice", result.stderr)
        self.assertIn("predicted for the machine measured in float32", result.stdout)
        result = call(os.path.join(BIN, "omnibal-plan"), self.path("problem.json"), "-o", self.path("plan.json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        return read(self.path("problem.json")), read(self.path("plan.json"))

    def test_the_table_is_of_the_device(self):
        program = self.table["program"]
        self.assertEqual((program["target"], program["compute"], program["stages"]), ("cuda", "float32", 2))
        self.assertRegex(self.table["machine"]["processor"], "^Fake, compute capability 9.0")
        functions = read(self.path("program/functions.json"))
        used = {call["function"] for stage in read(self.path("program/stages.json"))
                for chunk in stage["modes"]["train"]["chunks"]
                for kind in ("forward", "backward", "input_grad", "weight_grad") for call in chunk[kind]}
        self.assertEqual({entry["digest"] for entry in self.table["functions"]},
                         {functions[i]["digest"] for i in used if functions[i]["digest"]})
        self.assertTrue(self.table["functions"])
        for entry in self.table["functions"]:
            self.assertTrue(any(entry[term] > 0 for term in TERMS), entry)
        for link in ("link", "data_parallel"):
            self.assertGreater(self.table[link]["bytes_per_s"], 0)

    def test_plans_are_by_it(self):
        problem, plan = self.plan(self.table)
        measured = {entry["name"]: entry for entry in self.table["functions"]}
        head = next(entry for name, entry in measured.items() if name.startswith("head") and name.endswith("backward"))
        last = problem["layers"][-1]
        expected = (head["fixed_ns"] + head["tile_ns"] + head["token_ns"] * 24 + head["square_ns"] * 24 ** 2 + head["label_ns"] * 24)
        self.assertAlmostEqual(last["input_grad_ns"] + last["weight_grad_ns"], expected, delta=2)
        self.assertEqual(problem["cluster"]["link"], self.table["link"])
        # A device on which the language layers take a hundred times as long leaves them to more than one stage.
        slower = json.loads(json.dumps(self.table))
        for entry in slower["functions"]:
            if entry["layer"].startswith("language.layers"):
                for term in TERMS:
                    entry[term] *= 100
        _, other = self.plan(slower)
        first = next(i for i, layer in enumerate(problem["layers"]) if layer["name"].startswith("language.layers"))
        self.assertGreater(other["cuts"][1], first)
        self.assertGreaterEqual(other["cuts"][1], plan["cuts"][1])
        self.assertGreater(other["step_ns"], plan["step_ns"])

    def test_what_was_measured_in_another_type_is_refused(self):
        result = self.compile("--calibration", self.path("table.json"), "--dtype", "bfloat16", "--dry-run")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("table.json: these are times of a program for target cuda in float32, but this one is for target cuda in "
                      "bfloat16; calibrate one compiled with --target cuda --dtype bfloat16", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
