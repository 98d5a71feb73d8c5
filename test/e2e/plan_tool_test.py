#!/usr/bin/env python3
"""omnibal-plan as its users see it: published optima, the checker, exit codes and messages.

    python3 test/e2e/plan_tool_test.py build/bin test/data
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PLANS = os.path.join(DATA, "plan")


def run(*arguments):
    return subprocess.run([os.path.join(BIN, "omnibal-plan"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


class PlanTool(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, content=None):
        path = os.path.join(self.folder.name, name)
        if content is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def test_published_optima(self):
        with open(os.path.join(PLANS, "expected.json"), encoding="utf-8") as file:
            expected = json.load(file)
        names = sorted(set(os.listdir(PLANS)) - {"expected.json"})
        self.assertGreaterEqual(len(names), 6)
        for name in names:
            problem, plan = os.path.join(PLANS, name), self.path(name)
            done = run(problem, "-o", plan)
            if not expected[name]["feasible"]:
                self.assertEqual(done.returncode, 1)
                self.assertIn("bytes", done.stderr)
                self.assertFalse(os.path.exists(plan))
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(plan, encoding="utf-8") as file:
                found = json.load(file)
            self.assertEqual(set(found), {"schema", "cuts", "chunk_rank", "remat", "schedule", "actions", "step_ns",
                                          "lower_bound_ns", "gap", "ranks", "search"})
            for rank in found["ranks"]:
                self.assertEqual(set(rank), {"forward_ns", "backward_ns", "recompute_ns", "peak_bytes", "limit_bytes",
                                             "idle_ns"})
            self.assertEqual(found["step_ns"], expected[name]["optimal_step_ns"])
            self.assertEqual((found["lower_bound_ns"], found["gap"]), (found["step_ns"], 0))
            self.assertTrue(found["search"]["proved_optimal"])
            self.assertEqual(run("--check", problem, plan).returncode, 0)

    def test_same_problem_same_plan(self):
        problem = os.path.join(PLANS, "microbatch_factors_tight.json")
        plans = [json.loads(run(problem, "--json").stdout) for _ in range(2)]
        for plan in plans:
            del plan["search"]["seconds"]
        self.assertEqual(plans[0], plans[1])

    def test_the_checker_names_what_is_wrong(self):
        problem, plan = os.path.join(PLANS, "gpipe_tight.json"), self.path("plan.json")
        self.assertEqual(run(problem, "-o", plan).returncode, 0)
        with open(plan, encoding="utf-8") as file:
            good = json.load(file)
        for rule, change in (("plan_c1", {"cuts": [0, 0] + good["cuts"][2:]}), ("plan_c3", {"remat": ["keep"]}),
                             ("plan_c8", {"remat": ["keep"] * len(good["remat"])}),
                             ("plan_c9", {"step_ns": good["step_ns"] + 1}), ("unknown key `colour`", {"colour": 1})):
            done = run("--check", problem, self.path("changed.json", good | change))
            self.assertEqual(done.returncode, 1, rule)
            self.assertIn(rule, done.stderr)
        done = run("--check", problem, self.path("changed.json", good | {"step_ns": 1}), "--json")
        self.assertEqual(json.loads(done.stdout)["valid"], False)

    def test_baselines(self):
        problem = os.path.join(PLANS, "gpipe_tight.json")
        plan = json.loads(run(problem, "--baselines", "--json").stdout)
        others = plan["search"]["baselines"]
        self.assertEqual(set(others), {"equal-layers", "equal-parameters", "vision-first", "profile-greedy", "bmp",
                                       "adapipe", "megatron"})
        self.assertTrue(all(step is None or step >= plan["step_ns"] for step in others.values()))
        text = run(problem, "--baselines", "-o", self.path("plan.json")).stdout
        for name in others:
            self.assertIn(name, text)

    def test_cuts_alone(self):
        problem = os.path.join(PLANS, "gpipe_tight.json")
        cuts = json.loads(run(problem, "--json").stdout)["cuts"]
        self.assertEqual(run("--check", problem, self.path("cuts.json", {"cuts": cuts})).returncode, 0)

    def test_bad_input(self):
        with open(os.path.join(PLANS, "gpipe_tight.json"), encoding="utf-8") as file:
            good = json.load(file)
        layer = good["layers"][0]
        cases = [
            ("cannot be read", os.path.join(self.folder.name, "absent.json")),
            ("JSON", self.path("a.json", "{")),
            ("unknown key `colour`", self.path("b.json", good | {"colour": 1})),
            ("forward_ns", self.path("c.json", good | {"layers": [layer | {"forward_ns": -1}] + good["layers"][1:]})),
            ("stages", self.path("d.json", good | {"cluster": good["cluster"] | {"stages": 0}})),
            ("at most 10 stages", self.path("e.json", good | {"cluster": good["cluster"] | {"stages": 11}})),
            ("bytes", self.path("f.json", good | {"cluster": good["cluster"] | {"memory_bytes": 0}})),
            ("2^62", self.path("g.json", good | {"layers": [layer | {"param_bytes": 2 ** 62}] * 10})),
        ]
        for text, path in cases:
            done = run(path, "-o", self.path("out.json"))
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(os.path.basename(path), done.stderr)
            self.assertIn(text, done.stderr)
            self.assertFalse(os.path.exists(self.path("out.json")))

    def test_usage(self):
        self.assertEqual(run("--help").returncode, 0)
        self.assertEqual(run("--version").returncode, 0)
        problem = os.path.join(PLANS, "gpipe_tight.json")
        for arguments in ([], [problem], ["--check", problem], [problem, problem, "-o", self.path("x")],
                          [problem, "-o", self.path("x"), "--time-limit", "0"], [problem, "--colour"]):
            self.assertEqual(run(*arguments).returncode, 2, arguments)
        done = run(problem, "-o", os.path.join(self.folder.name, "no", "plan.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/plan.json", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
