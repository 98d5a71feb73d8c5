#!/usr/bin/env python3
"""The benchmarks run through and say what they should, with short parameters: benchmarks_test.py BIN_FOLDER CLASS [unittest options]

What they measure means nothing here; test/bench and docs/performance.md are about that.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.path.join(os.path.dirname(HERE), "gpu")
sys.path[:0] = [HERE, os.path.join(HERE, "balanced_training"), os.path.join(HERE, "plan_accuracy"), os.path.join(HERE, "step_vs_pytorch"), GPU]


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-bench-")
        cls.addClassCleanup(shutil.rmtree, cls.work)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.work, *parts)

    def script(self, *command, code=0, **environment):
        result = subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **environment})
        self.assertEqual(result.returncode, code, result.stdout[-3000:] + result.stderr[-3000:])
        return result.stdout


class PlanAccuracy(Bench):
    def test_two_and_four_ranks(self):
        """Measured and predicted steps of both small models, with one and two replicas, and the roofline of the other model."""
        text = self.script(os.path.join(HERE, "plan_accuracy", "plan_accuracy.py"), "--bin", BIN, "--work", self.path("plans"),
                           "--models", "tiny-internvl", "tiny-llava", "--only", "mixed", "--replicas", 1, 2, "--steps", 3, "--goals", 10, 10)
        import plan_accuracy
        cases = re.findall(r"^(tiny-\w+) .* (\d+\.\d) +(\d+\.\d) +([+-]\d+\.\d)%", text, re.MULTILINE)
        self.assertEqual([case[0] for case in cases],
                         [name for name in ("tiny-internvl", "tiny-llava") for _ in plan_accuracy.CASES[name]], text)
        self.assertRegex(text, r"\ntiny-llava .*, 2 replicas ")
        for _, predicted, measured, error in cases:
            self.assertAlmostEqual(float(predicted) / float(measured) - 1, float(error) / 100, delta=0.01)
        for name in ("tiny-internvl", "tiny-llava"):
            self.assertRegex(text, rf"roofline with rates of {name}, 1 replicas \([\d.]+ GFLOP/s")
        self.assertRegex(text, r"roofline, all: median error [\d.]+%, worst [\d.]+%")

    def test_rates_are_found_again(self):
        import roofline
        rates = roofline.ONE / 3, roofline.ONE / 7
        layers = [(5, 1), (2, 8), (9, 0), (0, 4)]
        found = roofline.fit([f for f, _ in layers], [b for _, b in layers], [3 * f + 7 * b for f, b in layers])
        for a, b in zip(found, rates):
            self.assertAlmostEqual(a / b, 1)
        only = roofline.fit([5, 9], [1, 0], [15, 27])  # bytes take no time
        self.assertAlmostEqual(only[0] / rates[0], 1)


class BalancedTraining(Bench):
    def test_all_ways_are_measured(self):
        text = self.script(os.path.join(HERE, "balanced_training", "balanced_training.py"), "--bin", BIN, "--work", self.path("balanced"),
                           "--samples", 24, "--rounds", 1, "--ranks", 2)
        for kind in ("balanced", "balanced, wide", "packed", "random"):
            rates = re.search(rf"^  {kind} +([\d.]+) +([\d.]+) +([\d.]+)   \d+, ", text, re.MULTILINE)
            self.assertTrue(rates and all(float(rate) > 0 for rate in rates.groups()), text)
        self.assertRegex(text, r"balanced / (packed|random): [\d.]+ [\d.]+ [\d.]+\n")

    def test_packs(self):
        """Every sample once, no pack over the cap, none to which a sample of a later pack could have been added."""
        import balanced_training
        import numpy as np
        random = np.random.default_rng(3)
        for count in (1, 7, 200):
            tokens = random.integers(1, 400, count)
            groups = balanced_training.Groups.packed(tokens, 500, 1, random)
            self.assertEqual(sorted(groups.samples.tolist()), list(range(count)))
            packs = [groups.samples[a:b] for a, b in zip(groups.offsets, groups.offsets[1:])]
            sums = [tokens[pack].sum() for pack in packs]
            self.assertTrue(all(0 < total <= 500 for total in sums))
            for i, pack in enumerate(packs):  # made later: its longest sample is shorter
                self.assertFalse(any(sums[j] + tokens[pack].min() <= 500 and tokens[packs[j]].max() > tokens[pack].max()
                                     for j in range(len(packs))))
        even = balanced_training.Groups.packed(np.array([300, 300, 300]), 500, 2, random)
        self.assertEqual(len(even.sizes()) % 2, 0)


class StepVsPyTorch(Bench):
    def test_a_step(self):
        work = self.path("steps")
        text = self.script(os.path.join(HERE, "step_vs_pytorch", "step_vs_pytorch.py"), "--bin", BIN, "--work", work, "--models", "5m",
                           "--isa", "native", "--threads", 2, "--rounds", 1, "--steps", 2, "--modes", "packed-eager,single-eager")
        self.assertRegex(text, r"ratio to PyTorch's fastest \((packed|single)-eager\): min [\d.]+, median [\d.]+\n")
        self.another_mask_does_not_agree(os.path.join(work, "5m"))

    def another_mask_does_not_agree(self, work):
        """Losses and gradient norms tell whether samples of a pack see each other."""
        import step_vs_pytorch

        class SeeingAll(step_vs_pytorch.Rival):
            def pack(self, loaded):
                inputs, targets = super().pack(loaded)
                if "attention_mask" in inputs:
                    inputs["attention_mask"] = inputs["attention_mask"].new_ones(inputs["attention_mask"].shape).tril()
                return inputs, targets

        args = type("Args", (), {"work": work})
        right, packed, wrong = (rival.steps(2)[1] for rival in (
            step_vs_pytorch.Rival(args, False, False), step_vs_pytorch.Rival(args, True, False), SeeingAll(args, True, False)))
        for results, agrees in ((packed, True), (wrong, False), ([(loss, norm * 1.01) for loss, norm in right], False),
                                ([(loss, float("nan")) for loss, _ in right], False)):
            agreement = step_vs_pytorch.Agreement()
            agreement.compare(right, results)
            self.assertEqual(agreement.holds(), agrees, str(agreement))


class Zero(Bench):
    def test_divided_and_whole_state(self):
        text = self.script(os.path.join(HERE, "sharding", "zero.py"), "--bin", BIN, "--work", self.path("zero"), "--model", "5m", "--rounds", 1,
                           "--steps", 2, "--goal", 0)
        bytes_of = dict(re.findall(r"^([01]) .* (\d+\.\d{3})$", text, re.MULTILINE))
        self.assertAlmostEqual(float(bytes_of["0"]), 16, delta=0.2)
        self.assertAlmostEqual(float(bytes_of["1"]), 12, delta=0.4)
        self.assertRegex(text, r"\nratio of the minima [\d.]+, of the medians [\d.]+\n$")


class Parts(Bench):
    def test_parts_and_threads(self):
        text = self.script(os.path.join(HERE, "sharding", "parts.py"), "--bin", BIN, "--work", self.path("parts"), "--model", "5m", "--rounds", 1,
                           "--steps", 2, "--price", 1, "--goal", 0)
        share = re.search(r"^persistent bytes ([\d.]+)$", text, re.MULTILINE)
        self.assertGreaterEqual(float(share.group(1)), 0.5)
        self.assertLess(float(share.group(1)), 0.75)
        self.assertRegex(text, r"\nratio of the minima [\d.]+, of the medians [\d.]+\n$")


class Device(Bench):
    """test/gpu on a machine without a GPU: programs for the host in float32."""

    def test_steps(self):
        import agreement
        programs = self.path("bundle", "programs")
        self.script(os.path.join(GPU, "programs.py"), "--bin", BIN, programs, "--only", "bench", "--models", self.path("models"), "--bench",
                    "tiny:512:6:2:1", "--target", "host", "--dtype", "float32")
        os.symlink(BIN, self.path("bundle", "bin"))
        text = self.script(os.path.join(GPU, "bench.py"), self.path("bundle"), "--part", "steps", "--steps", 4, "--samples", 120,
                           "--backend", "eager", "--logs", self.path("logs"), "--keep")
        self.assertRegex(text, r"[1-9]\d* graphs in the warm-up, \d recompiled in timed steps")
        self.assertRegex(text, r"ratio to PyTorch's best \(float32, (exact|padded)\): [\d.]+ in tokens/s")
        self.assertTrue(text.rstrip().endswith(" passed, 0 failed"), text)
        self.other_models_do_not_agree(self.path("logs", "work", "tiny-512"))

    def other_models_do_not_agree(self, data):
        """Tolerances are of use: another mask and pictures in another order are seen, by losses or by norms."""
        import agreement
        text = self.script("-c", CHANGED, GPU, "tiny", data, "--tokens", 512, "--tiles", 6, "--microbatches", 2, "--steps", 4, "--mode",
                           "float32", "--shapes", "exact", "--compile", "none")
        right, mask, pictures = map(json.loads, text.splitlines()[-3:])
        for mode in agreement.ALLOWED:
            self.assertTrue(agreement.agree(right, right, mode))
            for wrong in (mask, pictures):
                self.assertFalse(agreement.agree(wrong, right, mode), (mode, agreement.deviations(wrong, right, mode)))
        unfinished = dict(right, loss=[*right["loss"][:-1], float("nan")])
        self.assertFalse(agreement.agree(unfinished, right, "autocast"))

    def test_no_ratio_without_all_rivals(self):
        import bench
        made = bench.Bench.__new__(bench.Bench)
        notes, made.rows = [], []
        made.args = type("Args", (), {"steps": 4})
        made.checks = type("Checks", (), {"note": staticmethod(lambda name, good, text="": notes.append((name, good)))})
        result = {"loss": [3.0, 2.0], "norm": [1.0, 0.5], "ms": [10.0], "tokens": [100], "device": 1 << 30}
        slow, fast = (dict(result, ms=[ms], mode="autocast", name=name, recompiled=0) for ms, name in ((30.0, "slow"), (20.0, "fast")))
        made.judge({"name": "p"}, result, [slow], [0, 1])
        self.assertEqual(made.rows, ["  no ratio: 1 of PyTorch's 2 ways did not run"])
        made.judge({"name": "p"}, result, [slow, fast], [0, 1])
        self.assertIn("ratio to PyTorch's best (fast): 2.000 in tokens/s", made.rows[-1])
        self.assertTrue(all(good for _, good in notes), notes)
        made.judge({"name": "p"}, dict(result, loss=[3.0, 2.99]), [dict(slow, recompiled=4)], [0])
        self.assertEqual(sorted(good for _, good in notes[-3:]), [False, False, False])

    def test_steps_that_compiled_are_left_out(self):
        import bench
        warm = bench.WARMUP - 3
        found = {"loss": [], "norm": [], "ms": [9] * warm + [900, 800, 700, 10, 500, 12], "tokens": [0] * warm + [1, 2, 3, 4, 5, 6],
                 "compiles": [0] * warm + [2, 1, 1, 0, 1, 0], "graph_breaks": 3, "allocated_bytes": 1 << 30, "reserved_bytes": 3 << 30}
        timed = bench.Bench.timed(found)
        self.assertEqual((timed["ms"], timed["tokens"], timed["recompiled"]), ([10, 12], [4, 6], 1))
        self.assertEqual(timed["memory"], "allocated 1.00 reserved 3.00")
        self.assertEqual(timed["compiled"], "4 graphs in the warm-up, 1 recompiled in timed steps, 3 graph breaks")

    def test_kernels(self):
        cases = [
            {"name": "layer", "kernel": "gemm", "attributes": {"activation": "gelu_tanh"}, "flops": 1, "bytes": 1, "operands":
             [["a", "f32", [64, 32]], ["b", "f32", [32, 48], [1, 32]], ["c", "f32", [64, 48]], ["bias", "f32", [48]]]},
            {"name": "weight gradient", "kernel": "gemm", "attributes": {"accumulate": True}, "flops": 1, "bytes": 1, "operands":
             [["a", "f32", [32, 64], [1, 32]], ["b", "f32", [64, 48]], ["c", "f32", [32, 48]]]},
            {"name": "attention", "kernel": "attention", "attributes": {"scale": 0.25, "mask": "causal"}, "segments": 2, "flops": 1,
             "bytes": 1, "operands": [["q", "f32", [64, 4, 16]], ["k", "f32", [64, 2, 16]], ["v", "f32", [64, 2, 16]],
                                      ["out", "f32", [64, 4, 16]], ["lse", "f32", [64, 4]], ["cu_seqlens", "i32", [65]]]},
            {"name": "update", "kernel": "adamw", "elements": 4096, "flops": 1, "bytes": 1}]
        with open(self.path("cases.json"), "w") as file:
            json.dump(cases, file)
        subprocess.run([os.path.join(BIN, "bench_device_kernels"), self.path("cases.json"), self.path("ours.jsonl"), "host"], check=True)
        text = self.script(os.path.join(GPU, "torch_kernels.py"), self.path("ours.jsonl"), "--cases", self.path("cases.json"),
                           TORCHDYNAMO_DISABLE="1")
        for case in cases:
            times = re.search(rf"^{case['name']} +([\d.]+) +([\d.]+)\*? +[\d.]+ +\d+%$", text, re.MULTILINE)
            self.assertTrue(times and all(float(time) > 0 for time in times.groups()), text)


# Trainings as torch_step.py has them, of the right model and of two others: lines of JSON.
CHANGED = """
import json, sys
sys.path.insert(0, sys.argv.pop(1))
import models, torch_step
args = torch_step.arguments().parse_args([*sys.argv[1:], "--lr", str(models.learning_rate(sys.argv[1]))])
attention, stack = torch_step.F.scaled_dot_product_attention, torch_step.torch.stack
print(json.dumps(torch_step.train(args, "cpu")))
torch_step.F.scaled_dot_product_attention = lambda *a, is_causal=False, **k: attention(*a, **k)
print(json.dumps(torch_step.train(args, "cpu")))
torch_step.F.scaled_dot_product_attention = attention
torch_step.torch.stack = lambda tensors: stack(tensors[::-1])
print(json.dumps(torch_step.train(args, "cpu")))
"""

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
