#!/usr/bin/env python3
"""omnibal-compile and omnibal-run as users call them: tools_test.py BIN_FOLDER DATA_FOLDER QUICKSTART_FOLDER [unittest options]"""
import concurrent.futures
import filecmp
import json
import math
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from reference_losses import read_safetensors  # noqa: E402

BIN, DATA, QUICKSTART = sys.argv[1:4]
ELEMENTWISE = {"add", "sub", "mul", "div", "neg", "exp", "sqrt", "rsqrt", "reciprocal", "erf", "tanh", "sigmoid", "gelu",
               "silu", "quick_gelu", "gelu_grad", "silu_grad", "quick_gelu_grad", "select", "pow", "cast", "max", "min"}


def call(tool, *arguments, check=True, launcher=()):
    command = [*launcher, os.path.join(BIN, tool), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if check and result.returncode != 0:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-e2e-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def compile(self, name="program", model="tiny-internvl", graph="model.onnx", tiles=24, tokens=420, **options):
        flags = [part for key, value in options.items() for part in ("--" + key.replace("_", "-"), value)]
        result = call("omnibal-compile", os.path.join(DATA, model, graph), "--tiles", tiles, "--tokens", tokens, *flags,
                      "-o", self.path(name))
        return result.stdout

    def steps_file(self, model, count):
        with open(os.path.join(DATA, model, "reference.json")) as file:
            steps = json.load(file)["variants"]["train_all"]["steps"][:count]
        with open(self.path("steps.jsonl"), "w") as file:
            for step in steps:
                file.write(json.dumps({"groups": step["groups"]}) + "\n")
        return self.path("steps.jsonl")

    def train(self, name="program", model="tiny-internvl", steps=3, launcher=(), **options):
        folder = os.path.join(DATA, model)
        flags = [part for key, value in options.items() for part in ("--" + key.replace("_", "-"), value)]
        log = self.path(f"{name}.jsonl")
        call("omnibal-run", self.path(name), "--weights", f"{folder}/model.safetensors", "--data",
             f"{folder}/data-000000.tar", "--preprocess", f"{folder}/preprocessor_config.json", "--steps-file",
             self.steps_file(model, steps), "--lr", "1e-3", "--log", log, *flags, launcher=launcher)
        with open(log) as file:
            return [json.loads(line) for line in file]


class Determinism(ToolTest):
    def test_compiling_twice_gives_the_same_bytes(self):
        for name in ("one", "two"):
            self.compile(name, stages=2)
        names = sorted(os.listdir(self.path("one")))
        self.assertEqual(names, sorted(os.listdir(self.path("two"))))
        _, different, errors = filecmp.cmpfiles(self.path("one"), self.path("two"), names, shallow=False)
        self.assertEqual((different, errors), ([], []))

    def test_threads_processes_and_thread_counts_agree_bit_by_bit(self):
        self.compile(stages=2, data_parallel=2, microbatches=2)
        mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4")
        runs = []
        for number, (launcher, threads) in enumerate([((), 1), ((), 1), ((), 3), (mpirun, 1)]):
            log = self.train(launcher=launcher, threads=threads, save=self.path(f"saved{number}"))
            with open(self.path(f"saved{number}/model.safetensors"), "rb") as file:
                runs.append(([(e["loss"], e["grad_norm"]) for e in log], file.read()))
        for other in runs[1:]:
            self.assertEqual(runs[0][0], other[0])
            self.assertTrue(runs[0][1] == other[1], "the saved weights differ")


    def test_several_chunks_and_split_backwards_repeat_and_resume_bit_by_bit(self):
        def weights(name):
            with open(self.path(f"{name}/model.safetensors"), "rb") as file:
                return file.read()

        for schedule in ("interleaved:2", "zb-h1"):
            with self.subTest(schedule=schedule):
                self.compile(stages=2, schedule=schedule, partition="layers")
                whole = [e["loss"] for e in self.train(steps=4, save=self.path("whole"))]
                mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
                again = [e["loss"] for e in self.train(steps=4, launcher=mpirun, save=self.path("again"))]
                self.assertEqual(whole, again)
                checkpoints = self.path("checkpoints-" + schedule)
                self.train(steps=4, checkpoint=checkpoints, checkpoint_every=2)
                shutil.rmtree(os.path.join(checkpoints, "step-00000004"))
                resumed = [e["loss"] for e in self.train(steps=4, resume=checkpoints, save=self.path("resumed"))]
                self.assertEqual(whole[2:], resumed[-2:])
                self.assertTrue(weights("whole") == weights("again") == weights("resumed"), "the saved weights differ")


class Forward(ToolTest):
    def test_logits_equal_pytorch(self):
        for model in ("tiny-internvl", "tiny-llava"):
            for graph, stages in (("model.onnx", 1), ("model-opset23.onnx", 2)):
                self.compile(model=model, graph=graph, stages=stages)
                samples = self.samples(os.path.join(DATA, model, "forward.safetensors"))
                self.assertGreaterEqual(len(samples), 4)
                for sample, tensors in samples.items():
                    with self.subTest(model=model, graph=graph, sample=sample):
                        self.check(model, tensors)

    @staticmethod
    def samples(path):
        """sample -> {name: (dtype, shape, bytes)} of a file whose tensors are called SAMPLE.NAME."""
        result = {}
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            for name, entry in header.items():
                if name == "__metadata__":
                    continue
                sample, tensor = name.split(".", 1)
                begin, end = entry["data_offsets"]
                file.seek(8 + length + begin)
                result.setdefault(sample, {})[tensor] = (entry["dtype"], entry["shape"], file.read(end - begin))
        return result

    def check(self, model, tensors):
        logits = tensors.pop("logits")
        header, data = {}, b""
        for name, (dtype, shape, payload) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
            data += payload
        text = json.dumps(header).encode()
        with open(self.path("in.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        call("omnibal-run", self.path("program"), "--weights", os.path.join(DATA, model, "model.safetensors"),
             "--forward", self.path("in.safetensors"), "-o", self.path("out.safetensors"))
        expected = struct.unpack(f"<{len(logits[2]) // 4}f", logits[2])
        actual = read_safetensors(self.path("out.safetensors"))["logits"]
        self.assertEqual(len(actual), len(expected))
        self.assertLess(max(abs(a - b) for a, b in zip(actual, expected, strict=True)), 5e-6)


class Savings(ToolTest):
    @staticmethod
    def arena(text):
        """Memory column of the stage table, in bytes, summed over stages."""
        units = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
        cells = [re.findall(r"([\d.]+) (B|kB|MB|GB)", line) for line in text.splitlines() if re.match(r"\s*\d+\s", line)]
        return sum(float(row[0][0]) * units[row[0][1]] for row in cells)

    def test_freezing_and_recomputing_save_memory(self):
        keep = self.arena(self.compile("keep", remat="none"))
        self.assertLess(self.arena(self.compile("full", remat="full")), 0.85 * keep)
        self.assertLess(self.arena(self.compile("frozen", remat="none", freeze="vision,language")), 0.75 * keep)

    def test_a_limit_makes_auto_recompute_only_what_it_must(self):
        keep = self.arena(self.compile("keep", remat="none"))
        full = self.arena(self.compile("full", remat="full"))
        limit = int(0.5 * keep + 0.5 * full)
        text = self.compile("auto", memory_limit_bytes=limit)
        self.assertLessEqual(self.arena(text), limit + 6e3)
        recomputed = int(re.search(r"(\d+) of 14", text).group(1))
        self.assertTrue(0 < recomputed < 14, text)

    def test_a_limit_that_nothing_meets_is_explained(self):
        result = call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), "--tiles", 24, "--tokens", 420,
                      "--memory-limit-bytes", 1000000, "--dry-run", check=False)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"infeasible: .* stage.*, even with everything recomputed: .*\d+ bytes")
        self.assertEqual(result.stderr.count("\n"), 1, "one message, not the module")


class Programs(ToolTest):
    def test_no_elementwise_call_stands_alone(self):
        self.compile()
        text = call("omnibal-run", "--print", self.path("program")).stdout
        kernels = set(re.findall(r"^\s*(?:\d+[:.]?\s+)?([a-z_]+)[ (]", text, re.M))
        self.assertIn("gemm", kernels)
        self.assertIn("attention_backward", kernels)
        self.assertEqual(kernels & ELEMENTWISE, set())

    def test_equal_layers_share_functions(self):
        self.compile()
        with open(self.path("program/functions.json")) as file:
            names = [function["name"] for function in json.load(file)]
        with open(self.path("program/stages.json")) as file:
            chunk = json.load(file)[0]["modes"]["train"]["chunks"][0]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(chunk["layers"]), 14)
        # Of the fourteen layers the 4 of the tower are equal, and so are the 6 of the language model.
        layers = {}
        for layer, call_ in zip(chunk["layers"], chunk["forward"], strict=True):
            layers.setdefault(re.sub(r"\.\d+$", "", layer), []).append(call_["function"])
        for name, count in (("vision.layers", 4), ("language.layers", 6)):
            self.assertEqual(len(layers[name]), count, layers)
            self.assertEqual(len(set(layers[name])), 1, layers)
        functions = {function for calls in layers.values() for function in calls}
        self.assertEqual(len(functions), len(layers), "layers of different structure share a function")


class Errors(ToolTest):
    def fails(self, *arguments, code=1, says=""):
        result = call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), *arguments, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertRegex(result.stderr, says)
        self.assertNotIn("Assertion", result.stderr)

    def test_usage(self):
        self.fails("--tiles", 1, code=2, says="tokens")
        self.fails("--tiles", 1, "--tokens", 9, code=2, says="-o PROGRAM")
        self.fails("--tiles", 1, "--tokens", 9, "--schedule", "dream", "--dry-run", code=2, says="schedule")
        self.fails("--tiles", 1, "--tokens", 9, "--freeze", "towers", "--dry-run", code=2, says="freeze")

    def test_impossible_wishes(self):
        caps = ("--tiles", 4, "--tokens", 64, "--dry-run")
        self.fails(*caps, "--stages", 40, says="40 stages for 14 layers")
        self.fails(*caps, "--device", "abacus", says="unknown device `abacus`")
        self.fails(*caps, "--freeze-match", "no.such.thing", says="no.such.thing")
        self.fails(*caps, "--freeze", "vision,projector,language", says="train")

    def problem(self, *arguments):
        call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), "--tiles", 4, "--tokens", 64, "--dry-run",
             "--device", "h100", "--freeze", "vision", "--emit-problem", self.path("problem.json"), *arguments)
        with open(self.path("problem.json")) as file:
            return json.load(file)

    def test_cuda_is_planned_without_a_device(self):
        host, cuda = self.problem(), self.problem("--target", "cuda")
        for before, after in zip(host["layers"], cuda["layers"], strict=True):
            # float32: 16 bytes a parameter that trains, 4 a frozen one; mixed precision: 18 and 2
            frozen = before["kind"] == "vision"
            self.assertEqual(after["param_bytes"], before["param_bytes"] * (2 if frozen else 18) / (4 if frozen else 16))
            self.assertEqual(after["grad_bytes"], before["grad_bytes"])
            self.assertLessEqual(after["forward_ns"], before["forward_ns"])
            # Statistics (attention's log-sum-exp) stay in float32: 1/8 of a head's features here.
            half = before["remat"][0]["saved_bytes"] / 2
            self.assertGreaterEqual(after["remat"][0]["saved_bytes"], half)
            self.assertLessEqual(after["remat"][0]["saved_bytes"], 1.05 * half)
        forward = [sum(layer["forward_ns"] for layer in problem["layers"]) for problem in (host, cuda)]
        self.assertLess(forward[1], 0.6 * forward[0])  # half the traffic, products 15 times faster
        self.assertEqual([edge["bytes"] * 2 for edge in cuda["edges"]], [edge["bytes"] for edge in host["edges"]])
        text = call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), "--tiles", 4, "--tokens", 64, "--stages",
                    2, "--dry-run", "--target", "cuda").stdout
        self.assertIn("predicted for h100 in bfloat16", text)
        self.fails("--tiles", 4, "--tokens", 64, "--target", "cuda", "--dry-run", "--device", "cpu",
                   says="device `cpu` states no peak for bfloat16")

    def test_plans_by_hand(self):
        caps = ("--tiles", 4, "--tokens", 64, "--dry-run", "--stages", 2, "--plan", self.path("plan.json"))
        for plan, says in (('{"cuts": [0, 3]}', "`cuts` has 2 entries"), ('{"cuts": [0, 3, 9]}', "number of layers, 14"),
                           ('{"cuts": [0, 0, 14]}', "stage 0 is empty"), ("{", "not valid JSON"),
                           ('{"cuts": [0, 3, 14], "remat": ["keep"]}', "`remat` has 1 entries for 14")):
            with open(self.path("plan.json"), "w") as file:
                file.write(plan)
            self.fails(*caps, says=re.escape(says))

    def test_a_plan_by_hand_is_followed(self):
        with open(self.path("plan.json"), "w") as file:
            file.write('{"cuts": [0, 2, 14]}')
        text = self.compile(stages=2, plan=self.path("plan.json"))
        self.assertRegex(text, r"\n\s*0 .*vision\.embedding, vision\.layers\.0\n")

    def test_configuration_files(self):
        for text, says in (("tokens = 64\ntils = 4\n", r"compile\.toml:2: .*tils.*tiles"), ("tokens = = 3\n", r"compile\.toml:1: "),
                           ("tokens = 0\ntiles = 4\n", r"compile\.toml:1: .*tokens")):
            with open(self.path("compile.toml"), "w") as file:
                file.write(text)
            self.fails("--config", self.path("compile.toml"), "--dry-run", code=2, says=says)
        with open(self.path("compile.toml"), "w") as file:
            file.write("tokens = 64\ntiles = 4\nstages = 3\n")
        result = call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), "--config", self.path("compile.toml"),
                      "--dry-run")
        self.assertIn("3 stages", result.stdout)

    def test_a_full_disk_leaves_no_half_program(self):
        command = [os.path.join(BIN, "omnibal-compile"), os.path.join(DATA, "tiny-internvl/model.onnx"), "--tiles", "4",
                   "--tokens", "64", "-o", self.path("program")]
        for blocks, says in ((8, "temporary file"), (50, "program")):  # the kernels, the program
            limited = ["bash", "-c", f'ulimit -f {blocks}; exec "$0" "$@"', *command]
            result = subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, rf"^omnibal-compile: error: .*{says}.*\n$")
            self.assertFalse(os.path.exists(self.path("program/manifest.json")))
        limited = ["bash", "-c", 'ulimit -f 1; exec "$0" "$@"', *command, "--dry-run", "--report", self.path("report.html")]
        result = subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("report.html", result.stderr)
        self.assertFalse(os.path.exists(self.path("report.html")))

    def test_an_output_that_is_no_folder(self):
        target = self.path("occupied")
        with open(target, "w"):
            pass  # a file where the folder should go
        result = call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), "--tiles", 4, "--tokens", 64, "-o",
                      target, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("occupied", result.stderr)


class RunErrors(ToolTest):
    """What is wrong with a run is said before the work starts, on one line."""

    def setUp(self):
        super().setUp()
        self.compile()
        folder = os.path.join(DATA, "tiny-internvl")
        self.base = [self.path("program"), "--weights", f"{folder}/model.safetensors", "--data", f"{folder}/data-000000.tar",
                     "--preprocess", f"{folder}/preprocessor_config.json", "--steps-file", self.steps_file("tiny-internvl", 2)]

    def fails(self, *arguments, code, says):
        result = call("omnibal-run", *self.base, *arguments, check=False)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stderr}")
        self.assertRegex(result.stderr, says)

    def test_values_out_of_range(self):
        for flag, value in (("--lr", "nan"), ("--lr", "-1"), ("--eps", "0"), ("--beta1", "1"), ("--weight-decay", "inf"),
                            ("--clip", "nan"), ("--threads", "100000"), ("--decay-steps", "0"), ("--lr-power", "0"), ("--lr-cycles", "3")):
            self.fails(flag, value, code=2, says=flag)
        self.fails("--schedule-lr", "wsd", code=2, says="--decay-steps")
        self.fails("--schedule-lr", "wsd", "--decay-steps", 3, code=1, says="warm-up and decay")
        self.fails("--evaluate", "--forward", "x.safetensors", code=2, says="--forward")

    def test_configuration_files(self):
        for text, says in (("learning-rate = 1\n", "learning-rate"), ("lr = = 3\n", "run.toml:1: ")):
            with open(self.path("run.toml"), "w") as file:
                file.write(text)
            self.fails("--config", self.path("run.toml"), code=2, says=says)

    def test_unusable_targets_stop_the_run_at_once(self):
        with open(self.path("occupied"), "w"):
            pass
        log = self.path("log.jsonl")
        for flag in ("--save", "--checkpoint"):
            self.fails(flag, self.path("occupied/folder"), "--log", log, code=1, says="occupied")
            self.assertFalse(os.path.exists(log) and os.path.getsize(log) > 0, "steps ran before the error")

    def test_lines_of_a_log_that_are_no_steps_are_dropped_with_a_notice(self):
        log, checkpoints = self.path("log.jsonl"), self.path("checkpoints")
        call("omnibal-run", *self.base, "--log", log, "--checkpoint", checkpoints, "--checkpoint-every", 1)
        with open(log) as file:
            steps = file.read()
        self.assertEqual(steps.count("\n"), 2)
        with open(log, "a") as file:
            file.write('{"step": "two"}\n{"step": 2, "loss"')
        result = call("omnibal-run", *self.base, "--log", log, "--resume", checkpoints)
        self.assertIn("2 lines that are no steps were dropped", result.stderr)
        with open(log) as file:
            self.assertEqual(file.read(), steps)

    @staticmethod
    def runs(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def test_a_killed_rank_ends_the_job(self):
        self.compile("two", stages=2)
        log = self.path("killed.jsonl")
        job = subprocess.Popen(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", os.path.join(BIN, "omnibal-run"),
                                self.path("two"), *map(str, self.base[1:]), "--steps", "100000", "--log", log],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(job.kill)
        for _ in range(200):
            if os.path.exists(log) and os.path.getsize(log) > 0:
                break
            time.sleep(0.1)
        else:
            self.fail("no step within 20 s")
        with open(f"/proc/{job.pid}/task/{job.pid}/children") as file:
            ranks = [int(pid) for pid in file.read().split()]
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[1], signal.SIGKILL)
        self.assertNotEqual(job.wait(timeout=10), 0)
        deadline = time.monotonic() + 10
        while any(self.runs(pid) for pid in ranks):
            self.assertLess(time.monotonic(), deadline, "a rank is still running")
            time.sleep(0.1)

    def test_a_full_disk_leaves_nothing_half_written(self):
        limited = ["bash", "-c", 'ulimit -f 200; exec "$0" "$@"', os.path.join(BIN, "omnibal-run"), *map(str, self.base), "--save",
                   self.path("saved")]
        result = subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertFalse(os.path.exists(self.path("saved/model.safetensors")))


class Batches(ToolTest):
    """omnibal-batch's folder in omnibal-compile and omnibal-run."""
    TILES, TOKENS = 8, 200

    def setUp(self):
        super().setUp()
        self.lengths = []
        with tarfile.open(os.path.join(DATA, "tiny-internvl/data-000000.tar")) as tar:
            for member in tar:
                if member.name.endswith(".json"):
                    sample = json.load(tar.extractfile(member))
                    self.lengths.append((sample.get("images", 0), len(sample["input_ids"])))
        with open(self.path("lengths.csv"), "w") as file:
            file.write("vit_num,token_num\n" + "".join(f"{v},{n}\n" for v, n in self.lengths))
        self.batch("batches", ranks=2)

    def batch(self, name, tiles=TILES, tokens=TOKENS, **options):
        flags = [part for key, value in options.items() for part in ("--" + key, value)]
        call("omnibal-batch", self.path("lengths.csv"), "--tiles", tiles, "--tokens", tokens, *flags, "-o", self.path(name))

    def groups(self, name):
        """Lists of (tiles, tokens) by group."""
        arrays = []
        for file_name in ("samples.npy", "groups.npy"):
            with open(os.path.join(self.path(name), file_name), "rb") as file:
                data = file.read()
            begin = 10 + struct.unpack("<H", data[8:10])[0]
            arrays.append(struct.unpack(f"<{(len(data) - begin) // 8}q", data[begin:]))
        samples, offsets = arrays
        return [[self.lengths[i] for i in samples[a:b]] for a, b in zip(offsets, offsets[1:])]

    def problem(self, name, **options):
        # Cuts that do not follow the loads, so that memory can be compared.
        text = self.compile(name, tiles=10, tokens=250, stages=2, data_parallel=2, microbatches=2, partition="layers",
                            emit_problem=self.path(f"{name}.json"), emit_batch_cost=self.path(f"{name}.cost"), **options)
        with open(self.path(f"{name}.json")) as problem, open(self.path(f"{name}.cost")) as cost:
            return text, json.load(problem), json.load(cost)

    def test_the_problem_holds_the_loads_of_the_median_step(self):
        text, problem, cost = self.problem("real", batches=self.path("batches"))
        plain_text, plain, plain_cost = self.problem("plain")
        self.assertIn("the median step of", text)
        self.assertIn("a full micro-batch of one sample", plain_text)
        self.assertEqual(plain["microbatches"], 2)
        self.assertEqual(cost, plain_cost)
        self.assertEqual(Savings.arena(text), Savings.arena(plain_text), "memory is planned for the caps")

        groups = self.groups("batches")
        loads = [(sum(v for v, _ in g), sum(n for _, n in g), sum(n * n for _, n in g)) for g in groups]
        works = sorted((sum(cost["tile_ns"] * v + cost["token_ns"] * n + cost["square_ns"] * q for v, n, q in loads[s:s + 4]), s)
                       for s in range(0, len(loads) - len(loads) % 4, 4))
        start = works[(len(works) - 1) // 2][1]
        expected = []
        for row in (loads[start:start + 2], loads[start + 2:start + 4]):
            tiles, tokens = max(v for v, _, _ in row), max(n for _, n, _ in row)
            vision, language = -(-tiles * 10000 // 10) / 10000, -(-tokens * 10000 // 250) / 10000
            expected.append({"vision": vision, "projector": vision, "language": language, "head": language})
        self.assertEqual(problem["microbatches"], expected)

        # Attention over samples instead of one sequence of 250 tokens, seen in two ways.
        squares = -(-250 * sum(n * n for _, n in self.lengths) // sum(n for _, n in self.lengths))
        times = ("forward_ns", "input_grad_ns", "weight_grad_ns")
        total = [sum(layer[t] for layer in p["layers"] for t in times) for p in (plain, problem)]
        rounding = 3 * len(plain["layers"])
        self.assertAlmostEqual(total[0] - total[1], cost["square_ns"] * (250 * 250 - squares), delta=rounding)
        self.assertGreater(total[0] - total[1], 10 * rounding)
        whole = cost["tile_ns"] * 10 + cost["token_ns"] * 250 + cost["square_ns"] * 250 * 250
        self.assertAlmostEqual(total[0] / whole, 1, delta=0.02)

    def test_what_a_folder_must_have(self):
        def fails(says, **options):
            flags = [str(part) for key, value in {"tiles": 10, "tokens": 250, "data-parallel": 2, **options}.items()
                     for part in ("--" + key, value)]
            result = call("omnibal-compile", os.path.join(DATA, "tiny-internvl/model.onnx"), *flags, "--batches",
                          self.path("batches"), "--dry-run", check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, says)
        fails("balanced over 2 ranks, but the program has 3", **{"data-parallel": 3})
        fails("groups of up to 8 tiles and 200 tokens, but the program was compiled for 7 tiles", tiles=7)
        os.remove(self.path("batches/lengths.npy"))
        fails("lengths.npy is missing.*run omnibal-batch again")

    def test_the_compiled_models_costs_balance_its_work(self):
        _, _, cost = self.problem("program")
        self.batch("counts", ranks=2)
        self.batch("costs", ranks=2, cost=self.path("program.cost"))
        with open(self.path("costs/batches.json")) as file:
            after = json.load(file)["after"]
        idle = {}
        for name in ("counts", "costs"):
            works = [sum(cost["tile_ns"] * v + cost["token_ns"] * n + cost["square_ns"] * n * n for v, n in g)
                     for g in self.groups(name)]
            rows = list(zip(works[::2], works[1::2]))
            idle[name] = statistics.mean(1 - sum(row) / 2 / max(row) for row in rows)
        self.assertAlmostEqual(idle["costs"], after["dist_ratio_cost"], delta=1e-9)
        self.assertLessEqual(idle["costs"], idle["counts"] + 1e-12)

    def test_epochs_agree_between_threads_and_processes(self):
        self.compile(stages=2, data_parallel=2, microbatches=2, tiles=self.TILES, tokens=self.TOKENS)
        folder = os.path.join(DATA, "tiny-internvl")
        steps = -(-len(self.groups("batches")) // 4)
        runs = []
        for number, launcher in enumerate([(), ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4")]):
            log = self.path(f"run{number}.jsonl")
            call("omnibal-run", self.path("program"), "--weights", f"{folder}/model.safetensors", "--data",
                 f"{folder}/data-000000.tar", "--preprocess", f"{folder}/preprocessor_config.json", "--batches",
                 self.path("batches"), "--steps", 2 * steps + 1, "--lr", "1e-3", "--log", log, launcher=launcher)
            with open(log) as file:
                runs.append([json.loads(line) for line in file])
        self.assertEqual([e["loss"] for e in runs[0]], [e["loss"] for e in runs[1]])
        # The second epoch is what omnibal-batch gives for it.
        self.batch("second", ranks=2, epoch=1)
        loads = []
        for name in ("batches", "second"):
            groups = self.groups(name)
            loads += [tuple(map(sum, zip(*(sample for group in groups[s:s + 4] for sample in group))))
                      for s in range(0, len(groups), 4)]
        self.assertEqual([(e["tiles"], e["tokens"]) for e in runs[0][:len(loads)]], loads[:len(runs[0])])
        self.assertGreater(len(runs[0]), steps)

    def test_ranks_with_different_groups_do_not_train(self):
        self.compile(data_parallel=2, microbatches=2, tiles=self.TILES, tokens=self.TOKENS)
        self.batch("others", ranks=2, seed=2)
        folder = os.path.join(DATA, "tiny-internvl")
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for batches in ("batches", "others"):
            command += [":"] * (batches == "others") + [
                "-n", "1", os.path.join(BIN, "omnibal-run"), self.path("program"), "--weights", f"{folder}/model.safetensors", "--data",
                f"{folder}/data-000000.tar", "--preprocess", f"{folder}/preprocessor_config.json", "--batches", self.path(batches)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("rank 1 and rank 0 have different groups of samples", result.stderr)


class Overlap(ToolTest):
    """Two stages on two cores against one stage on one thread, for a model that splits evenly."""

    def compile_stages(self, stages, cuts):
        plan = self.path(f"plan{stages}.json")
        with open(plan, "w") as file:
            json.dump({"cuts": cuts}, file)
        call("omnibal-compile", os.path.join(QUICKSTART, "model/model.onnx"), "--weights", os.path.join(QUICKSTART, "model"),
             "--tiles", 10, "--tokens", 128, "--stages", stages, "--microbatches", 12, "--plan", plan, "-o", self.path(f"program{stages}"))

    def pipeline_ms(self, stages, run=0):
        log, trace = (self.path(f"{kind}{stages}-{run}") for kind in ("log", "trace"))
        shards = sorted(os.path.join(QUICKSTART, "data", name) for name in os.listdir(os.path.join(QUICKSTART, "data"))
                        if name.startswith("train-"))
        call("omnibal-run", self.path(f"program{stages}"), "--weights", os.path.join(QUICKSTART, "model"), "--data", *shards,
             "--preprocess", os.path.join(QUICKSTART, "model/preprocessor_config.json"), "--steps-file",
             os.path.join(QUICKSTART, "data/steps.jsonl"), "--steps", 40, "--threads", 1, "--log", log, "--trace", trace)
        with open(log) as file:
            times = [json.loads(line)["pipeline_ms"] for line in file][5:]
        with open(trace) as file:
            events = json.load(file)
        return times, events["traceEvents"] if isinstance(events, dict) else events

    def test_two_stages_take_at_most_065_of_one(self):
        """One stage is run twice side by side, so that both sides have what other work leaves of two cores."""
        self.compile_stages(1, [0, 11])
        self.compile_stages(2, [0, 7, 11])
        best, overlap = math.inf, 0
        for _ in range(8):  # other work that comes and goes makes single runs worse
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                pair = [times for times, _ in pool.map(lambda run: self.pipeline_ms(1, run), range(2))]
            two, events = self.pipeline_ms(2)
            # Where other work comes in bursts, one of the single runs has a step without it, and medians are fairer.
            least, median = min(two) / max(map(min, pair)), statistics.median(two) / max(map(statistics.median, pair))
            best, overlap = min(best, least, median), max(overlap, self.overlap_of(events))
            print(f"two stages against one: {least:.3f} (minimum), {median:.3f} (median)")
            if best <= 0.65 and overlap > 0.5:
                break
        self.assertLessEqual(best, 0.65)
        self.assertGreater(overlap, 0.5, "the ranks hardly ever compute at the same time")

    def overlap_of(self, events):
        """Share of the less busy rank's compute time in which the other computes, too."""
        compute = {0: [], 1: []}
        for event in events:
            if event.get("ph") == "X" and "mb" in event.get("args", {}) and re.match(r"[FB]", event["name"]):
                compute[event["pid"]].append((event["ts"], event["ts"] + event["dur"]))
        both = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in compute[0] for b in compute[1])
        return both / min(sum(e - b for b, e in compute[rank]) for rank in (0, 1))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
