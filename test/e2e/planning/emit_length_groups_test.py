#!/usr/bin/env python3
"""omnibal-compile --emit-length-groups as users call it: emit_length_groups_test.py BIN_FOLDER DATA_FOLDER

What the file says of memory is compared with programs that are compiled for a candidate alone, and the choice of cuts with
programs' cuts.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl", "model.onnx")
STAGES, REPLICAS, STEP = 2, 2, 8192
LIMIT = 26_000_000  # bytes of a stage: the long candidates recompute


def call(tool, *arguments, code=0):
    command = [os.path.join(BIN, tool), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if result.returncode != code:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def some_lengths():
    """Most are short; a tail reaches 1,500 tokens; a third has pictures."""
    generator = random.Random(3)
    lengths = [(3, 1500)]
    for i in range(600):
        tokens = min(1500, int(40 + generator.expovariate(1 / 150)) if i % 20 else generator.randint(600, 1500))
        lengths.append((min(6, tokens // 60) if i % 3 == 0 else 0, tokens))
    return lengths


class EmitLengthGroups(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-length-groups-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.lengths = some_lengths()
        cls.table = cls.write("lengths.csv", cls.lengths)
        cls.limited = cls.emit("limited.json", "--memory-limit-bytes", LIMIT)
        cls.groups = read(cls.path("limited.json"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.work, name)

    @classmethod
    def write(cls, name, lengths):
        with open(cls.path(name), "w") as file:
            file.write("vit_num,token_num\n")
            file.writelines(f"{tiles},{tokens}\n" for tiles, tokens in lengths)
        return cls.path(name)

    @classmethod
    def emit(cls, name, *flags, stages=STAGES, step=STEP, code=0):
        return call("omnibal-compile", MODEL, "--stages", stages, "--data-parallel", REPLICAS, "--device", "cpu", "--lengths", cls.table,
                    "--tokens-per-step", step, "--emit-length-groups", cls.path(name), *flags, code=code)

    def refused(self, *flags, code=1):
        result = self.emit("refused.json", *flags, code=code)
        self.assertFalse(os.path.exists(self.path("refused.json")))
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr

    def test_candidates_follow_the_lengths(self):
        groups = self.groups
        self.assertEqual((groups["replicas"], groups["stages"], groups["tokens_per_step"]), (REPLICAS, STAGES, STEP))
        self.assertRegex(groups["model"], "^[0-9a-f]{32}$")
        self.assertEqual(len(groups["cuts"]), STAGES + 1)
        tokens = [group["tokens_cap"] for group in groups["groups"]]
        self.assertEqual(tokens[:4], [512, 768, 1024, 1500])
        self.assertLessEqual(tokens[-1], STEP // REPLICAS)
        share = sum(t for t, _ in self.lengths) / sum(n for _, n in self.lengths)
        for group in groups["groups"]:
            longest = max(t for t, n in self.lengths if n <= group["tokens_cap"])
            self.assertEqual(group["tiles_cap"], max(longest, -int(-share * group["tokens_cap"] // 1)))
            self.assertEqual((group["degree"], group["ranks"], group["schedule"]), (1, REPLICAS, "1f1b"))
            self.assertEqual(group["microbatches"], max(1, int(STEP / (REPLICAS * group["tokens_cap"]) + 0.5)))
            self.assertEqual(len(group["remat"]), groups["cuts"][-1])
            self.assertTrue(all(0 < stage <= LIMIT for stage in group["bytes"]))
            self.assertTrue(all(group["cost"][name] >= 0 for name in group["cost"]))
        recomputed = [sum(name != "keep" for name in group["remat"]) for group in groups["groups"]]
        self.assertEqual(recomputed[0], 0)
        self.assertGreater(recomputed[-1], 0)

    def test_table(self):
        text = self.limited.stdout
        self.assertIn("times of the peaks of device cpu", text)
        relaxed = float(re.search(r"relaxed epoch with .*: ([\d.]+) s", text).group(1))
        bound = float(re.search(r"no cuts of any candidates take less than ([\d.]+) s", text).group(1))
        self.assertLessEqual(bound, relaxed)
        self.assertGreater(bound, 0)
        listed = re.findall(r"^\s*(\d+K?)\s+(\d+)\s", text, re.M)
        self.assertEqual([int(tokens) for _, tokens in listed], sorted(int(tokens) for _, tokens in listed))
        names = {group["name"] for group in self.groups["groups"]}
        self.assertTrue({name for name, _ in listed} <= names)

    def test_memory_is_that_of_a_program_with_the_candidate_alone(self):
        longest = max(group["tokens_cap"] for group in self.groups["groups"] if group["tokens_cap"] <= 1500)
        for group in self.groups["groups"]:
            plan = self.path("plan.json")
            with open(plan, "w") as file:
                json.dump({"cuts": self.groups["cuts"], "remat": group["remat"]}, file)
            program = self.path(f"program-{group['name']}")
            call("omnibal-compile", MODEL, "--stages", STAGES, "--data-parallel", REPLICAS, "--tiles", group["tiles_cap"], "--tokens",
                 group["tokens_cap"], "--microbatches", group["microbatches"], "--plan", plan, "-o", program)
            arenas = [stage["arena_bytes"] for stage in read(os.path.join(program, "stages.json"))]
            if group["tokens_cap"] == longest:
                self.assertEqual(arenas, group["bytes"])
            for arena, stated in zip(arenas, group["bytes"]):
                # Tables by position have as many rows as the longest sample has tokens, or as the program's caps.
                rows = abs(group["tokens_cap"] - longest)
                self.assertLessEqual(abs(arena - stated), 2 * 4 * 64 * rows + 256, group["name"])

    def test_less_memory_means_more_recomputation_and_time(self):
        self.emit("free.json")
        free = read(self.path("free.json"))
        self.assertTrue(all(name == "keep" for group in free["groups"] for name in group["remat"]))
        for group in free["groups"]:
            same = next((g for g in self.groups["groups"] if g["name"] == group["name"]), None)
            if same and free["cuts"] == self.groups["cuts"]:
                self.assertLessEqual(group["cost"]["token_ns"], same["cost"]["token_ns"] * (1 + 1e-9))

    def test_groups_are_of_one_model(self):
        """A program takes the groups that were made for it, and no others."""
        folder = self.path("own")
        call("omnibal-batch", self.table, "--length-groups", self.path("limited.json"), "--min-gain", 0, "-o", folder)
        file = os.path.join(folder, "groups.json")
        groups = read(file)
        self.assertGreater(len(groups["groups"]), 1)
        self.assertEqual(groups["model"], self.groups["model"])

        def compile_with(model, *flags, code=0):
            with open(file, "w") as out:
                json.dump({key: value for key, value in {**groups, "model": model}.items() if value is not None}, out)
            return call("omnibal-compile", MODEL, "--stages", STAGES, "--data-parallel", REPLICAS, "--batches", folder, "--dry-run", *flags, code=code)

        compile_with(groups["model"])
        for model, flags in ((groups["model"], ("--freeze", "vision")), (groups["model"][::-1], ())):
            self.assertIn("groups.json: `model` is the digest of another model", compile_with(model, *flags, code=1).stderr)
        compile_with(None)

    def test_balancer_takes_the_file(self):
        call("omnibal-batch", self.table, "--length-groups", self.path("limited.json"), "-o", self.path("batches"))
        chosen = read(os.path.join(self.path("batches"), "groups.json"))
        self.assertEqual(chosen["cuts"], self.groups["cuts"])
        self.assertEqual(chosen["model"], self.groups["model"])
        candidates = {group["name"]: group for group in self.groups["groups"]}
        for group in chosen["groups"]:
            for key in ("remat", "bytes", "schedule", "cost", "tiles_cap"):
                self.assertEqual(group[key], candidates[group["name"]][key])

    def test_large_bubbles_are_told_with_what_would_halve_them(self):
        warning = self.emit("bubbles.json", stages=4, step=3000).stderr
        match = re.search(r"length group (\S+): its stages wait for (\d+) % of a step of (\d+) micro-batch.*--tokens-per-step (\d+)", warning)
        self.assertIsNotNone(match, warning)
        group = next(g for g in read(self.path("bubbles.json"))["groups"] if g["name"] == match.group(1))
        rows, waits = int(match.group(3)), 3
        self.assertEqual(rows, group["microbatches"])
        self.assertEqual(int(match.group(2)), round(100 * waits / (rows + waits)))
        needed = int(match.group(4)) / (REPLICAS * group["tokens_cap"])
        self.assertAlmostEqual(waits / (needed + waits), waits / (rows + waits) / 2)

    def test_degrees(self):
        """Replicas that share micro-batches hold longer ones, and recompute no more of equal ones."""
        self.emit("degrees.json", "--memory-limit-bytes", LIMIT, "--degrees", "2,1")
        groups = read(self.path("degrees.json"))
        listed = groups["groups"]
        self.assertEqual([(g["tokens_cap"], g["degree"]) for g in listed], sorted((g["tokens_cap"], g["degree"]) for g in listed))
        of_degree = {degree: {g["tokens_cap"]: g for g in listed if g["degree"] == degree} for degree in (1, 2)}
        for group in listed:
            self.assertEqual(group["ranks"], REPLICAS // group["degree"])
            self.assertEqual(group["name"].endswith(":2"), group["degree"] == 2)
            self.assertEqual(group["microbatches"], max(1, int(STEP / (group["ranks"] * group["tokens_cap"]) + 0.5)))
        self.assertGreater(max(of_degree[2]), max(of_degree[1]))
        self.assertTrue(set(of_degree[1]) <= set(of_degree[2]))
        for tokens, alone in of_degree[1].items():
            shared = of_degree[2][tokens]
            self.assertLessEqual(*(sum(name != "keep" for name in group["remat"]) for group in (shared, alone)))
            self.assertGreater(alone["cost"]["token_ns"], shared["cost"]["token_ns"])
        # One of each, as a program.
        groups["groups"] = [of_degree[1][512], of_degree[2][1500]]
        with open(self.path("two.json"), "w") as file:
            json.dump(groups, file)
        folder, program = self.path("two"), self.path("program-two")
        call("omnibal-batch", self.table, "--length-groups", self.path("two.json"), "--min-gain", 0, "-o", folder)
        self.assertEqual([g["degree"] for g in read(os.path.join(folder, "groups.json"))["groups"]], [1, 2])
        call("omnibal-compile", MODEL, "--stages", STAGES, "--data-parallel", REPLICAS, "--batches", folder, "--memory-limit-bytes", LIMIT,
             "-o", program)
        self.assertEqual([mode["degree"] for mode in read(os.path.join(program, "manifest.json"))["train_modes"]], [1, 2])
        entries = read(os.path.join(program, "stages.json"))
        self.assertEqual([(entry["id"], entry["part"]) for entry in entries], [(s, p) for s in range(STAGES) for p in range(2)])
        self.assertLessEqual(max(entry["arena_bytes"] for entry in entries), LIMIT)

    def test_replicas_of_one_machine(self):
        """What ranks of a context group send is fast where a node holds them, which the order of ranks says."""
        slow = {"latency_ns": 3_000_000, "bytes_per_s": 100_000_000}
        cluster = {"stages": STAGES, "link": slow, "data_parallel": {"size": REPLICAS, **slow},
                   "node": {"ranks": REPLICAS, "latency_ns": 1000, "bytes_per_s": 10**11}}
        with open(self.path("nodes.json"), "w") as file:
            json.dump(cluster, file)
        costs = []
        for order in ("replica", "stage"):
            self.emit(f"{order}.json", "--cluster", self.path("nodes.json"), "--degrees", "2", "--rank-order", order)
            costs.append(read(self.path(f"{order}.json"))["groups"][-1]["cost"])
        for key in ("microbatch_ns", "token_ns"):
            self.assertLess(*(cost[key] for cost in costs), key)

    def test_same_file_again(self):
        self.emit("again.json", "--memory-limit-bytes", LIMIT, "--dry-run")
        self.assertEqual(read(self.path("again.json")), self.groups)

    def test_what_is_refused(self):
        self.assertIn("--calibration", self.uncalibrated())
        self.assertIn("degree 3 does not divide the 2 replicas", self.refused("--degrees", "1,3"))
        self.assertIn("zb-h1", self.refused("--schedule", "zb-h1"))
        error = self.refused("--memory-limit-bytes", 3_000_000)
        self.assertRegex(error, r"sample \d+ \(\d+ tiles, \d+ tokens\) fits into no candidate; \S+ \(.*\): infeasible")
        self.assertIn("--tokens", self.refused("--tokens", 100, code=2))
        self.assertIn("--output", self.refused("-o", self.path("nothing"), code=2))
        empty = self.path("empty.csv")
        with open(empty, "w") as file:
            file.write("vit_num,token_num\n")
        result = call("omnibal-compile", MODEL, "--device", "cpu", "--lengths", empty, "--emit-length-groups", self.path("none.json"), code=1)
        self.assertIn("empty.csv", result.stderr)
        result = call("omnibal-compile", MODEL, "--tiles", 1, "--tokens", 64, "--lengths", self.table, "--dry-run", code=2)
        self.assertIn("--emit-length-groups", result.stderr)
        call("omnibal-compile", MODEL, "--device", "cpu", "--emit-length-groups", self.path("none.json"), code=2)

    def uncalibrated(self):
        return call("omnibal-compile", MODEL, "--lengths", self.table, "--emit-length-groups", self.path("none.json"), code=1).stderr


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
