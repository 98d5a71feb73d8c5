#!/usr/bin/env python3
"""omnibal-plan as its users see it: published optima, the checker, exit codes and messages.

    python3 test/e2e/planning/plan_tool_test.py build/bin test/data
"""
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

BIN, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PLANS = os.path.join(DATA, "plan")


def run(*arguments):
    return subprocess.run([os.path.join(BIN, "omnibal-plan"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def layout_of(flags):
    """Megatron's layout string as letters of every chunk, from its documented grammar."""
    return [list(re.sub(r"(.)\*(\d+)", lambda m: m.group(1) * int(m.group(2)), chunk))
            for chunk in flags["--pipeline-model-parallel-layout"].split("|")]


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
            self.assertEqual(len(found["ranks"]), len(found["cuts"]) - 1)
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
                             ("plan_c9", {"step_ns": good["step_ns"] + 1}), ("unknown key `color`", {"color": 1})):
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
        steps = [step for step in others.values() if step is not None]
        self.assertGreaterEqual(len(steps), 2)
        self.assertGreaterEqual(min(steps), plan["step_ns"])
        text = run(problem, "--baselines", "-o", self.path("plan.json")).stdout
        for name in others:
            self.assertIn(name, text)

    def test_baselines_beside_a_plan_by_hand(self):
        problem = os.path.join(PLANS, "gpipe_tight.json")
        plan = json.loads(run(problem, "--json", "--baselines").stdout)
        text = run("--check", problem, self.path("cuts.json", {"cuts": plan["cuts"]}), "--baselines").stdout
        for name, step in plan["search"]["baselines"].items():
            row = re.search(rf"^{name} +(\S+) +(\S+) ", text, re.M)
            self.assertEqual(row.group(1), "-" if step is None else f"{step / 1e6:.3f}")
            if step is not None:
                self.assertAlmostEqual(float(row.group(2)), step / plan["step_ns"], places=3)

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
            ("unknown key `color`", self.path("b.json", good | {"color": 1})),
            ("forward_ns", self.path("c.json", good | {"layers": [layer | {"forward_ns": -1}] + good["layers"][1:]})),
            ("stages", self.path("d.json", good | {"cluster": good["cluster"] | {"stages": 0}})),
            ("at most 10 stages", self.path("e.json", good | {"cluster": good["cluster"] | {"stages": 11}})),
            ("bytes", self.path("f.json", good | {"cluster": good["cluster"] | {"memory_bytes": 0}})),
            ("2^59", self.path("g.json", good | {"layers": [layer | {"param_bytes": 2 ** 62}] * 10})),
        ]
        for text, path in cases:
            done = run(path, "-o", self.path("out.json"))
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(os.path.basename(path), done.stderr)
            self.assertIn(text, done.stderr)
            self.assertFalse(os.path.exists(self.path("out.json")))

    def small(self, **changes):
        with open(os.path.join(PLANS, "gpipe_tight.json"), encoding="utf-8") as file:
            return json.load(file) | changes

    def test_text_that_is_no_problem(self):
        good = json.dumps(self.small())
        cases = [("the file is empty", ""), ("the file is empty", " \n\t "), ("nested deeper than 64", "[" * 200000),
                 ("nested deeper than 64", '{"a":' * 65 + "1" + "}" * 65), ("a problem is a JSON object", "[]"),
                 ('the key "schedule" occurs twice', good[:-1] + ', "schedule": "1f1b"}'),
                 ('the key "name" occurs twice', good.replace('"name":', '"\\u006eame": "x", "name":', 1)),
                 ("not valid JSON", good[:-5]), ("not valid JSON", good + "x"),
                 ("not valid JSON", good.replace("1f1b", "\x00")[:-1] + "\x00}"),
                 ("too large", '{"layers": [' + ",".join(["{}"] * 250001) + "]}")]
        for text, content in cases:
            done = run(self.path("p.json", content), "-o", self.path("out.json"))
            self.assertEqual(done.returncode, 1, content[:60])
            self.assertIn(text, done.stderr)
            self.assertTrue(done.stderr.startswith(f"omnibal-plan: error: {self.path('p.json')}: "), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        with open(self.path("mark.json"), "wb") as file:
            file.write(b"\xef\xbb\xbf" + good.encode())
        self.assertEqual(run(self.path("mark.json"), "--json").returncode, 0)
        done = run(self.folder.name, "-o", self.path("out.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("directory", done.stderr.lower())

    def test_numbers_out_of_range(self):
        good = self.small()
        layer, cluster = good["layers"][0], good["cluster"]
        huge = 9_000_000_000_000_000_000
        def first(**change):
            return good | {"layers": [layer | change] + good["layers"][1:]}
        def option(**change):
            return first(remat=[layer["remat"][0] | change] + layer["remat"][1:])
        def link(**change):
            return good | {"cluster": cluster | {"link": cluster["link"] | change}}
        replicas = {"size": 2, "latency_ns": 0, "bytes_per_s": 1}
        cases = [("`forward_ns` must be an integer", first(forward_ns=1.5)), ("all times", first(forward_ns=huge)),
                 ("`forward_ns` must be an integer", first(forward_ns=2 ** 64)), ("all sizes", first(param_bytes=huge)),
                 ("all sizes", option(saved_bytes=huge)), ("all sizes", option(split_bytes=huge)),
                 ("all sizes", option(workspace_bytes=huge)), ("all times", option(recompute_ns=huge)),
                 ("`cluster.link`", link(latency_ns=huge)), ("bytes_per_s", link(bytes_per_s=0)),
                 ("`bytes_per_s` must be an integer", link(bytes_per_s=-5)),
                 ("`memory_bytes`", good | {"cluster": cluster | {"memory_bytes": 0}}),
                 ("2^60", good | {"cluster": cluster | {"memory_bytes": [2 ** 62]}}),
                 ("list of one or `stages`", good | {"cluster": cluster | {"memory_bytes": [5] * (cluster["stages"] + 1)}}),
                 ("every action", good | {"microbatches": huge}), ("at least 1", good | {"microbatches": 0}),
                 ("at least 1", good | {"microbatches": []}), ("`stages`", good | {"cluster": cluster | {"stages": huge}}),
                 ("`data_parallel", good | {"cluster": cluster | {"data_parallel": replicas | {"size": huge}}}),
                 ("make 2 chunks, but gpipe on 3 stages has 3", good | {"cluster": cluster | {"stages": 3, "memory_bytes": 10 ** 9},
                                                                       "vary": {"cuts": False}, "given": {"cuts": [0, 3, 10]}}),
                 ("`layers` is missing", good | {"layers": [], "edges": []}),
                 ("`vision`", good | {"microbatches": [{"vision": -1}]}), ('"vision"', good | {"microbatches": [{"vision": 1e400}]}),
                 ("exceeds 2^59", good | {"microbatches": [{"vision": 9e17, "language": 9e17}]})]
        for text, problem in cases:
            content = json.dumps(problem).replace("Infinity", "1e400")
            done = run(self.path("p.json", content), "-o", self.path("out.json"))
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertFalse(os.path.exists(self.path("out.json")))

    def chain(self, layers, stages, **changes):
        option = {"saved_bytes": 10, "recompute_ns": 0, "workspace_bytes": 1}
        return {"schema": "omnibal.plan-problem/1",
                "layers": [{"name": f"layer.{i}", "kind": "language", "forward_ns": 100 + i % 7, "input_grad_ns": 100,
                            "weight_grad_ns": 100, "param_bytes": 10, "grad_bytes": 0,
                            "remat": [{"name": "keep"} | option]} for i in range(layers)],
                "edges": [{"from": i, "to": i + 1, "bytes": 1, "grad_bytes": 1} for i in range(layers - 1)],
                "cluster": {"stages": stages, "memory_bytes": 10 ** 12, "link": {"latency_ns": 1, "bytes_per_s": 10 ** 9}},
                "microbatches": 4, "schedule": "1f1b"} | changes

    def test_more_stages_than_layers(self):
        for stages in (5, 2_000_000):
            done = run(self.path("p.json", self.chain(4, stages)), "-o", self.path("out.json"))
            self.assertEqual(done.returncode, 1)
            self.assertIn("at most 4 stages", done.stderr)
            self.assertFalse(os.path.exists(self.path("out.json")))

    def test_time_limits_hold(self):
        """Searches that would take minutes: a plan, or that nothing fits, soon after the limit."""
        options = [{"name": n, "saved_bytes": s, "recompute_ns": r, "workspace_bytes": w} for n, s, r, w in (
            ("keep", 1000, 0, 5), ("selective", 500, 13, 9), ("full", 10, 100, 20))]
        for fits in (True, False):
            problem = self.chain(3000, 32, microbatches=48)
            for i, layer in enumerate(problem["layers"]):
                layer["remat"] = [o | {"saved_bytes": o["saved_bytes"] + i % 97, "recompute_ns": o["recompute_ns"] * (1000 + i * i % 83) // 1000}
                                  for o in options]
            problem["cluster"]["memory_bytes"] = [350000 if fits else 20000]
            start = time.monotonic()
            done = run(self.path("p.json", problem), "-o", self.path("out.json"), "--time-limit", "1", "--baselines")
            self.assertLess(time.monotonic() - start, 60)
            self.assertEqual(done.returncode, 0 if fits else 1, done.stderr)
            if fits:
                self.assertEqual(run("--check", self.path("p.json"), self.path("out.json")).returncode, 0)
            else:
                self.assertIn("bytes are missing", done.stderr)

    def test_progress_on_a_terminal(self):
        """From the second second on, with the time left; nothing of it where errors are no terminal."""
        problem = self.chain(1500, 24, microbatches=48)
        for i, layer in enumerate(problem["layers"]):
            layer["forward_ns"] += i * i % 89
            layer["remat"] = [layer["remat"][0] | {"saved_bytes": 1000 + i % 97}, {
                "name": "full", "saved_bytes": 10 + i % 3, "recompute_ns": 100 + i * i % 83, "workspace_bytes": 20}]
        problem["cluster"]["memory_bytes"] = [900000]
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        done = subprocess.run([os.path.join(BIN, "omnibal-plan"), self.path("p.json", problem), "--json", "--time-limit", "3"],
                              stdout=subprocess.PIPE, stderr=theirs, timeout=120)
        os.close(theirs)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["search"].get("stopped"), "time-limit")
        self.assertRegex(os.read(ours, 100000).decode(), r"searching for a plan \(at most 3 s\): \d+ s, about \d+ s left")

    def test_exports_to_megatron(self):
        problem = self.chain(10, 2)
        problem["layers"][-1]["kind"] = "head"
        given = {"cuts": [0, 4, 10], "remat": ["keep"] * 10}
        def export(problem, plan):
            done = run("--check", self.path("p.json", problem), self.path("plan.json", plan), "--export", "megatron")
            self.assertEqual(done.returncode, 0, done.stderr)
            words = shlex.split(done.stdout.replace("\\\n", " "))
            return dict(zip(words[::2], words[1::2])), done.stderr
        flags, warnings = export(problem, given)
        # The first layer, which nothing feeds, is the embedding.
        self.assertEqual(flags, {"--pipeline-model-parallel-size": "2", "--pipeline-model-parallel-layout": "Et*3|t*5L",
                                 "--num-layers": "8", "--micro-batch-size": "1", "--global-batch-size": "4"})
        self.assertEqual(warnings, "")
        self.assertEqual(layout_of(flags), [["E", "t", "t", "t"], ["t"] * 5 + ["L"]])
        # Several chunks a rank.
        flags, warnings = export(problem | {"schedule": "interleaved:2"}, given | {"cuts": [0, 1, 3, 9, 10]})
        self.assertEqual(flags["--pipeline-model-parallel-layout"], "E|t*2|t*6|L")
        self.assertEqual(warnings, "")
        # One count of recomputed layers for all chunks.
        full = {"name": "full", "saved_bytes": 1, "recompute_ns": 100, "workspace_bytes": 5}
        for layer in problem["layers"]:
            layer["remat"] = layer["remat"] + [full, full | {"name": "selective", "recompute_ns": 10}]
        for remat, want, says in (
                ("kffkffkkkk", ("full", "block", "2"), []), ("kffkkkkkkk", ("full", "block", "2"), ["one number of layers"]),
                ("kkkffkkkkk", ("full", "block", "1"), ["first layers of a chunk"]), ("kffffffffk", ("full", "uniform", "1"), []),
                ("kssssssssk", ("selective", None, None), ["core attention"]), ("ffffffffff", ("full", "uniform", "1"), ["do not reach"]),
                ("kskkskkkkk", ("full", "block", "1"), ["a part only"]), ("kkkkkkkkkk", (None, None, None), [])):
            names = [{"k": "keep", "f": "full", "s": "selective"}[r] for r in remat]
            flags, warnings = export(problem, given | {"remat": names})
            self.assertEqual(tuple(flags.get(f"--recompute-{part}") for part in ("granularity", "method", "num-layers")), want, remat)
            self.assertEqual(warnings.count("warning"), len(says), warnings)
            for text in says:
                self.assertIn(text, warnings)
        # What Megatron does otherwise.
        vision = json.loads(json.dumps(problem))
        vision["layers"][0]["kind"] = vision["layers"][1]["kind"] = "vision"
        vision["layers"][2]["kind"] = "projector"
        vision["edges"] = [e for e in vision["edges"] if e["from"] != 2] + [{"from": 2, "to": 4, "bytes": 1, "grad_bytes": 1}]
        flags, warnings = export(vision | {"schedule": "gpipe"}, {"cuts": [0, 3, 10], "remat": ["keep"] * 10})
        self.assertEqual(flags["--pipeline-model-parallel-layout"], "E|t*5L")
        for text in ("own encoder", "Megatron computes it on the first one", "not gpipe"):
            self.assertIn(text, warnings)
        done = run("--check", self.path("p.json", problem | {"schedule": "auto"}), self.path("plan.json", {
            "cuts": [0, 4, 10], "chunk_rank": [1, 0], "remat": ["keep"] * 10, "schedule": "auto", "actions": [
                [[k, m, 1] for m in range(4) for k in "FB"], [["F", m, 0] for m in range(4)] + [["B", m, 0] for m in range(4)]]}),
            "--export", "megatron")
        self.assertEqual(done.returncode, 1)
        self.assertIn("chunk 0 of 2 is on stage 1", done.stderr)

    def choice(self, **changes):
        """Two ranks that run a stage together take 0.6 of the time of one, and hold half."""
        def costs(parts):
            problem = self.chain(8, 1)
            layers = [layer | {"param_bytes": 1000 // parts, "state_bytes": 600 // parts, "forward_ns": (100_000, 60_000)[parts - 1]}
                      for layer in problem["layers"]]
            return {"parts": parts, "layers": layers, "edges": problem["edges"]}
        slow = {"latency_ns": 1000, "bytes_per_s": 10 ** 9}
        return {"schema": "omnibal.plan-choice/1", "ranks": 4, "groups": 8, "schedule": "1f1b",
                "cluster": {"memory_bytes": 10 ** 9, "link": slow, "data_parallel": slow}, "costs": [costs(1), costs(2)]} | changes

    def test_ranks_that_nobody_has_divided(self):
        problem, plan = self.path("problem.json"), self.path("plan.json")
        done = run(self.path("choice.json", self.choice()), "-o", plan, "--emit-problem", problem, "--report", self.path("plan.html"),
                   "--trace", self.path("trace.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        # Without parts and stages nothing is waited for or exchanged but gradients, of which there are none.
        self.assertRegex(done.stdout, r"\n +1 +1 +4 +no +2 .*  chosen\n")
        self.assertRegex(done.stdout, r"no plan of any division takes less than [0-9.]+ ms \(gap 0\.00%\)\n$")
        with open(problem, encoding="utf-8") as file:
            chosen = json.load(file)
        self.assertEqual((chosen["cluster"]["stages"], chosen["cluster"]["data_parallel"]["size"], chosen["microbatches"]), (1, 4, 2))
        self.assertEqual(run("--check", problem, plan).stdout, f"{plan}: valid\n")
        self.assertTrue(all(os.path.getsize(self.path(name)) > 1000 for name in ("plan.html", "trace.json")))
        # A layer has 1000 bytes and 11 more of activations on a rank, half of the former where two run it.
        for limit, row in ((7000, "2 +1 +2 +no"), (2200, "2 +2 +1 +no")):
            cluster = self.choice()["cluster"] | {"memory_bytes": limit}
            done = run(self.path("choice.json", self.choice(cluster=cluster, zero=0)), "-o", plan)
            self.assertEqual(done.returncode, 0, f"{limit}: {done.stderr}")
            self.assertRegex(done.stdout, rf"\n +{row} .*  chosen\n", limit)
            self.assertIn("does not fit", done.stdout)
        done = run(self.path("choice.json", self.choice(cluster=self.choice()["cluster"] | {"memory_bytes": 100})), "-o", plan)
        self.assertEqual(done.returncode, 1)
        self.assertIn("choice.json: no division of 4 ranks has a plan\n", done.stderr)
        self.assertEqual([" bytes more on every stage" in line for line in done.stderr.splitlines()[1:]], [True] * 8, done.stderr)
        one, other = self.choice()["costs"]
        for text, changes in (("no division of 4 ranks gives every replica equally many of 8 groups", {"stages": 3}), ("`ranks` must be", {"ranks": 0}),
                              ("has 1 layers, the first costs have 8", {"costs": [one, other | {"layers": other["layers"][:1], "edges": []}]})):
            done = run(self.path("choice.json", self.choice(**changes)), "-o", plan)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.startswith(f"omnibal-plan: error: {self.path('choice.json')}: "), done.stderr)
            self.assertIn(text, done.stderr)
        done = run("--check", self.path("choice.json", self.choice()), plan)
        self.assertEqual(done.returncode, 1)
        self.assertIn("`schema` is omnibal.plan-choice/1, expected omnibal.plan-problem/1", done.stderr)

    def test_a_division_for_megatron(self):
        done = run(self.path("choice.json", self.choice(parts=2, stages=1, zero=1)), "--export", "megatron")
        self.assertEqual(done.returncode, 0, done.stderr)
        for flag in ("--tensor-model-parallel-size 2 ", "--pipeline-model-parallel-size 1 ", "--global-batch-size 8 ", "--use-distributed-optimizer\n"):
            self.assertIn(flag, done.stdout)
        export = json.loads(run(self.path("choice.json"), "--export", "json").stdout)
        self.assertEqual([export[key] for key in ("microbatches", "data_parallel", "model_parallel", "zero")], [4, 2, 2, 1])

    def test_exports_names(self):
        done = run(self.path("p.json", self.chain(7, 3)), "--export", "json")
        export = json.loads(done.stdout)
        self.assertEqual(sum((chunk["layers"] for chunk in export["chunks"]), []),
                         [{"name": f"layer.{i}", "kind": "language", "remat": "keep"} for i in range(7)])
        self.assertEqual([chunk["rank"] for chunk in export["chunks"]], [0, 1, 2])
        self.assertEqual([len(chunk["layers"]) for chunk in export["chunks"]],
                         [b - a for a, b in zip(export["plan"]["cuts"], export["plan"]["cuts"][1:])])
        self.assertEqual(export["plan"]["schema"], "omnibal.plan/1")

    def test_the_published_case_reads_partition_strings_as_the_paper_does(self):
        sys.path.append(os.path.join(os.path.dirname(DATA), "bench", "published_case"))
        import published_case as case
        kinds = ["vision"] * 46 + ["projector"] + ["language"] * 49 + ["head"]
        problem = {"layers": [{"name": "embedding" if i in (0, 47) else "layer", "kind": kind} for i, kind in enumerate(kinds)],
                   "edges": [{"from": i, "to": i + 1 + (i == 46), "bytes": case.BYTES[kinds[i]]} for i in range(96) if i != 47]
                   + [{"from": 47, "to": 48, "bytes": case.BYTES["language"]}]}
        told = {"published 0,23,47,72,101": ("21 ViT / 24 ViT / projector + 23 LLM / 25 LLM + head", 160.6),
                "published 0,24,48,73,101": ("22 ViT / 23 ViT + projector / 24 LLM / 24 LLM + head", 131.3)}
        self.assertEqual(case.PUBLISHED.keys(), told.keys())
        for name, modules in case.PUBLISHED.items():
            cuts = [0, *(case.layer_of(m, 97) for m in modules), 97]
            self.assertEqual(case.described(problem, cuts), told[name][0])
            self.assertAlmostEqual(sum(case.crossing(problem, c) for c in cuts[1:-1]) / 2 ** 20, told[name][1], places=1)

    def test_traces(self):
        """A plan's trace has every action where the plan's file says; unit tests look at lanes and arrows."""
        problem = os.path.join(PLANS, "frozen_vision_skip_tight_dp.json")
        self.assertEqual(run(problem, "-o", self.path("plan.json"), "--trace", self.path("trace.json")).returncode, 0)
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertGreaterEqual(len(plan["actions"]), 2)
        for rank, actions in enumerate(plan["actions"]):
            self.assertTrue(actions, rank)
            shown = [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["tid"] == 0 and "micro-batch" in e["args"]]
            self.assertEqual([[e["name"][0], e["args"]["micro-batch"], e["args"]["chunk"]] for e in shown], actions)
            self.assertEqual(max(e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == rank),
                             plan["ranks"][rank]["peak_bytes"])
        self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") * 1000, plan["step_ns"], delta=1)

    def test_usage(self):
        self.assertEqual(run("--help").returncode, 0)
        self.assertEqual(run("--version").returncode, 0)
        problem = os.path.join(PLANS, "gpipe_tight.json")
        for arguments in ([], [problem], ["--check", problem], [problem, problem, "-o", self.path("x")],
                          [problem, "-o", self.path("x"), "--time-limit", "0"], [problem, "--color"]):
            self.assertEqual(run(*arguments).returncode, 2, arguments)
        done = run(problem, "-o", os.path.join(self.folder.name, "no", "plan.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/plan.json", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
