#!/usr/bin/env python3
"""omnibal-plan --steps and --check-steps as their users see them, on a problem that is small enough to count by hand.

    python3 test/e2e/planning/step_plans_test.py build/bin
"""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(sys.argv[1])


def run(*arguments):
    return subprocess.run([os.path.join(BIN, "omnibal-plan"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def variant(component, times, blocks):
    """Functions of 1, 2, 1 and 1 times `times` a tile (vision) or a token."""
    term = "tile_ns" if component == "vision" else "token_ns"
    return {"name": "keep", "blocks": blocks,
            **{name: {term: factor * times} for name, factor in
               [("forward", 1), ("backward", 2), ("input_grad", 1), ("weight_grad", 1)]}}


def problem():
    """A vision chunk on rank 0 and a language chunk on rank 1, two micro-batches, free links; the static plan runs the
    micro-batches one after the other."""
    block = [{"bytes": [0, 100, 0], "from": "F", "to": "I"}]
    static = [[["F", 0, 0, c], ["B", 0, 0, c], ["F", 1, 0, c], ["B", 1, 0, c]] for c in range(2)]
    return {"schema": "omnibal.step-problem/1", "ranks": 2, "microbatches": 2, "tiles_cap": 8, "tokens_cap": 100,
            "chunks": [{"component": "vision", "rank": 0, "variants": [variant("vision", 10, block)]},
                       {"component": "language", "rank": 1, "variants": [variant("language", 1, [])]}],
            "edges": [{"from": 0, "to": 1, "bytes": [0, 0, 0], "grad_bytes": [0, 8, 0]}],
            "link": {"latency_ns": 0, "bytes_per_s": 1000000000000}, "memory_bytes": 1600, "alignment": 64,
            "sub_microbatches": {"most": 1, "least_tiles": 1}, "weight_gradients": "ascending",
            "static": {"variants": [[0, 0], [0, 0]], "actions": static}}


def loads(step=0, tiles=(4, 4), tokens=(40, 40)):
    return {"step": step, "microbatches": [{"tiles": v, "tokens": n, "squares": n * n, "labels": n}
                                           for v, n in zip(tiles, tokens)]}


class StepPlans(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, *lines):
        path = os.path.join(self.folder.name, name)
        if lines:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        return path

    def plans(self, problem_, *steps, flags=()):
        done = run("--steps", self.path("loads.jsonl", *steps), self.path("problem.json", problem_), "-o",
                   self.path("plans.jsonl"), *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("plans.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file], done.stdout

    def verdict(self, problem_, steps, plans):
        return run("--check-steps", self.path("problem.json", problem_), self.path("loads.jsonl", *steps),
                   self.path("plans.jsonl", *plans))

    def test_plans_are_those_counted_by_hand(self):
        # Both chunks take 40 forward and 80 backward a micro-batch. One after the other: 2 * (40 + 40 + 80 + 80).
        # Overlapped: rank 1 cannot begin before 40, works 240, and rank 0 ends with a backward of 80. Halves let the
        # last input gradient of rank 1 run before its weight gradients: 40 + 40 + 40 (I0) + 40 + 40 (I1) + 80. A gradient
        # of 32 bytes is under way for 1 ns.
        first, second = self.plans(problem(), loads(0), loads(1, tiles=(0, 0)))[0]
        self.assertEqual((first["static_ns"], first["step_ns"], first["method"]), (482, 281, "lists"))
        self.assertLessEqual(first["bound_ns"], 281)
        # Without tiles there is nothing for rank 0 to do.
        self.assertEqual((second["step_ns"], second["static_ns"], second["method"]), (240, 240, "static"))
        self.assertEqual(second["actions"][0], [])
        self.assertEqual(second["sub_microbatches"], [[], []])

    def test_the_summary_says_what_was_gained(self):
        _, text = self.plans(problem(), loads(0), loads(1))
        self.assertIn("2 steps", text)
        self.assertIn("the static plan takes 1.715 times as long", text)

    def test_equal_inputs_give_equal_bytes(self):
        texts = [run("--steps", self.path("loads.jsonl", loads(0)), self.path("problem.json", problem()), "--json").stdout
                 for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        self.assertTrue(texts[0].startswith('{"schema":"omnibal.step-plan/1"'), texts[0][:60])

    def test_every_rule_is_named_when_it_is_broken(self):
        wide = problem()
        wide["sub_microbatches"] = {"most": 2, "least_tiles": 2}
        steps = [loads(0)]
        divided, _ = self.plans(wide, *steps)
        self.assertIn([0, 2, 4], divided[0]["sub_microbatches"])
        self.assertEqual(self.verdict(wide, steps, divided).returncode, 0)
        valid, _ = self.plans(wide, *steps, flags=("--sub-microbatches", "off"))
        self.assertEqual(valid[0]["sub_microbatches"], [[0, 4], [0, 4]])
        self.assertEqual(self.verdict(wide, steps, valid).returncode, 0)

        def swap_first(plan):
            actions = plan["actions"][0]
            actions[0], actions[-1] = actions[-1], actions[0]

        def deadlock(plan):
            plan["actions"] = [[["F", 0, 0, 0], ["B", 0, 0, 0], ["F", 1, 0, 0], ["B", 1, 0, 0]],
                               [["F", 1, 0, 1], ["B", 1, 0, 1], ["F", 0, 0, 1], ["B", 0, 0, 1]]]

        def descending(plan):
            plan["actions"] = [[["F", 0, 0, 0], ["F", 1, 0, 0], ["B", 1, 0, 0], ["B", 0, 0, 0]],
                               [["F", 0, 0, 1], ["F", 1, 0, 1], ["B", 1, 0, 1], ["B", 0, 0, 1]]]

        def overlapping(plan):
            for place in plan["offsets"][0]:
                place[4] = 0

        for rule, change in [
                ("step_s1", lambda p: p.update(sub_microbatches=[[0, 1, 4], [0, 4]])),
                ("step_s2", swap_first),
                ("step_s3", lambda p: p.update(variants=[[[1], [0]], [[0], [0]]])),
                ("step_s4", descending),
                ("step_s5", deadlock),
                ("step_s6", overlapping),
                ("step_s6", lambda p: p["offsets"][0].pop()),
                ("step_s6", lambda p: p["offsets"][0][0].__setitem__(4, 32)),
                ("step_s6", lambda p: p["offsets"][0][0].__setitem__(4, 1280)),
                ("step_s7", lambda p: p.update(step_ns=280)),
                ("step_s7", lambda p: p.update(bound_ns=p["bound_ns"] + 1)),
                ("step_s7", lambda p: p.update(static_ns=481)),
                ("step_s8", lambda p: p.update(method="static"))]:
            plan = copy.deepcopy(valid[0])
            change(plan)
            done = self.verdict(wide, steps, [plan])
            self.assertEqual(done.returncode, 1, f"{rule}: {done.stdout}")
            self.assertIn(f"plans.jsonl:1: {rule}: ", done.stderr)
            self.assertNotIn("terminate", done.stderr)

    def test_bad_files_get_one_error_that_names_the_place(self):
        def changed(*path_and_value):
            broken = problem()
            *path, last, value = path_and_value
            at = broken
            for key in path:
                at = at[key]
            at[last] = value
            return broken

        chunk = ("chunks", 0, "variants", 0)
        for broken, words in [
                (changed("ranks", 0), "problem.json.ranks: an integer from 1"),
                (changed("surplus", 1), 'the field "surplus" is unknown'),
                (changed("chunks", 0, "component", "audio"), "component: one of vision, language, mixed"),
                (changed("chunks", 0, "rank", 2), "problem.json.chunks[0].rank: an integer from 0 to 1"),
                (changed("edges", 0, "from", 1), "an edge leads to a later chunk"),
                (changed(*chunk, "forward", {"tile_ns": -1}), "forward.tile_ns: a number of at least 0"),
                (changed(*chunk, "forward", {"tile_ns": 9e17}), "the times of a step at the caps leave 62 bits"),
                (changed(*chunk, "blocks", 0, "from", "W"), "one of receive, receive_grad, F, I"),
                (changed("static", "actions", 1, []), "static: `actions` lacks the backward of micro-batch 0, chunk 1"),
                (changed("static", "actions", 1, [["F", 1, 0, 1], ["B", 1, 0, 1], ["F", 0, 0, 1], ["B", 0, 0, 1]]),
                 "ranks wait for each other"),
                ("[" * 100000, "deeper than 64"),
                ("", "the file is empty")]:
            done = run("--steps", self.path("loads.jsonl", loads()), self.path("problem.json", broken), "--json")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, "")
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for broken, words in [
                (loads(tiles=(9, 4)), "loads.jsonl:1: micro-batch 0 has 9 tiles; the cap is 8"),
                (loads(tokens=(40, 101)), "micro-batch 1 has 101 tokens; the cap is 100"),
                (loads(tiles=(1,), tokens=(1,)), "it has 1 micro-batches, the problem 2"),
                ({"step": 0}, 'the field "microbatches" is missing'),
                ("{", "loads.jsonl:1")]:
            done = run("--steps", self.path("loads.jsonl", broken), self.path("problem.json", problem()), "--json")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(words, done.stderr)

    def test_plans_and_loads_belong_together(self):
        valid, _ = self.plans(problem(), loads(0), loads(1))
        done = self.verdict(problem(), [loads(0)], valid)
        self.assertIn("2 plans for the 1 steps", done.stderr)
        done = self.verdict(problem(), [loads(1), loads(0)], valid)
        self.assertIn("it is the plan of step 0; the loads there are those of step 1", done.stderr)

    def test_wrong_usage(self):
        for arguments, words in [(["--check-steps", "a"], "--check-steps needs three files"),
                                 (["--steps", "a", "b", "-o", "c", "--report", "d"], "--steps goes with -o and --json"),
                                 (["--steps", "a", "b"], "-o PLAN.json is required")]:
            done = run(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
