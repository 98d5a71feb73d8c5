#!/usr/bin/env python3
"""omnibal-compile --ranks as users call it: rank_search_test.py BIN_FOLDER DATA_FOLDER

The division that it chooses is compared with programs that are compiled for every division by hand.
"""
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl", "model.onnx")
CAPS = ("--tiles", "4", "--tokens", "128")
LAYERS = 14
ROW = re.compile(r" +(\d+) +(\d+) +(yes|no) +(\d+) +(\S+)(?: ms)? +(\S+)(?: ms)?  (.*)")


def run_compiler(*arguments):
    command = [os.path.join(BIN, "omnibal-compile"), MODEL, *CAPS, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def compile_model(*arguments, code=0):
    result = run_compiler(*arguments)
    if result.returncode != code:
        raise AssertionError(f"exit {result.returncode} from {' '.join(result.args)}\n{result.stdout}\n{result.stderr}")
    return result.stdout if code == 0 else result.stderr


def divisions(ranks, groups):
    return [(stages, ranks // stages, zero) for stages in range(1, min(ranks, LAYERS) + 1) if ranks % stages == 0
            for zero in (0, 1) if groups % (ranks // stages) == 0 and (zero == 0 or ranks > stages)]


def predicted(text):
    return float(re.search(r"predicted step: ([0-9.]+) ms", text)[1])


def rows(text):
    return [match.groups() for match in map(ROW.fullmatch, text.splitlines()) if match]


class RankSearch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-ranks-")
        cls.addClassCleanup(shutil.rmtree, cls.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(value, file)
        return self.path(name)

    def by_hand(self, ranks, groups, *flags):
        """Predicted milliseconds of each division; None: it has no plan."""
        steps = {}
        for stages, replicas, zero in divisions(ranks, groups):
            result = run_compiler("--stages", stages, "--data-parallel", replicas, "--zero", zero, "--microbatches", groups // replicas,
                                  "--dry-run", *flags)
            self.assertIn(result.returncode, (0, 1), result.stderr)
            if result.returncode == 1:
                self.assertIn("infeasible", result.stderr)
            steps[stages, replicas, zero] = predicted(result.stdout) if result.returncode == 0 else None
        return steps

    def check(self, ranks, groups, *flags):
        steps = self.by_hand(ranks, groups, *flags)
        text = compile_model("--ranks", ranks, "--groups", groups, "--dry-run", *flags)
        table = {(int(stages), int(replicas), int(zero == "yes")): (step, outcome)
                 for stages, replicas, zero, _, step, _, outcome in rows(text)}
        self.assertEqual(set(table), set(steps), text)
        best = min(step for step in steps.values() if step is not None)
        self.assertAlmostEqual(predicted(text), best, delta=0.011)
        for division, (step, outcome) in table.items():
            if outcome == "does not fit":
                self.assertIsNone(steps[division], text)
                self.assertIn(f"{division[0]} x {division[1]}{' with ZeRO-1' if division[2] else ''}: infeasible", text)
            elif outcome.startswith("its bound"):
                self.assertGreaterEqual(steps[division] or best, best)
            elif "far behind" not in outcome:
                self.assertAlmostEqual(float(step), steps[division], delta=0.011, msg=f"{division}\n{text}")
        chosen = [division for division, (_, outcome) in table.items() if outcome == "chosen"]
        self.assertEqual(len(chosen), 1, text)
        self.assertAlmostEqual(steps[chosen[0]], best, delta=0.011)
        return chosen[0], steps

    def test_equals_the_best_of_all_divisions(self):
        slow = {"link": {"latency_ns": 5000, "bytes_per_s": 2_000_000_000}, "data_parallel": {"latency_ns": 50_000, "bytes_per_s": 20_000_000}}
        chosen = set()
        for number, (ranks, groups, flags) in enumerate([
                (4, 8, ()), (6, 12, ()), (4, 4, ("--schedule", "zb-h1")), (4, 8, ("--memory-limit-bytes", 6_500_000)),
                (8, 16, ("--memory-limit-bytes", 4_000_000))]):
            chosen.add(self.check(ranks, groups, *flags)[0])
        # Gradients over a slow link cost more than messages between stages.
        cluster = self.write("slow.json", slow)
        text = compile_model("--ranks", 4, "--groups", 8, "--cluster", cluster, "--dry-run")
        given = self.write("given.json", {"stages": 4, **slow})
        by_hand = compile_model("--stages", 4, "--cluster", given, "--microbatches", 8, "--dry-run")
        self.assertEqual(predicted(text), predicted(by_hand))
        self.assertIn(("4", "1", "no"), [row[:3] for row in rows(text) if row[-1] == "chosen"])
        self.assertGreaterEqual(len(chosen), 2, "every case chose the same division")

    def test_the_program_is_that_of_the_division_by_hand(self):
        compile_model("--ranks", 4, "--groups", 8, "--stages", 2, "--zero", 1, "-o", self.path("searched"))
        compile_model("--stages", 2, "--data-parallel", 2, "--zero", 1, "--microbatches", 4, "-o", self.path("given"))
        names = sorted(os.listdir(self.path("given")))
        self.assertEqual(names, sorted(os.listdir(self.path("searched"))))
        same, different, lacking = filecmp.cmpfiles(self.path("given"), self.path("searched"), names, shallow=False)
        self.assertEqual((different, lacking), ([], []))
        self.assertEqual(same, names)

    def test_a_schedule_by_search_is_searched_where_it_can_win(self):
        text = compile_model("--ranks", 4, "--groups", 8, "--schedule", "auto", "--memory-limit-bytes", 8_000_000, "--dry-run")
        steps = self.by_hand(4, 8, "--schedule", "auto", "--memory-limit-bytes", 8_000_000)
        self.assertAlmostEqual(predicted(text), min(filter(None, steps.values())), delta=0.011)

    def test_what_is_given_stays(self):
        text = compile_model("--ranks", 4, "--groups", 8, "--data-parallel", 2, "--zero", "auto", "--stages", "auto", "--dry-run")
        self.assertEqual({row[:2] for row in rows(text)}, {("2", "2")})
        text = compile_model("--ranks", 4, "--groups", 8, "--zero", 1, "--dry-run")
        self.assertEqual({row[2] for row in rows(text)}, {"yes"})

    def test_a_node_makes_links_fast(self):
        slow = {"latency_ns": 1_000_000, "bytes_per_s": 50_000_000}
        cluster = {"link": slow, "data_parallel": slow}
        node = {"ranks": 2, "latency_ns": 1000, "bytes_per_s": 50_000_000_000}
        plain = compile_model("--ranks", 4, "--groups", 8, "--cluster", self.write("plain.json", cluster), "--dry-run")
        fast = compile_model("--ranks", 4, "--groups", 8, "--cluster", self.write("node.json", {**cluster, "node": node}), "--dry-run")
        self.assertLess(predicted(fast), predicted(plain))
        # With the division given, too; both stages are in one node.
        hand = {"stages": 2, "link": {key: node[key] for key in slow}, "data_parallel": {"size": 2, **slow}}
        given = {"stages": 2, "link": slow, "data_parallel": {"size": 2, **slow}, "node": node}
        steps = [predicted(compile_model("--cluster", self.write(f"{name}.json", value), "--dry-run"))
                 for name, value in (("hand", hand), ("given", given))]
        self.assertEqual(*steps)

    def test_refusals(self):
        cluster = self.write("uneven.json", {"stages": 2, "memory_bytes": [1_000_000_000, 2_000_000_000]})
        node = self.write("half.json", {"stages": 1, "node": {"ranks": 2}})
        for words, flags, code in (
                ("--ranks needs --groups", ("--ranks", 4), 2),
                ("--groups needs --ranks", ("--groups", 4), 2),
                ("--stages auto needs --ranks", ("--stages", "auto"), 2),
                ("--zero auto needs --ranks", ("--zero", "auto"), 2),
                ("--microbatches is about replicas that are known", ("--ranks", 4, "--groups", 4, "--microbatches", 4), 2),
                ("no division of 4 ranks", ("--ranks", 4, "--groups", 3, "--stages", 2, "--dry-run"), 1),
                ("no division of 4 ranks has a plan", ("--ranks", 4, "--groups", 4, "--memory-limit-bytes", 1000, "--dry-run"), 1),
                ("all ranks have the same memory", ("--ranks", 4, "--groups", 4, "--cluster", cluster, "--dry-run"), 1),
                ("node: `latency_ns` is missing", ("--cluster", node, "--dry-run"), 1)):
            self.assertIn(words, compile_model(*flags, code=code))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
