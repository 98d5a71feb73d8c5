#!/usr/bin/env python3
"""Programs for cuda in several processes, each with an emulated device, over the fake of NCCL:
emulated_processes_test.py BIN_FOLDER DATA_FOLDER [unittest options]

The yardstick is one process with the same ranks as threads on one emulated device: equal bits.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from reference_losses import read_safetensors, sample_sizes  # noqa: E402

BIN, DATA = (os.path.abspath(path) for path in sys.argv[1:3])
BUILD = os.path.dirname(BIN)
STEPS = 3
# NVIDIA's cuBLASLt, where it is installed, would take the emulated memory for a GPU's: the hollow one declines.
LIBRARIES = ":".join(os.path.join(BUILD, folder) for folder in ("fake_nccl", "fake_libraries/hollow"))


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


class Layout:
    """Of the program that a class of tests runs. `cuts`: layers where chunks begin and end."""
    cuts = None
    schedule = "1f1b"
    numbers = "float32"
    parts = 1
    more = ()

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-processes-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        os.mkdir(cls.path("tmp"))  # the fake's boards, also those of killed runs
        cls.ranks = cls.stages * cls.replicas * cls.parts
        cls.folder = os.path.join(DATA, cls.model)
        sizes = sample_sizes(os.path.join(cls.folder, "data-000000.tar"))
        groups = 2 * cls.replicas
        # Small samples, with and without pictures: an emulated device is slow.
        keys = sorted(sizes, key=lambda key: (sizes[key][1], key))[:STEPS * groups]
        cls.caps = [max(1, *(sizes[key][i] for key in keys)) for i in (0, 1)]
        with open(cls.path("steps.jsonl"), "w") as file:
            for step in range(STEPS):
                file.write(json.dumps({"groups": [[key] for key in keys[step * groups:(step + 1) * groups]]}) + "\n")
        cls.table = cls.compile("program", *cls.more)

    @classmethod
    def compile(cls, name, *more):
        command = [os.path.join(BIN, "omnibal-compile"), os.path.join(cls.folder, cls.graph), "--tiles", str(cls.caps[0]), "--tokens",
                   str(cls.caps[1]), "--microbatches", "2", "--stages", str(cls.stages), "--data-parallel", str(cls.replicas),
                   "--model-parallel", str(cls.parts), "--target", "cuda", "--dtype", cls.numbers, "--gpu-code", "emulated", *more, "-o",
                   cls.path(name)]
        if cls.cuts:
            with open(cls.path("plan.json"), "w") as file:
                json.dump({"schema": "omnibal.plan/1", "cuts": cls.cuts}, file)
        command += ["--plan", cls.path("plan.json")] if cls.cuts else ["--partition", "layers", "--schedule", cls.schedule]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        assert result.returncode == 0, result.stdout
        return result.stdout

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.work, *names)

    def environment(self, **more):
        return {**{key: value for key, value in os.environ.items() if not key.startswith("OMNIBAL_")},
                "OMNIBAL_PLUGINS": os.path.join(BUILD, "emulated"), "OMNIBAL_CUDA_LIBRARIES": LIBRARIES,
                "OMNIBAL_EMULATED_DEVICES": str(self.ranks), "TMPDIR": self.path("tmp"), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}

    def command(self, *flags, weights=None, program="program"):
        return [os.path.join(BIN, "omnibal-run"), self.path(program), "--weights",
                weights or os.path.join(self.folder, "model.safetensors"), "--data", os.path.join(self.folder, "data-000000.tar"),
                "--preprocess", os.path.join(self.folder, "preprocessor_config.json"), "--steps-file", self.path("steps.jsonl"),
                "--lr", "1e-3", "--threads", "1", *map(str, flags)]

    def mpirun(self, command):
        return ["mpirun", "--oversubscribe", "-n", str(self.ranks), *command]

    def start_ranks(self, command, **more):
        """As torchrun would: one process a rank. `command`: of a rank."""
        port = str(free_port())
        return [subprocess.Popen(command(rank), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=self.environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(self.ranks),
                                                      MASTER_ADDR="localhost", MASTER_PORT=port, **more))
                for rank in range(self.ranks)]

    def finish(self, processes, expect=0):
        said = []
        for rank, process in enumerate(processes):
            self.addCleanup(process.kill)
            said.append(process.communicate(timeout=100)[1])
            if expect is not None:
                self.assertEqual(process.returncode, expect, f"rank {rank}: {said[-1]}")
        return said

    def train(self, name, launcher, *flags, program="program"):
        """What is logged and saved."""
        command = self.command("--log", self.path(f"{name}.jsonl"), "--save", self.path(f"{name}-saved"), *flags, program=program)
        if launcher == "variables":
            self.finish(self.start_ranks(lambda rank: command))
        else:
            command = self.mpirun(command) if launcher == "mpirun" else command
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200,
                                    env=self.environment())
            self.assertEqual(result.returncode, 0, result.stderr)
        return self.outcome(name)

    def outcome(self, name):
        with open(self.path(f"{name}.jsonl")) as file:
            numbers = [[json.loads(line)[key] for key in ("step", "loss", "grad_norm", "label_tokens")] for line in file]
        with open(self.path(f"{name}-saved", "model.safetensors"), "rb") as file:
            return numbers, file.read()

    def check_bits(self, *launchers):
        """Of a run, and of one that goes on from a checkpoint in its middle."""
        expected = self.train("threads", "threads")
        self.assertEqual([line[0] for line in expected[0]], list(range(STEPS)))
        for launcher in launchers:
            folder = self.path(launcher + "-checkpoints")
            got = self.train(launcher, launcher, "--checkpoint-every", 2, "--checkpoint", folder)
            self.assertEqual(got[0], expected[0], launcher)
            self.assertTrue(got[1] == expected[1], f"{launcher}: the saved weights differ")
            shutil.rmtree(os.path.join(folder, f"step-{STEPS:08}"))
            resumed = self.train(launcher + "-resumed", launcher, "--resume", folder)
            self.assertEqual(resumed[0], expected[0][2:], launcher)
            self.assertTrue(resumed[1] == expected[1], f"{launcher}: the weights of the resumed run differ")
        self.assertEqual(os.listdir(self.path("tmp")), [])


class SharedEmbedding(Layout, unittest.TestCase):
    """Two stages that hold one embedding."""
    model, graph, stages, replicas, cuts = "llava-tied", "model-opset20.onnx", 2, 1, [0, 6, 8]

    def test_processes_have_the_bits_of_threads(self):
        with open(self.path("program", "stages.json")) as file:
            shared = [[q["name"] for q in stage["parameters"] if q["shared_group"] >= 0] for stage in json.load(file)]
        self.assertTrue(shared[0] and shared[0] == shared[1], shared)
        self.check_bits("mpirun", "variables")


class Parts(Layout, unittest.TestCase):
    """Two stages that hold one embedding, each run by two ranks that do the same: the bits of one rank a stage."""
    model, graph, stages, replicas, cuts = "llava-tied", "model-opset20.onnx", 2, 1, [0, 6, 8]

    def test_processes_have_the_bits_of_threads(self):
        alone = self.train("alone", "threads")
        with open(self.path("program", "manifest.json")) as file:
            manifest = json.load(file)
        with open(self.path("program", "manifest.json"), "w") as file:
            json.dump(dict(manifest, model_parallel=2), file)
        type(self).ranks = 4
        self.check_bits("mpirun")
        self.assertTrue(alone == self.outcome("threads"), "two ranks a stage have other bits than one")


class PartsThatDiffer(Layout, unittest.TestCase):
    """Of two stages, with shares of tokens and heads: moves in one process and over the fake of NCCL."""
    model, graph, stages, replicas, parts, more = "tiny-internvl", "model.onnx", 2, 1, 2, ("--layout-price", "1")

    def test_processes_have_the_bits_of_threads(self):
        with open(self.path("program", "functions.json")) as file:
            kernels = {call["kernel"] for function in json.load(file) for call in function["calls"]}
        self.assertTrue({"all_reduce", "all_gather", "reduce_scatter"} & kernels)
        self.check_bits("mpirun")

    def test_what_moves_lie_in_is_announced(self):
        """By the compiler, and by the run before it takes it."""
        said = self.finish(self.start_ranks(lambda rank: self.command("--steps", 1)))[0]
        for stage in range(self.stages):
            planned = re.search(rf"stage {stage}: the backend takes .*?([0-9.]+ [kM]?B) of moves among parts", self.table)
            announced = re.search(rf"stage {stage}, .*?([0-9.]+ [kM]?B) of moves among parts", said)
            self.assertEqual(announced.group(1), planned.group(1))


class PartsInBFloat16(PartsThatDiffer):
    numbers = "bfloat16"


class Replicas(Layout, unittest.TestCase):
    model, graph, stages, replicas = "llava-tied", "model-opset20.onnx", 1, 2

    def test_processes_have_the_bits_of_threads(self):
        self.check_bits("mpirun")


class Averages(Layout, unittest.TestCase):
    """Moving averages, of which each replica has a share."""
    model, graph, stages, replicas, more = "llava-tied", "model-opset20.onnx", 1, 2, ("--ema", "--zero", "1")

    def averaged(self, name, launcher, *flags):
        outcome = self.train(name, launcher, "--save-ema", self.path(f"{name}-averages"), "--save-dtype", "float32", "--ema-decay", 0.75, *flags)
        with open(self.path(f"{name}-averages", "model.safetensors"), "rb") as file:
            return *outcome, file.read()

    def test_they_follow_their_definition(self):
        self.averaged("one", "threads", "--steps", 1)
        start, value, average = (read_safetensors(path) for path in (
            os.path.join(self.folder, "model.safetensors"), self.path("one-saved/model.safetensors"), self.path("one-averages/model.safetensors")))
        self.assertEqual(value.keys(), average.keys())
        self.assertNotEqual(value, average)
        for name, found in average.items():
            for mean, before, after in zip(found, start[name], value[name], strict=True):
                self.assertAlmostEqual(mean, 0.75 * before + 0.25 * after, delta=3e-7 * max(1, abs(before)))

    def test_processes_have_the_bits_of_threads(self):
        whole = self.averaged("threads", "threads")
        folder = self.path("checkpoints")
        self.assertTrue(self.averaged("processes", "mpirun", "--checkpoint-every", 2, "--checkpoint", folder) == whole, "processes")
        shutil.rmtree(os.path.join(folder, f"step-{STEPS:08}"))
        self.assertTrue(self.averaged("resumed", "threads", "--resume", folder)[1:] == whole[1:], "a resumed run")


class AveragesOfMasters(Averages):
    """Where kernels read bfloat16, of the float32 values."""
    numbers = "bfloat16"


class PlannedSteps(Layout, unittest.TestCase):
    """Messages of every step's own lists in one queue, on devices that the host runs ahead of."""
    model, graph, stages, replicas, schedule = "tiny-internvl", "model.onnx", 2, 1, "per-step"

    def environment(self, **more):
        return super().environment(OMNIBAL_VERIFY_STEPS="1", **more)

    def test_processes_have_the_bits_of_threads(self):
        self.check_bits("mpirun")
        with open(self.path("mpirun.jsonl")) as file:
            self.assertIn("lists", [json.loads(line)["plan"] for line in file])


class ReplicasAsNeighbors(Layout, unittest.TestCase):
    model, graph, stages, replicas, more = "tiny-internvl", "model.onnx", 2, 2, ("--rank-order", "replica")

    def test_processes_have_the_bits_of_threads(self):
        self.check_bits("variables")

    def test_the_device_has_the_bits_of_the_other_order(self):
        self.compile("by-stage")
        losses, weights = self.train("by-replica", "threads")[:2]
        others, same = self.train("by-stage", "threads", program="by-stage")[:2]
        self.assertEqual(losses, others)
        self.assertTrue(weights == same, "the saved weights differ")


class Grid(Layout, unittest.TestCase):
    model, graph, stages, replicas = "tiny-internvl", "model.onnx", 2, 2

    def test_processes_have_the_bits_of_threads(self):
        self.check_bits("variables")

    def test_a_killed_rank_ends_all_and_is_named(self):
        victim = self.ranks - 1
        log = self.path("killed.jsonl")
        command = self.command("--steps", 100000, "--log", log)
        processes = self.start_ranks(lambda rank: command)
        for _ in range(600):
            if os.path.exists(log) and os.path.getsize(log) > 0:
                break
            time.sleep(0.05)
        else:
            self.fail("no step within 30 s")
        os.kill(processes[victim].pid, signal.SIGKILL)
        begin = time.monotonic()
        said = self.finish(processes, expect=None)
        self.assertLess(time.monotonic() - begin, 20)
        for rank, process in enumerate(processes):
            self.assertEqual(process.returncode, -signal.SIGKILL if rank == victim else 1, said[rank])
            if rank != victim:
                self.assertRegex(said[rank], f"lost rank {victim} at ")

    def test_a_trace_shows_all_ranks(self):
        self.train("traced", "variables", "--trace", self.path("trace.json"))
        with open(self.path("trace.json")) as file:
            events = json.load(file)
        lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        spans = [(e["pid"], lanes[e["pid"], e["tid"]], e) for e in events if e["ph"] == "X"]
        for rank in range(self.ranks):
            computed = [e["name"] for pid, lane, e in spans if (pid, lane) == (rank, "compute")]
            self.assertEqual(sorted(computed), ["B", "B", "F", "F", "update"], rank)
            kernels = [e["args"]["label"] for pid, lane, e in spans if (pid, lane) == (rank, "kernels")]
            self.assertGreater(len(kernels), 10)
        self.assertTrue(all(e["dur"] >= 0 for _, _, e in spans))
        begins, ends = ({e["id"]: e for e in events if e["ph"] == kind} for kind in "sf")
        self.assertEqual(begins.keys(), ends.keys())
        self.assertEqual(len(begins), 4 * self.replicas * (self.stages - 1))  # two micro-batches, there and back
        for message, begin in begins.items():
            self.assertNotEqual(begin["pid"], ends[message]["pid"])
        for rank in range(self.ranks):
            # Sums are drawn when they were performed: behind what computed their gradients, before the step's end, one by one.
            sums = sorted((e["ts"], e["ts"] + e["dur"]) for pid, lane, e in spans if (pid, lane) == (rank, "reduce"))
            names = [e["name"] for pid, lane, e in spans if (pid, lane) == (rank, "reduce")]
            self.assertEqual(names.count("reduce_gradients"), 1)
            for (_, end), (begin, _) in zip(sums, sums[1:]):
                self.assertLessEqual(end, begin + 10)
            computed = {e["name"]: e for pid, lane, e in spans if (pid, lane) == (rank, "compute")}
            self.assertGreater(sums[0][1], computed["B"]["ts"])
            self.assertLessEqual(sums[-1][1], computed["update"]["ts"] + 10)

    def test_one_replica_reads_the_weights(self):
        """The others need not have them; that the first has none is said to all."""
        missing = self.path("nowhere.safetensors")
        reader = [rank < self.stages for rank in range(self.ranks)]
        logs = []
        for name, without in (("all", []), ("first", [rank for rank in range(self.ranks) if not reader[rank]])):
            log, saved = self.path(f"{name}.jsonl"), self.path(f"{name}-saved")
            said = self.finish(self.start_ranks(lambda rank: self.command(
                "--steps", 1, "--log", log, "--save", saved, weights=missing if rank in without else None)))
            # What every stage's backend takes beside its arena.
            self.assertRegex(said[0], r"stage 0 .*\) \+ [0-9.]+ MB of the backend's \(.* of batch values, 1.05 MB of column sums, .* lists\)")
            self.assertRegex(said[0], r"stage 1 .*\) \+ [0-9.]+ MB of the backend's \(")
            logs.append(self.outcome(name))
        self.assertEqual(logs[0][0], logs[1][0])
        self.assertTrue(logs[0][1] == logs[1][1], "the saved weights differ")
        begin = time.monotonic()
        processes = self.start_ranks(lambda rank: self.command("--steps", 1, weights=missing if rank == 1 else None))
        said = self.finish(processes, expect=1)
        self.assertLess(time.monotonic() - begin, 20)
        for rank in range(self.ranks):
            self.assertIn("nowhere.safetensors", said[rank])
        self.assertEqual(sum("omnibal-run: error:" in text for text in said), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
