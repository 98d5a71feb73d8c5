#!/usr/bin/env python3
"""Runs whose steps are planned one by one: step_runs_test.py BIN_FOLDER DATA_FOLDER [unittest options].
Losses are compared with runs of another launcher, of other threads, in two parts, and of a fixed schedule; plans with those
that omnibal-plan makes of the same problem and loads."""
import json
import os
import re
import subprocess
import sys
import tarfile
import unittest
from random import Random

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, DATA, MODEL, MPIRUN, RunCase  # noqa: E402

VERIFIED = {"OMNIBAL_VERIFY_STEPS": "1"}
TILES, TOKENS = 24, 420  # the caps of RunCase's programs
STEPS = int(os.environ.get("OMNIBAL_TEST_STEPS", "100"))


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class StepRuns(RunCase):
    layouts = {"planned": ("--stages", "2", "--schedule", "per-step"),
               "tight": ("--stages", "2", "--schedule", "per-step", "--memory-limit-bytes", "18000000"),
               "lean": ("--stages", "2", "--schedule", "per-step", "--memory-limit-bytes", "12000000"), "auto": ("--stages", "2", "--schedule", "auto"),
               "divided": ("--stages", "4", "--schedule", "per-step"),
               "whole": ("--stages", "4", "--schedule", "per-step", "--sub-microbatches", "off"),
               "divided-lean": ("--stages", "4", "--schedule", "per-step", "--memory-limit-bytes", "9000000"),
               "divided-frozen": ("--stages", "4", "--schedule", "per-step", "--freeze", "vision"),
               "frozen": ("--stages", "2", "--freeze", "vision"),
               "replicas": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2", "--schedule", "per-step")}

    def log(self, *flags, **options):
        """Lines of a run's log."""
        path = self.path("log.jsonl")
        if os.path.exists(path):
            os.remove(path)
        self.said = self.run_tool("--log", path, *flags, **options)
        with open(path) as file:
            return [json.loads(line) for line in file]

    def losses(self, *flags, **options):
        return [(line["loss"], line["grad_norm"]) for line in self.log(*flags, **options)]

    def sizes(self):
        """key -> (tiles, tokens) of the samples."""
        with tarfile.open(f"{MODEL}/data-000000.tar") as tar:
            samples = {m.name[:-5]: json.load(tar.extractfile(m)) for m in tar if m.name.endswith(".json")}
        return {key: (sample["images"], len(sample["input_ids"])) for key, sample in samples.items()}

    def loads(self, step):
        """What the micro-batches of a step weigh, as a line of omnibal-plan --steps."""
        sizes = [[self.sizes()[key] for key in group] for group in self.steps[step]]
        return {"step": step, "microbatches": [{"tiles": sum(v for v, _ in group), "tokens": sum(n for _, n in group),
                                                "squares": sum(n * n for _, n in group), "labels": 0} for group in sizes]}

    def test_losses_do_not_depend_on_threads_and_launchers(self):
        planned = self.losses(program="planned", environment=VERIFIED)
        self.assertEqual(self.losses("--threads", 3, program="planned", environment=VERIFIED), planned)
        self.assertEqual(self.losses(program="planned", launcher=(*MPIRUN, "2"), environment=VERIFIED), planned)
        for (loss, _), (fixed, _) in zip(planned, self.losses(program="auto")):
            self.assertAlmostEqual(loss, fixed, delta=2e-6 * fixed)

    def test_large_vision_inputs_run_in_parts(self):
        fixed = {name: self.log(program=name) for name in ("auto", "frozen")}
        for program, rival in (("divided", "auto"), ("divided-lean", "auto"), ("divided-frozen", "frozen")):
            with self.subTest(program=program):
                lines = self.log(program=program, environment={**VERIFIED, "OMNIBAL_GUARD": "1"})
                self.assertGreater(sum(line["divided_microbatches"] for line in lines), len(lines) / 2)
                for line, other in zip(lines, fixed[rival], strict=True):
                    self.assertAlmostEqual(line["loss"], other["loss"], delta=2e-6 * other["loss"])
                    self.assertAlmostEqual(line["grad_norm"], other["grad_norm"], delta=1e-5 * other["grad_norm"])
                losses = [(line["loss"], line["grad_norm"]) for line in lines]
                self.assertEqual(self.losses("--threads", 3, program=program), losses)
                self.assertEqual(self.losses(program=program, launcher=(*MPIRUN, "4"), environment=VERIFIED), losses)
        self.assertEqual([line["divided_microbatches"] for line in self.log("--steps", 3, program="whole")], [0, 0, 0])

    def test_plans_keep_within_a_memory_limit(self):
        with open(f"{self.programs}/tight/stages.json") as file:
            stages = json.load(file)
        for stage in stages:
            offset, size = stage["modes"]["train"]["step_memory"]
            self.assertEqual(offset + size, stage["arena_bytes"])
            self.assertLessEqual(stage["arena_bytes"], 18000000)
            self.assertGreater(stage["arena_bytes"], 18000000 - 64)
        lines = self.log(program="tight", environment={**VERIFIED, "OMNIBAL_GUARD": "1"})
        self.assertIn("lists", [line["plan"] for line in lines])
        for line, fixed in zip(lines, self.log(program="auto")):
            self.assertAlmostEqual(line["loss"], fixed["loss"], delta=2e-6 * fixed["loss"])
            self.assertLessEqual(line["arena_used"], stages[0]["modes"]["train"]["step_memory"][1])

    def test_plans_choose_what_is_recomputed(self):
        with open(f"{self.programs}/lean/step-problem.json") as file:
            variants = [len(chunk["variants"]) for chunk in json.load(file)["chunks"]]
        with open(f"{self.programs}/lean/stages.json") as file:
            stages = json.load(file)
        ids = [chunk["id"] for stage in stages for chunk in stage["modes"]["train"]["chunks"]]
        self.assertEqual([ids.count(chunk) for chunk in range(len(variants))], variants)
        self.assertGreater(max(variants), 2)
        lines = self.log(program="lean", environment={**VERIFIED, "OMNIBAL_GUARD": "1"})
        shares = {line["recomputed"] for line in lines if line["plan"] == "lists"}
        self.assertGreater(len(shares), 2, "every step recomputes as much as its own load needs")
        self.assertTrue(all(0 <= share < 0.5 for share in shares), shares)
        for line, fixed in zip(lines, self.log(program="auto")):
            self.assertAlmostEqual(line["loss"], fixed["loss"], delta=2e-6 * fixed["loss"])
            self.assertAlmostEqual(line["grad_norm"], fixed["grad_norm"], delta=1e-5 * fixed["grad_norm"])
        self.assertTrue(all(line["recomputed"] == 0 for line in self.log("--steps", 2, program="planned")))

    def random_steps(self, count):
        """Micro-batches of one to many samples within the caps, in a fixed random order."""
        random, sizes = Random(7), self.sizes()
        keys = sorted(sizes)

        def group():
            wanted, chosen, tiles, tokens = random.randint(1, len(keys)), [], 0, 0
            for key in random.sample(keys, wanted):
                if tiles + sizes[key][0] <= TILES and tokens + sizes[key][1] <= TOKENS:
                    chosen, tiles, tokens = [*chosen, key], tiles + sizes[key][0], tokens + sizes[key][1]
            return chosen
        return [[group() for _ in self.steps[0]] for _ in range(count)]

    def test_random_steps_hold_all_rules(self):
        steps = self.write_steps(self.random_steps(STEPS))
        for program, launcher in (("lean", ()), ("lean", (*MPIRUN, "2")), ("divided-lean", ())):
            with self.subTest(program=program, launcher=launcher):
                lines = self.log("--steps", STEPS, program=program, steps=steps, launcher=launcher, environment={**VERIFIED, "OMNIBAL_GUARD": "1"})
                self.assertEqual(len(lines), STEPS)
                self.assertGreater(sum(line["plan"] == "lists" for line in lines), STEPS * 9 // 10)

    def test_a_run_in_two_parts_is_the_same_run(self):
        for program in ("planned", "lean", "replicas", "divided"):
            with self.subTest(program=program):
                self.run_tool("--steps", 7, "--save", self.path("whole"), program=program, environment=VERIFIED)
                folder = self.path(f"ck-{program}")
                self.run_tool("--steps", 3, "--checkpoint", folder, program=program)
                self.run_tool("--steps", 7, "--checkpoint", folder, "--resume", "auto", "--save", self.path("parts"), program=program,
                              says="continuing after step 3")
                self.assertTrue(self.weights("whole") == self.weights("parts"), "the weights differ")

    def test_the_log_has_the_plans_that_omnibal_plan_makes(self):
        for program in ("planned", "lean", "divided"):
            with self.subTest(program=program):
                self.compare_plans(program)

    def compare_plans(self, program):
        lines = self.log("--steps", 3, program=program)
        self.assertIn("plans of steps", self.said)
        with open(self.path("loads.jsonl"), "w") as file:
            file.writelines(json.dumps(self.loads(step)) + "\n" for step in range(3))
        problem = self.path("problem.json")
        subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", *self.layouts[program],
                        "--dry-run", "--emit-step-problem", problem], check=True, stdout=subprocess.DEVNULL)
        with open(problem, "rb") as emitted, open(f"{self.programs}/{program}/step-problem.json", "rb") as written:
            self.assertEqual(emitted.read(), written.read())
        plan = [f"{BIN}/omnibal-plan"]
        subprocess.run(plan + ["--steps", self.path("loads.jsonl"), problem, "-o", self.path("plans.jsonl")], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(plan + ["--check-steps", problem, self.path("loads.jsonl"), self.path("plans.jsonl")], check=True,
                       stdout=subprocess.DEVNULL)
        with open(self.path("plans.jsonl")) as file:
            plans = [json.loads(line) for line in file]
        for line, made in zip(lines, plans, strict=True):
            self.assertEqual(line["plan"], made["method"])
            for name in ("predicted", "bound", "static"):
                self.assertAlmostEqual(line[f"{name}_ms"], made[f"{'step' if name == 'predicted' else name}_ns"] / 1e6, places=5)
            self.assertLessEqual(line["predicted_ms"], line["static_ms"])
            self.assertGreater(line["arena_used"], 0)
            used = {variant for chunk in made["variants"] for microbatch in chunk for variant in microbatch}
            self.assertEqual(line["recomputed"] > 0, used != {0})

    def printed(self, *loads, program="planned"):
        """What --print --loads says: code, stdout, stderr."""
        with open(self.path("printed.jsonl"), "w") as file:
            file.writelines((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in loads)
        done = subprocess.run([f"{BIN}/omnibal-run", "--print", f"{self.programs}/{program}", "--loads", self.path("printed.jsonl")],
                              capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def test_printed_plans_are_those_of_omnibal_plan(self):
        for program in ("planned", "tight", "lean", "divided"):
            code, text, said = self.printed(*map(self.loads, range(3)), program=program)
            self.assertEqual((code, said), (0, ""))
            problem = f"{self.programs}/{program}/step-problem.json"
            plans = subprocess.run([f"{BIN}/omnibal-plan", "--steps", self.path("printed.jsonl"), problem, "--json"], check=True,
                                   capture_output=True, text=True).stdout.splitlines()
            with open(problem) as file:
                problem = json.load(file)
            steps = [part for part in re.split(r"\n(?=step )", text) if part.startswith("step ")]
            for step, plan in zip(steps, map(json.loads, plans), strict=True):
                self.check_printed(step, plan, problem)

    def check_printed(self, text, plan, problem):
        ms = {name: f"{plan[name + '_ns'] / 1e6:.3f}" for name in ("step", "bound", "static")}
        self.assertRegex(text, rf"^step {plan['step']}: {plan['method']}, predicted {ms['step']} ms .*bound {ms['bound']} ms, static {ms['static']} ms")
        stages = re.split(r"\n  stage \d+, ", text)[1:]
        stage_of, ends = [chunk["rank"] for chunk in problem["chunks"]], {}
        is_vision = [chunk["component"] == "vision" for chunk in problem["chunks"]]
        feeds = {(edge["from"], edge["to"]) for edge in problem["edges"]}
        for rank, (stage, actions) in enumerate(zip(stages, plan["actions"], strict=True)):
            head, *lines = stage.split("\n")
            words = " ".join(lines).split()
            several = stage_of.count(rank) > 1
            computed = [re.fullmatch(r"([FBIW])(\d+)(?:\[(\d+)\])?(?:\.(\d+))?(?:/(.+))?@([\d.]+)\+([\d.]+)", w) for w in words if "@" in w]
            seen = [[w[1], int(w[2]), int(w[3] or 0), int(w[4]) if several else stage_of.index(rank)] for w in computed]
            self.assertEqual(seen, actions)
            for (kind, m, p, c), word in zip(actions, computed):
                ends["F" if kind == "F" else "I" if kind in "BI" else "W", m, p, c] = float(word[6]), float(word[6]) + float(word[7])
                variants = [variant["name"] for variant in problem["chunks"][c]["variants"]]
                self.assertEqual(word[5], variants[plan["variants"][c][m][p]] if kind == "F" and len(variants) > 1 else None)
                self.assertEqual(word[3] is not None, is_vision[c] and len(plan["sub_microbatches"][m]) > 2)
            used = max(offset for _, _, _, _, offset in plan["offsets"][rank])
            numbers = re.search(r"memory (\d+) of (\d+) bytes", head)
            self.assertGreater(int(numbers[1]), used)
            self.assertEqual(int(numbers[2]), (problem["memory_bytes"] * 4)[rank])
            # Each message is begun and awaited once, at both ends, for every micro-batch that both ends have.
            have = {(m, c) for _, m, _, c in sum(plan["actions"], [])}
            for letters, end in (("Ss", 0), ("Rr", 1)):
                expected = {f"{letter}{unit}:{a}>{b}" for letter in letters for pair in feeds for a, b in (pair, pair[::-1])
                            for m in range(problem["microbatches"]) if stage_of[(a, b)[end]] == rank and stage_of[a] != stage_of[b]
                            and {(m, a), (m, b)} <= have and (a < b or self.has_gradient(problem, b, a))
                            for unit in self.units(plan, m, is_vision[a] or is_vision[b])}
                self.assertEqual(sorted(w for w in words if w[0] in letters and "@" not in w), sorted(expected))
        self.assertAlmostEqual(max(end for _, end in ends.values()), plan["step_ns"] / 1e6, delta=0.0015)
        for (a, b) in feeds: # nothing begins before what it reads is there
            for kind, first, then in (("F", a, b), ("I", b, a)):
                for (k, m, p, c), (_, end) in ends.items():
                    for (l, n, q, d), (start, _) in ends.items():
                        if (k, c, l, d, n) == (kind, first, kind, then, m) and (p == q or not (is_vision[a] and is_vision[b])) \
                                and (kind == "F" or self.has_gradient(problem, a, b)):
                            self.assertGreaterEqual(start, end - 0.0015)

    def units(self, plan, microbatch, of_parts):
        """How printed plans name what actions of a micro-batch are about."""
        parts = len(plan["sub_microbatches"][microbatch]) - 1
        return [f"{microbatch}[{p}]" for p in range(parts)] if of_parts and parts > 1 else [str(microbatch)]

    def test_a_trace_shows_the_plan_beside_the_step(self):
        self.run_tool("--steps", 4, "--trace", self.path("trace.json"), "--trace-steps", 2, "--log", self.path("log.jsonl"), program="planned")
        with open(self.path("trace.json")) as file:
            events = json.load(file)
        with open(self.path("log.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        processes, lanes = ({(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == name}
                            for name in ("process_name", "thread_name"))
        processes = {name: pid for (pid, _), name in processes.items()}
        self.assertEqual(sorted(processes), [*(f"plan of stage {r} / rank {r}" for r in range(2)), *(f"stage {r} / rank {r}" for r in range(2))])

        def spans(process, lane):
            return [(e["name"], e["args"]["mb"], e["args"].get("chunk"), e["ts"] / 1e3, e["dur"] / 1e3) for e in events if e["ph"] == "X"
                    and e["pid"] == processes[process] and lanes[e["pid"], e["tid"]] == lane]

        # The times of the plans, from omnibal-run --print.
        _, text, _ = self.printed(self.loads(2), self.loads(3))
        printed = re.findall(r"(?ms)^step (\d+): (.*?)(?=^step |\Z)", text)
        self.assertEqual([number for number, _ in printed], ["2", "3"])
        self.assertIn("lists", [line["plan"] for line in lines[2:]])
        measured = [[s for s in spans(f"stage {rank} / rank {rank}", "compute") if s[0] != "update"] for rank in range(2)]
        ends = [0, 0]
        for number, step in printed:
            origins = []
            for rank, stage in enumerate(re.split(r"\n  stage \d+, ", step)[1:]):
                words = re.findall(r"([FBIW])(\d+)(?:\.(\d+))?(?:/\S+?)?@([\d.]+)\+([\d.]+)", stage)
                planned = spans(f"plan of stage {rank} / rank {rank}", f"step {int(number) + 1}")
                self.assertEqual([(kind, int(m)) for kind, m, *_ in words], [s[:2] for s in planned])
                origins.append(planned[0][3] - float(words[0][3]))
                for (*_, chunk, start, length), (*_, in_trace, begin, took) in zip(words, planned):
                    self.assertEqual(chunk or str(in_trace), str(in_trace))
                    self.assertAlmostEqual(begin - origins[rank], float(start), delta=0.002)
                    self.assertAlmostEqual(took, float(length), delta=0.001)
                # The rank did the same in the same order, if not at the same times, and not before the plan's begin.
                done, measured[rank] = measured[rank][:len(planned)], measured[rank][len(planned):]
                self.assertEqual([s[:3] for s in done], [s[:3] for s in planned])
                self.assertGreaterEqual(done[0][3], origins[rank] - 0.001)
                self.assertGreaterEqual(origins[rank], ends[rank] - 0.001)
                ends[rank] = done[-1][3] + done[-1][4]
            predicted = max(s[3] + s[4] - origins[rank] for rank in range(2)
                            for s in spans(f"plan of stage {rank} / rank {rank}", f"step {int(number) + 1}"))
            self.assertAlmostEqual(predicted, lines[int(number)]["predicted_ms"], delta=0.002)
        self.assertEqual(measured, [[], []])

    def has_gradient(self, problem, a, b):
        return any(edge["grad_bytes"] != [0, 0, 0] for edge in problem["edges"] if (edge["from"], edge["to"]) == (a, b))

    def test_loads_that_cannot_be_printed(self):
        good = self.loads(0)
        big = {**good, "microbatches": [{**good["microbatches"][0], "tiles": 25}, *good["microbatches"][1:]]}
        few = {**good, "microbatches": good["microbatches"][1:]}
        for loads, program, words in (((good, big), "planned", "printed.jsonl:2: micro-batch 0 has 25 tiles; the cap is 24"),
                                      ((few,), "planned", f"it has {len(good['microbatches']) - 1} micro-batches, the problem"),
                                      (("{",), "planned", "printed.jsonl:1"), (("",), "planned", "no line holds a step"),
                                      ((good,), "auto", "runs the same lists (auto) in every step; compile it with --schedule per-step"),
                                      ((good,), "nothing", "nothing")):
            with self.subTest(words=words):
                code, text, said = self.printed(*loads, program=program)
                self.assertEqual((code, text, said.count("\n")), (1, "", 1), said)
                self.assertIn(words, said)
        self.run_tool("--loads", self.path("printed.jsonl"), program="planned", code=2, says="--loads goes with --print")

    def test_text_alone_needs_no_vision(self):
        text = [key for key, (tiles, _) in self.sizes().items() if tiles == 0]
        self.assertTrue(text, "the shard has a sample without pictures")
        mixed = [[group if m % 2 else text[:1] for m, group in enumerate(step)] for step in self.steps[:3]]
        nothing = [[text[:1] for _ in step] for step in self.steps[:2]]
        for name, steps in (("mixed", mixed), ("text", nothing)):
            with self.subTest(name=name):
                planned = self.losses(program="planned", steps=self.write_steps(steps), environment=VERIFIED)
                for (loss, norm), (fixed, fixed_norm) in zip(planned, self.losses(program="auto", steps=self.write_steps(steps))):
                    self.assertAlmostEqual(loss, fixed, delta=2e-6 * fixed)
                    self.assertAlmostEqual(norm, fixed_norm, delta=1e-5 * fixed_norm)

    def change_problem(self, change):
        """The program with another step problem, and a manifest that knows it."""
        folder = self.path("changed")
        os.makedirs(folder, exist_ok=True)
        source = f"{self.programs}/planned"
        for name in os.listdir(source):
            with open(f"{source}/{name}", "rb") as a, open(f"{folder}/{name}", "wb") as b:
                b.write(a.read())
        with open(f"{folder}/step-problem.json") as file:
            problem = json.load(file)
        change(problem)
        text = json.dumps(problem).encode()
        with open(f"{folder}/step-problem.json", "wb") as file:
            file.write(text)
        with open(f"{folder}/manifest.json") as file:
            manifest = json.load(file)
        manifest["files"]["step-problem.json"] = {"bytes": len(text), "checksum": f"fnv1a:{fnv1a(text):016x}"}
        with open(f"{folder}/manifest.json", "w") as file:
            json.dump(manifest, file)
        return os.path.relpath(folder, self.programs)

    def test_a_problem_of_another_program_is_refused(self):
        def smaller_block(problem):
            block = problem["chunks"][0]["variants"][0]["blocks"][0]
            block["bytes"] = [block["bytes"][0] + 64, *block["bytes"][1:]]

        def shorter_life(problem):
            blocks = [b for c in problem["chunks"] for b in c["variants"][0]["blocks"] if b["from"] == "F" and b["to"] in ("I", "W")]
            blocks[0]["to"] = "F"

        def more_memory(problem):
            problem["memory_bytes"] = [bytes + 64 for bytes in problem["memory_bytes"]]

        def no_gradient(problem):
            problem["edges"][-1]["grad_bytes"] = [0, 0, 0]

        def more_variants(problem):
            for chunk in problem["chunks"]:
                chunk["variants"].append({**chunk["variants"][0], "name": "more"})

        for change, why in ((smaller_block, "has no block of its size"), (shorter_life, "when its block is gone"),
                            (more_memory, "more memory for stage"), (no_gradient, "message"), (more_variants, "has other variants")):
            with self.subTest(change=change.__name__):
                said = self.run_tool("--steps", 1, program=self.change_problem(change), code=1, says="step-problem.json is not of this program")
                self.assertIn(why, said)

    def test_a_damaged_problem_is_named(self):
        folder = self.change_problem(lambda problem: problem.pop("chunks"))
        self.run_tool("--steps", 1, program=folder, code=1, says="step-problem.json")
        os.remove(self.path("changed/step-problem.json"))
        self.run_tool("--steps", 1, program=folder, code=1, says="step-problem.json")

    def test_only_planned_programs_have_a_problem(self):
        done = subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", "--tiles", "4", "--tokens", "64", "--dry-run",
                               "--emit-step-problem", self.path("p.json")],
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--emit-step-problem needs --schedule per-step", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
