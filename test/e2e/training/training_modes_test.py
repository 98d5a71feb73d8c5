#!/usr/bin/env python3
"""Programs with several training modes, compiled from folders with length groups.

    training_modes_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import filecmp
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from judgement import Float32, Judgement  # noqa: E402
from mode_batches import Mode, ModeCase, write_folder, write_json  # noqa: E402
from reference_losses import read_safetensors  # noqa: E402
from run_case import MPIRUN  # noqa: E402

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")


class Case(ModeCase):
    MODEL = MODEL

    def call(self, tool, *flags, code=0, launcher=()):
        result = subprocess.run([*launcher, os.path.join(BIN, tool), *map(str, flags)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=300)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout if code == 0 else result.stderr

    def compile(self, output, *flags, code=0):
        return self.call("omnibal-compile", f"{MODEL}/model.onnx", *flags, "-o", self.path(output), code=code)

    def layers(self):
        """Of the model: for each layer the names of its options."""
        problem = self.path("layers.json")
        self.call("omnibal-compile", f"{MODEL}/model.onnx", "--tiles", 4, "--tokens", 100, "--dry-run", "--emit-problem", problem)
        with open(problem) as file:
            return [[option["name"] for option in layer["remat"]] for layer in json.load(file)["layers"]]

    def modes(self, replicas, degrees=(1, 1), **fields):
        """One that keeps everything and one of larger micro-batches that recomputes all it can."""
        options = self.layers()
        ranks = [replicas // degree for degree in degrees]
        short = Mode("short", max(1, 6 // ranks[0]), self.samples, replicas, degrees[0], remat=["keep"] * len(options), **fields)
        long = Mode("long", max(1, 2 // ranks[1]), self.samples, replicas, degrees[1], remat=[names[-1] for names in options], **fields)
        self.assertLess(short.tokens, long.tokens)
        return [short, long]

    def cuts_of(self, program):
        """Of a program with one chunk a stage."""
        cuts = [0]
        for stage in self.stages_of(program):
            cuts.append(cuts[-1] + len(stage["modes"]["train"]["chunks"][0]["layers"]))
        return cuts

    def stages_of(self, program):
        with open(os.path.join(self.path(program), "stages.json")) as file:
            stages = json.load(file)
        return stages["stages"] if isinstance(stages, dict) else stages

    def run_program(self, program, batches, name, *flags, launcher=()):
        """The log of an epoch, with gradients of its first step and the model after it."""
        self.call("omnibal-run", self.path(program), "--weights", f"{MODEL}/model.safetensors", "--data", self.shard,
                  "--preprocess", f"{MODEL}/preprocessor_config.json", "--batches", batches, "--lr", "0.001",
                  "--log", self.path(f"{name}.jsonl"), "--save-gradients", self.path(f"{name}.safetensors"), *flags,
                  launcher=launcher)
        with open(self.path(f"{name}.jsonl")) as file:
            return [json.loads(line) for line in file]


class Alternation(Case):
    LONGER = True

    def check(self, stages, replicas, degrees=(1, 1), *flags):
        """20 steps of two modes in turn, each with the samples of a step of PyTorch's."""
        self.assertEqual(len(self.steps), 20)
        name = f"{stages}x{replicas}-{degrees[0]}-{degrees[1]}"
        modes = self.modes(replicas, degrees)
        write_folder(self.path("b" + name), self.samples, modes, [step % 2 for step in range(len(self.steps))], stages)
        self.compile("p" + name, "--stages", stages, "--data-parallel", replicas, "--batches", self.path("b" + name), *flags)
        judgement = Judgement(MODEL, "train_all", len(self.steps), Float32)
        o = judgement.optimizer
        log = self.run_program("p" + name, self.path("b" + name), name, "--steps", len(self.steps), "--lr", o["lr"],
                               "--beta1", o["betas"][0], "--beta2", o["betas"][1], "--eps", o["eps"],
                               "--weight-decay", o["weight_decay"], "--clip", o["clip_grad_norm"])
        judgement.log(log)
        judgement.gradients(read_safetensors(self.path(f"{name}.safetensors")))
        print(name, judgement.summary())
        self.assertEqual(judgement.failures, [])

    def test_alternating_steps_are_those_of_pytorch(self):
        for stages in (1, 2):
            for replicas in (1, 2):
                with self.subTest(stages=stages, replicas=replicas):
                    self.check(stages, replicas)


class ContextGroups(Alternation):
    """Replicas that share the micro-batches of a mode."""

    def test_alternating_steps_are_those_of_pytorch(self):
        for stages, replicas, degrees, flags in ((1, 2, (1, 2), ()), (2, 2, (1, 2), ("--zero", 1)), (1, 4, (1, 4), ()),
                                                 (2, 4, (2, 4), ()), (1, 4, (4, 2), ("--zero", 1)), (1, 3, (1, 3), ())):
            with self.subTest(stages=stages, replicas=replicas, degrees=degrees):
                self.check(stages, replicas, degrees, *flags)


class ContextBits(Case):
    """What replicas share decides no bits but those of sums that are cut otherwise."""

    def check(self, stages, replicas, degrees):
        modes = self.modes(replicas, degrees)
        write_folder(self.path("b"), self.samples, modes, [0, 1] * 5, stages)
        compiled = ("--stages", stages, "--data-parallel", replicas, "--batches", self.path("b"))
        self.compile("p", *compiled)
        cuts = [0]
        for stage in self.stages_of("p"):
            if stage["part"] == 0:
                cuts.append(cuts[-1] + len(stage["modes"]["train"]["chunks"][0]["layers"]))
        expected = self.run_program("p", self.path("b"), "threads", "--save", self.path("threads"))

        def same(name, log=expected, reference="threads"):
            self.assertEqual(*([(line["step"], line["loss"], line["grad_norm"]) for line in lines] for lines in (self.log(name), log)))
            for file in (f"{name}.safetensors", f"{name}/model.safetensors"):
                self.assertTrue(filecmp.cmp(self.path(file), self.path(file.replace(name, reference, 1)), shallow=False), file)

        self.run_program("p", self.path("b"), "two", "--threads", 2, "--save", self.path("two"))
        same("two")
        self.run_program("p", self.path("b"), "mpi", "--save", self.path("mpi"), launcher=(*MPIRUN, str(stages * replicas)))
        same("mpi")
        self.compile("zero", *compiled, "--zero", 1)
        self.run_program("zero", self.path("b"), "shares", "--save", self.path("shares"))
        same("shares")
        self.compile("order", *compiled, "--rank-order", "replica")
        self.run_program("order", self.path("b"), "neighbors", "--save", self.path("neighbors"))
        same("neighbors")
        for number, mode in enumerate(modes):
            name = f"alone{number}"
            only, single = self.path(f"only{number}"), self.path(f"single{number}")
            write_folder(only, self.samples, modes, [number] * len(self.steps), stages)
            write_folder(single, self.samples, [mode], [0] * len(self.steps), stages, cuts)
            self.compile(name, "--stages", stages, "--data-parallel", replicas, "--batches", single)
            if mode.degree > 1:
                self.assertEqual({entry["part"] for entry in self.stages_of(name)}, set(range(mode.degree)))
            found = self.run_program("p", only, f"of{number}", "--save", self.path(f"of{number}"))
            self.run_program(name, single, name, "--save", self.path(name))
            same(name, found, f"of{number}")

    def log(self, name):
        with open(self.path(f"{name}.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_two_replicas(self):
        self.check(1, 2, (1, 2))

    def test_four_replicas_and_stages(self):
        self.check(2, 4, (4, 2))

    def test_frozen_weights_may_be_quantized(self):
        """All ranks hold all of them: losses are those of replicas that share nothing."""
        logs = []
        for degrees in ((1, 1), (1, 2)):
            name = f"quantized-{degrees[1]}"
            write_folder(self.path("b" + name), self.samples, self.modes(2, degrees), [0, 1] * 5)
            self.compile("p" + name, "--data-parallel", 2, "--batches", self.path("b" + name), "--lora", "q_proj|v_proj|down_proj",
                         "--lora-rank", 4, "--quantize-frozen", "nf4")
            logs.append(self.run_program("p" + name, self.path("b" + name), name))
        self.assertNotEqual(*([line["loss"] for line in log] for log in logs), "nothing was summed in another order")
        for alone, together in zip(*logs, strict=True):
            for key in ("loss", "grad_norm"):
                self.assertAlmostEqual(alone[key] / together[key], 1, delta=1e-6)


class Training(Case):
    def test_a_step_has_the_bits_of_a_program_with_that_mode_alone(self):
        for stages, replicas, schedule in ((1, 1, "1f1b"), (2, 1, "1f1b"), (2, 2, "zb-h1"), (1, 2, "gpipe")):
            modes = self.modes(replicas, schedule=schedule)
            name = f"{stages}x{replicas}"
            write_folder(self.path("b" + name), self.samples, modes, [0] * 5 + [1] * 5, stages)
            self.compile("p" + name, "--stages", stages, "--data-parallel", replicas, "--batches", self.path("b" + name))
            cuts = self.cuts_of("p" + name)
            for number, mode in enumerate(modes):
                with self.subTest(stages=stages, replicas=replicas, mode=mode.name):
                    plan = self.path(f"plan{name}{number}.json")
                    with open(plan, "w") as file:
                        json.dump({"schema": "omnibal.plan/1", "cuts": cuts, "remat": mode.fields["remat"], "schedule": schedule}, file)
                    alone = f"alone{name}{number}"
                    self.compile(alone, "--stages", stages, "--data-parallel", replicas, "--tiles", mode.tiles, "--tokens",
                                 mode.tokens, "--microbatches", mode.microbatches, "--plan", plan)
                    only = self.path(f"only{name}{number}")
                    write_folder(only, self.samples, modes, [number] * len(self.steps), stages)
                    single = self.path(f"single{name}{number}")
                    write_folder(single, self.samples, [mode], [0] * len(self.steps), stages)
                    flags = ("--steps", len(self.steps))
                    found = self.run_program("p" + name, only, f"found{name}{number}", *flags, "--save", self.path(f"w{name}{number}"))
                    expected = self.run_program(alone, single, f"expected{name}{number}", *flags, "--save", self.path(f"v{name}{number}"))
                    self.assertEqual([(e["loss"], e["grad_norm"]) for e in found], [(e["loss"], e["grad_norm"]) for e in expected])
                    for a, b in ((f"found{name}{number}.safetensors", f"expected{name}{number}.safetensors"),
                                 (f"w{name}{number}/model.safetensors", f"v{name}{number}/model.safetensors")):
                        self.assertTrue(filecmp.cmp(self.path(a), self.path(b), shallow=False), (a, b))


class Programs(Case):
    def test_memory_is_that_of_the_largest_mode(self):
        for stages in (1, 2):
            modes = self.modes(1)
            write_folder(self.path(f"b{stages}"), self.samples, modes, [0, 1] * 5, stages)
            said = self.compile(f"p{stages}", "--stages", stages, "--batches", self.path(f"b{stages}"))
            cuts = self.cuts_of(f"p{stages}")
            alone = []
            for mode in modes:
                with open(self.path("plan.json"), "w") as file:
                    json.dump({"schema": "omnibal.plan/1", "cuts": cuts, "remat": mode.fields["remat"]}, file)
                self.compile("alone", "--stages", stages, "--tiles", mode.tiles, "--tokens", mode.tokens, "--microbatches", mode.microbatches,
                             "--plan", self.path("plan.json"))
                alone.append(self.running("alone"))
            # What persists has tables of positions for the largest caps.
            self.assertEqual(self.running(f"p{stages}"), [max(both) for both in zip(*alone)])
            for mode in modes:
                self.assertIn(f"length group {mode.name}: plan: {stages} stages x 1 replicas, {mode.microbatches} micro-batches, "
                              f"schedule 1f1b; caps {mode.tiles} tiles, {mode.tokens} tokens", said)
            self.assertRegex(said, r"predicted epoch: [0-9.]+ ms \(5 steps of short in [0-9.]+ ms, 5 steps of long in [0-9.]+ ms\)\n")

    def running(self, program):
        """Bytes of each stage's arena beside what persists."""
        return [stage["arena_bytes"] - stage["persistent_bytes"] for stage in self.stages_of(program)]

    def test_files_of_modes(self):
        modes = self.modes(1)
        write_folder(self.path("b"), self.samples, modes, [0, 1] * 5, 2)
        self.compile("p", "--stages", 2, "--batches", self.path("b"), "--emit-problem", self.path("problem.json"),
                     "--report", self.path("report.html"), "--trace", self.path("trace.json"))
        for mode, suffix in zip(modes, ("", ".1")):
            with open(self.path(f"problem{suffix}.json")) as file:
                self.assertEqual(len(json.load(file)["microbatches"]), mode.microbatches)
            with open(self.path(f"report{suffix}.html"), encoding="utf-8") as file:
                self.assertIn(f"length group {mode.name}", file.read())
            with open(self.path(f"trace{suffix}.json")) as file:
                self.assertTrue(json.load(file)["traceEvents"])
        with open(os.path.join(self.path("p"), "manifest.json")) as file:
            manifest = json.load(file)
        self.assertEqual(manifest["version"], "omnibal.program/3")
        self.assertEqual([(m["name"], m["tiles_cap"], m["tokens_cap"], m["microbatches"]) for m in manifest["train_modes"]],
                         [(m.name, m.tiles, m.tokens, m.microbatches) for m in modes])

    def test_one_length_group_is_a_program_as_without_it(self):
        one = Mode("all", 4, self.samples, 1)
        write_folder(self.path("b"), self.samples, [one], [0] * 10)
        self.compile("p", "--batches", self.path("b"))
        os.remove(os.path.join(self.path("b"), "groups.json"))
        self.compile("q", "--batches", self.path("b"), "--tiles", one.tiles, "--tokens", one.tokens, "--microbatches", 4)
        names = os.listdir(self.path("p"))
        self.assertEqual(filecmp.cmpfiles(self.path("p"), self.path("q"), names, shallow=False), (sorted(names, key=names.index), [], []))

    def test_cuts_are_those_with_the_shortest_epoch(self):
        """Of all cuts, each given to both modes."""
        modes = [Mode("short", 6, self.samples, 1), Mode("long", 2, self.samples, 1)]
        write_folder(self.path("b"), self.samples, modes, [0, 1] * 5, 2)
        typical = []
        layers = len(self.layers())
        for cut in (None, *range(1, layers)):
            plan = ()
            if cut:
                with open(self.path("plan.json"), "w") as file:
                    json.dump({"schema": "omnibal.plan/1", "cuts": [0, cut, layers]}, file)
                plan = ("--plan", self.path("plan.json"))
            said = self.call("omnibal-compile", f"{MODEL}/model.onnx", "--stages", 2, "--batches", self.path("b"), "--dry-run", *plan)
            typical.append(sum(5 * float(line.split()[2]) for line in said.splitlines() if line.startswith("predicted step:")))
        self.assertLessEqual(typical[0], min(typical[1:]) + 0.1)


class Errors(Case):
    def setUp(self):
        super().setUp()
        self.two = [Mode("short", 6, self.samples, 1), Mode("long", 2, self.samples, 1)]
        write_folder(self.path("b"), self.samples, self.two, [0, 1] * 5)
        with open(os.path.join(self.path("b"), "groups.json")) as file:
            self.groups = json.load(file)

    def refused(self, says, *flags, code=2, change=None):
        groups = json.loads(json.dumps(self.groups))
        if change:
            change(groups)
        write_json(self.path("b"), "groups", groups)
        said = self.compile("p", "--batches", self.path("b"), *flags, code=code)
        self.assertEqual(len(said.strip().splitlines()), 1, said)
        self.assertIn(says, said)
        self.assertFalse(os.path.exists(self.path("p")))
        return said

    def test_flags_that_say_something_else(self):
        short, long = self.two
        self.refused(f"--tiles is {long.tiles + 1}, but `tiles_cap` of length group \"long\" in ", "--tiles", long.tiles + 1)
        self.refused(f"--tokens is 64, but `tokens_cap` of length group \"long\" in {self.path('b')}/groups.json is {long.tokens}", "--tokens", 64)
        self.refused("--microbatches is 2, but `microbatches` of length group \"short\"", "--microbatches", 2)
        self.refused("--stages is 2, but `stages` in ", "--stages", 2)
        self.refused("--data-parallel is 3, but `replicas` in ", "--data-parallel", 3)
        self.refused("--schedule per-step: ", "--schedule", "per-step")
        self.refused("--emit-batch-cost: ", "--emit-batch-cost", self.path("cost.json"))

        def schedule(groups):
            groups["groups"][1]["schedule"] = "gpipe"
        self.refused("--schedule is zb-h1, but `schedule` of length group \"long\"", "--schedule", "zb-h1", change=schedule)

    def test_caps_that_nothing_says(self):
        os.remove(os.path.join(self.path("b"), "groups.json"))
        said = self.compile("p", "--batches", self.path("b"), code=2)
        self.assertIn("--tiles is required, as ", said)

    def test_bad_files(self):
        def put(key, value, group=None):
            def change(groups):
                (groups if group is None else groups["groups"][group])[key] = value
            return change
        layers = len(self.layers())
        self.refused("\"color\" is unknown", change=put("color", 1))
        self.refused("\"color\" is unknown", change=put("color", 1, group=1))
        self.refused("`cuts` must ascend from 0 to the model's number of layers", code=1, change=put("cuts", [0, 99]))
        self.refused("length group short: `remat` has 2 entries, but the model has", code=1, change=put("remat", ["keep"] * 2, group=0))
        self.refused("unknown option sometimes (known for ", code=1, change=put("remat", ["sometimes"] * layers, group=0))
        self.refused("`tiles_cap` is 1, less than the ", change=put("tiles_cap", 1, group=1))
        self.refused("`schedule` is \"magic\"; known are ", change=put("schedule", "magic", group=1))
        self.refused("length group long: the schedule interleaved:2 runs another number of chunks", code=1,
                     change=put("schedule", "interleaved:2", group=1))

        def degrees(groups):
            groups["replicas"] = 6
            groups["groups"][0] |= {"degree": 2, "ranks": 3}
            groups["groups"][1] |= {"degree": 3, "ranks": 2}
        self.refused("length group \"short\": the `degree` 2 does not divide the largest, 3", "--data-parallel", 6, change=degrees)

    def test_a_limit_that_only_the_long_mode_breaks(self):
        write_json(self.path("b"), "groups", self.groups)
        self.compile("free", "--batches", self.path("b"), "--remat", "full")
        short, long = self.two
        self.call("omnibal-compile", f"{MODEL}/model.onnx", "--tiles", short.tiles, "--tokens", short.tokens, "--microbatches", 6, "--remat", "full",
                  "-o", self.path("small"))
        least = [self.stages_of(name)[0]["arena_bytes"] for name in ("small", "free")]
        self.assertLess(least[0], least[1])
        self.refused("length group long: infeasible: ", "--memory-limit-bytes", sum(least) // 2, code=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
