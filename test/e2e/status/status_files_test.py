#!/usr/bin/env python3
"""What a run tells about itself while it goes on: status_files_test.py BIN_FOLDER DATA_FOLDER [unittest options].
Totals and fills of the log, the heartbeat, the file for Prometheus, and traces on demand."""
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from reference_losses import read_safetensors  # noqa: E402
from run_case import BIN, MODEL, MPIRUN, RunCase  # noqa: E402

LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)")


def metrics_of(text):
    """Prometheus' text format as its documentation has it: {(name, labels): value}, with checks of what a collector refuses."""
    found, types, current = {}, {}, None
    if not text.endswith("\n"):
        raise AssertionError("the last line has no end")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            if current in types:
                raise AssertionError(f"{current} has two types")
            types[current] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            if not match or match.group(1) != current:
                raise AssertionError(f"no sample of {current}: {line}")
            labels = tuple(re.findall(rf"({LABEL})", match.group(2) or ""))
            if (current, labels) in found:
                raise AssertionError(f"twice: {line}")
            found[current, labels] = float(match.group(3))
    return found, types


class StatusCase(RunCase):
    def lines(self, name="log.jsonl"):
        with open(self.path(name)) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def beat(self, name="beat"):
        with open(self.path(name)) as file:
            return json.load(file)

    def start(self, *flags, launcher=(), **options):
        with open(self.path("said"), "w") as said:
            job = subprocess.Popen([*launcher, *self.command(*flags, **options)], stderr=said)
        self.addCleanup(lambda: job.poll() is None and (job.kill(), job.wait()))
        return job

    def wait_for(self, what, job):
        end = time.time() + 120
        while not what():
            self.assertIsNone(job.poll(), "the run ended")
            self.assertLess(time.time(), end)
            time.sleep(0.01)


class Log(StatusCase):
    layouts = {"one": (), "four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2"), "frozen": ("--freeze", "vision"),
               "shares": ("--data-parallel", "2", "--microbatches", "2", "--zero", "1")}

    def check_totals(self, lines):
        samples = tokens = 0
        for line in lines:
            samples += line["samples"]
            tokens += line["tokens"]
            self.assertEqual((line["samples_seen"], line["tokens_seen"]), (samples, tokens))

    def test_totals_go_on_with_the_run(self):
        flags = ("--log", self.path("log.jsonl"), "--checkpoint", self.path("ck"), "--steps", 25)
        self.run_tool(*flags[:-1], 13)
        self.run_tool(*flags, "--resume", "auto")
        lines = self.lines()
        self.assertEqual(len(lines), 25)
        self.check_totals(lines)
        # The list has ten steps.
        self.assertEqual([line["epoch"] for line in lines], [step // 10 for step in range(25)])
        per_epoch = sum(len(group) for groups in self.steps for group in groups)
        self.assertEqual(lines[19]["samples_seen"], 2 * per_epoch)

    def test_a_checkpoint_of_before_says_nothing(self):
        flags = ("--log", self.path("log.jsonl"), "--checkpoint", self.path("ck"), "--resume", "auto", "--steps")
        self.run_tool(*flags, 2)
        manifest = self.path("ck/step-00000002/manifest.json")
        with open(manifest) as file:
            text = json.load(file)
        del text["settings"]["kept"]["seen"]
        with open(manifest, "w") as file:
            json.dump(text, file)
        said = self.run_tool(*flags, 3)
        if "continuing after step" in said:
            self.assertIn("does not say how much the run has seen", said)
            last = self.lines()[-1]
            self.assertEqual((last["samples_seen"], last["tokens_seen"]), (last["samples"], last["tokens"]))
        else:
            self.fail(said)

    def test_fills_of_caps(self):
        self.run_tool("--log", self.path("log.jsonl"), "--steps", 3)
        self.run_tool("--log", self.path("two.jsonl"), "--steps", 2, "--accumulate", 2)
        for name, runs in (("log.jsonl", 1), ("two.jsonl", 2)):
            for line in self.lines(name):
                # Four micro-batches of at most 24 tiles and 420 tokens.
                self.assertAlmostEqual(line["token_fill"], line["tokens"] / (4 * 420 * runs), delta=1e-12)
                self.assertAlmostEqual(line["tile_fill"], line["tiles"] / (4 * 24 * runs), delta=1e-12)
                self.assertTrue(0 < line["token_fill"] <= 1 and 0 < line["tile_fill"] <= 1, line)

    def test_numbers_of_stages(self):
        self.run_tool("--log", self.path("log.jsonl"), "--save-gradients", self.path("gradients.safetensors"), program="four",
                      launcher=(*MPIRUN, "4"))
        for line in self.lines():
            norms, idle = line["grad_norm_of"], line["idle_of"]
            self.assertEqual((list(norms), list(idle)), (["stage 0", "stage 1"], ["stage 0", "stage 1"]))
            self.assertAlmostEqual(math.hypot(*norms.values()) / line["grad_norm"], 1, delta=1e-9)
            self.assertAlmostEqual(sum(idle.values()) / 2, line["idle"], delta=1e-9)
            self.assertTrue(all(0 <= share <= 1 for share in idle.values()))
        self.check_norms_of_gradients(self.lines()[0]["grad_norm_of"])
        self.run_tool("--log", self.path("one.jsonl"), "--steps", 1)
        self.assertFalse({"grad_norm_of", "idle_of"} & set(self.lines("one.jsonl")[0]))

    def check_norms_of_gradients(self, norms):
        """Of the first step there is a file of all gradients, and the program says which stage has which."""
        with open(f"{self.programs}/four/stages.json") as file:
            stages = json.load(file)
        gradients = read_safetensors(self.path("gradients.safetensors"))
        for stage in stages:
            own = [q["name"] for q in stage["parameters"] if q.get("trainable", True) and q.get("counted", True)]
            squares = sum(math.fsum(float(value) ** 2 for value in gradients[name]) for name in own)
            self.assertAlmostEqual(math.sqrt(squares) / norms[f"stage {stage['id']}"], 1, delta=1e-5)


    def test_norms_of_the_models_parts(self):
        """Against the gradients of the first step, whose names say the part."""
        names = {"vision": "model.vision_tower.", "projector": "model.multi_modal_projector.", "language": ""}
        for program, launcher, parts in (("one", (), 3), ("four", (*MPIRUN, "4"), 3), ("shares", (), 3), ("frozen", (), 2)):
            with self.subTest(program=program):
                log, gradients = self.path(f"{program}.jsonl"), self.path(f"{program}.safetensors")
                self.run_tool("--part-norms", "--log", log, "--save-gradients", gradients, "--save", self.path(program), "--steps", 3,
                              program=program, launcher=launcher)
                lines, values = self.lines(log), read_safetensors(gradients)
                squares = {}
                for name, gradient in values.items():
                    part = next(part for part, start in names.items() if name.startswith(start))
                    squares[part] = squares.get(part, 0) + math.fsum(float(value) ** 2 for value in gradient)
                for line in lines:
                    norms = {name: norm for name, norm in line["grad_norm_of"].items() if not name.startswith("stage")}
                    self.assertEqual(len(norms), parts)
                    self.assertAlmostEqual(math.hypot(*norms.values()) / line["grad_norm"], 1, delta=1e-6)
                    if line["step"] == 0:
                        self.assertEqual(set(norms), set(squares))
                        for part, norm in norms.items():
                            self.assertAlmostEqual(norm / math.sqrt(squares[part]), 1, delta=1e-5)
                # Training is as without.
                self.run_tool("--save", self.path("plain"), "--steps", 3, program=program, launcher=launcher)
                self.assertTrue(self.weights("plain") == self.weights(program))


class Files(StatusCase):
    layouts = {"one": (), "two": ("--stages", "2")}

    def test_the_heartbeat(self):
        begin = time.time()
        job = self.start("--heartbeat", self.path("beat"), "--steps", 100000, "--checkpoint", self.path("ck"))
        self.wait_for(lambda: os.path.exists(self.path("beat")) and self.beat()["step"] is not None, job)
        first = self.beat()
        self.wait_for(lambda: self.beat()["step"] > first["step"] + 3, job)  # every look finds a whole file
        second = self.beat()
        self.assertEqual((second["steps"], second["pid"]), (100000, job.pid))
        self.assertTrue(begin < first["time"] < second["time"] < time.time())
        self.assertIn(second["phase"], ("training", "saving"))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 75)
        self.assertEqual(self.beat()["phase"], "stopped")
        self.run_tool("--heartbeat", self.path("beat"), "--steps", 2, program="two", launcher=(*MPIRUN, "2"))
        self.assertEqual((self.beat()["phase"], self.beat()["step"]), ("finished", 1))

    def test_a_run_that_fails_says_so(self):
        self.run_tool("--heartbeat", self.path("beat"), "--lr", "1e38", "--clip", 0, code=1)
        self.assertEqual(self.beat()["phase"], "failed")

    def test_the_metrics(self):
        self.run_tool("--prometheus", self.path("first.prom"), "--log", self.path("log.jsonl"), "--lr-of", 'vision=1e-4', "--steps", 4,
                      "--evaluate-every", 4, "--evaluate-data", f"{MODEL}/data-000000.tar", program="two")
        with open(self.path("first.prom")) as file:
            found, types = metrics_of(file.read())
        lines = self.lines()
        line, = [line for line in lines if line["step"] == 3 and "loss" in line]
        own = ('run="first"',)
        for field, value in line.items():
            if isinstance(value, (int, float)):
                name = f"omnibal_{field}" + ("_total" if field.endswith("_seen") else "")
                self.assertEqual(found[name, own], value, field)
                self.assertEqual(types[name], "counter" if field.endswith("_seen") else "gauge")
        self.assertEqual(found["omnibal_lr_of", (*own, 'name="vision"')], 1e-4)
        self.assertEqual(found["omnibal_idle_of", (*own, 'name="stage 1"')], line["idle_of"]["stage 1"])
        evaluation, = [line["evaluation"] for line in lines if "evaluation" in line]
        self.assertEqual(found["omnibal_evaluation_loss", own], evaluation["loss"])
        self.assertLess(abs(found["omnibal_time_seconds", own] - time.time()), 600)

    def test_files_that_cannot_be_written_stop_the_run_at_once(self):
        for flag in ("--heartbeat", "--prometheus"):
            for program, launcher in (("one", ()), ("two", (*MPIRUN, "2"))):
                said = self.run_tool(flag, self.path("none/file"), program=program, launcher=launcher, code=1, says=f"{flag}: ")
                self.assertIn("none/file", said)
                self.assertNotIn("step 1/", said)

    def test_a_file_that_is_lost_later_ends_no_run(self):
        os.mkdir(self.path("gone"))
        job = self.start("--heartbeat", self.path("gone/beat"), "--steps", 200, "--log", self.path("log.jsonl"))
        self.wait_for(lambda: os.path.exists(self.path("log.jsonl")) and len(self.lines()) > 3, job)
        os.rename(self.path("gone"), self.path("other"))
        self.assertEqual(job.wait(), 0)
        with open(self.path("said")) as said:
            self.assertEqual(said.read().count("gone/beat: creating the file failed"), 1)


class Profiles(StatusCase):
    layouts = {"one": (), "two": ("--stages", "2"), "four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2")}

    def traced_ranks(self, name):
        """Ranks with computing actions in a trace, and the number of their forwards of micro-batch 0."""
        with open(self.path(name)) as file:
            events = json.load(file)
        return sorted(event["pid"] for event in events
                      if event.get("ph") == "X" and event["name"] == "F" and event["args"]["mb"] == 0)

    def test_steps_that_are_named(self):
        for program, launcher in (("one", ()), ("two", ()), ("four", (*MPIRUN, "4"))):
            with self.subTest(program=program):
                folder = f"{program}-traces"
                self.run_tool("--profile", self.path(folder), "--profile-at", 1, 4, "--profile-at", 10, "--trace",
                              self.path(f"{program}.json"), program=program, launcher=launcher)
                self.assertEqual(sorted(os.listdir(self.path(folder))), [f"step-{step:08}.json" for step in (1, 4, 10)])
                ranks = {"one": [0], "two": [0, 1], "four": [0, 1, 2, 3]}[program]
                for name in (f"{program}.json", *(f"{folder}/{name}" for name in os.listdir(self.path(folder)))):
                    self.assertEqual(self.traced_ranks(name), ranks, name)  # one step each
        self.run_tool("--profile", self.path("x"), "--profile-at", 11, code=1, says="--profile-at 11: the run has only 10 steps")
        self.run_tool("--profile-at", 3, code=2, says="--profile-at needs --profile")

    def test_tracing_changes_nothing(self):
        self.run_tool("--save", self.path("plain"), program="two")
        self.run_tool("--save", self.path("traced"), "--profile", self.path("traces"), "--profile-at", 2, 3, 7, program="two")
        self.assertTrue(self.weights("plain") == self.weights("traced"))

    def test_on_demand(self):
        for program, launcher in (("two", ()), ("two", (*MPIRUN, "2"))):
            for by in ("file", "signal"):
                with self.subTest(launcher=launcher, by=by):
                    folder = self.path(f"traces-{by}-{len(launcher)}")
                    log = self.path(f"{by}-{len(launcher)}.jsonl")
                    job = self.start("--profile", folder, "--steps", 100000, "--log", log, "--checkpoint", self.path("ck"), "--overwrite",
                                     program=program, launcher=launcher)
                    self.wait_for(lambda log=log: os.path.exists(log) and len(self.lines(log)) > 3, job)
                    for times in (1, 2):
                        if by == "file":
                            with open(os.path.join(folder, "request"), "w"):
                                pass
                        else:  # mpirun passes it on, to each rank in a step of its own: that is one request
                            job.send_signal(signal.SIGUSR2)
                        self.wait_for(lambda folder=folder, times=times: sum(name.endswith(".json") for name in os.listdir(folder)) == times, job)
                        time.sleep(1.2)
                    job.send_signal(signal.SIGUSR1)
                    self.assertEqual(job.wait(), 75)
                    for name in os.listdir(folder):
                        self.assertRegex(name, r"^step-\d{8}\.json$")  # the request is gone
                        self.assertEqual(self.traced_ranks(os.path.join(folder, name)), [0, 1])
                    with open(self.path("said")) as said:
                        self.assertEqual(said.read().count("is recorded in"), 2)


class Device(StatusCase):
    """The emulated device, on which a step begins before the numbers of the one before it are there."""
    layouts = {"device": ("--stages", "2", "--target", "cuda", "--dtype", "float32", "--gpu-code", "emulated")}
    emulated = {"OMNIBAL_PLUGINS": os.path.abspath(os.path.join(BIN, "..", "emulated"))}

    def run_here(self, *flags, **options):
        return self.run_tool(*flags, "--steps", 5, program="device", environment=self.emulated, **options)

    def test_it_tells_the_same(self):
        self.run_here("--log", self.path("plain.jsonl"), "--save", self.path("plain"))
        self.run_here("--log", self.path("log.jsonl"), "--save", self.path("saved"), "--part-norms", "--profile", self.path("traces"),
                      "--profile-at", 2, 3, 5, "--heartbeat", self.path("beat"), "--prometheus", self.path("x.prom"), "--save-gradients",
                      self.path("gradients.safetensors"))
        self.assertTrue(self.weights("plain") == self.weights("saved"))
        self.assertEqual(sorted(os.listdir(self.path("traces"))), [f"step-{step:08}.json" for step in (2, 3, 5)])
        self.assertEqual((self.beat()["phase"], self.beat()["step"]), ("finished", 4))
        samples = tokens = 0
        for line, plain in zip(self.lines(), self.lines("plain.jsonl"), strict=True):
            samples, tokens = samples + line["samples"], tokens + line["tokens"]
            self.assertEqual((line["samples_seen"], line["tokens_seen"]), (samples, tokens))
            self.assertEqual((line["loss"], line["grad_norm"]), (plain["loss"], plain["grad_norm"]))
            for names in (("stage 0", "stage 1"), ("vision", "projector", "language")):
                self.assertAlmostEqual(math.hypot(*(line["grad_norm_of"][name] for name in names)) / line["grad_norm"], 1, delta=1e-5)

    def test_on_demand(self):
        os.mkdir(self.path("traces"))
        with open(self.path("traces/request"), "w"):
            pass
        said = self.run_here("--profile", self.path("traces"))
        # The leader sees it before the first step; all hear of it with that step, when the second one has begun.
        self.assertEqual(os.listdir(self.path("traces")), ["step-00000003.json"], said)


class Sending(StatusCase):
    layouts = {"one": ()}
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "python", "log_to.py")
    fake = '''
import json, os, types
def tell(*what):
    with open(os.environ["TOLD"], "a") as file:
        file.write(json.dumps(what) + "\\n")
'''
    wandb = fake + '''
class Run:
    step = int(os.environ.get("FIRST_STEP", "0"))
    def log(self, numbers, step):
        tell("log", step, numbers)
    def finish(self):
        tell("finish")
def init(**arguments):
    tell("init", arguments)
    return Run()
'''
    mlflow = fake + '''
def set_experiment(name):
    tell("experiment", name)
def start_run(run_id, run_name):
    tell("start", run_id, run_name)
    return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id or "new"))
def log_params(options):
    tell("params", options)
def log_metrics(numbers, step):
    tell("log", step, numbers)
def end_run():
    tell("finish")
class MlflowClient:
    def get_metric_history(self, run, name):
        first = int(os.environ.get({"train/loss": "FIRST_STEP", "evaluation/loss": "FIRST_EVALUATION"}[name], "0"))
        return [types.SimpleNamespace(step=step) for step in range(first)]
'''

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("modules"))
        for name in ("wandb", "mlflow"):
            with open(self.path(f"modules/{name}.py"), "w") as file:
                file.write(getattr(self, name))

    def environment(self, **more):
        return {**os.environ, "PYTHONPATH": self.path("modules"), "TOLD": self.path("told"), **more}

    def send(self, *words, code=0, **environment):
        if os.path.exists(self.path("told")):
            os.remove(self.path("told"))
        result = subprocess.run([sys.executable, self.tool, *map(str, words)], env=self.environment(**environment), timeout=120,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def told(self):
        with open(self.path("told")) as file:
            return [json.loads(line) for line in file]

    def run_and_log(self):
        self.run_tool("--log", self.path("log.jsonl"), "--steps", 4, "--lr-of", "vision|x=1e-4", "--evaluate-every", 2, "--evaluate-data",
                      f"{MODEL}/data-000000.tar", "--checkpoint", self.path("ck"))

    def expected(self, line):
        if "evaluation" in line:
            return {f"evaluation/{name}": value for name, value in line["evaluation"].items() if isinstance(value, (int, float))}
        numbers = {f"train/{name}": value for name, value in line.items() if isinstance(value, (int, float)) and name != "step"}
        return {**numbers, **{f"train/lr_of/{name}": value for name, value in line["lr_of"].items()}}

    def test_every_number_of_the_log(self):
        self.run_and_log()
        lines = self.lines()
        self.assertEqual(len(lines), 6)
        self.send("wandb", self.path("log.jsonl"), "--project", "p", "--name", "n", "--options", self.path("ck/omnibal.toml"))
        (first, arguments), *logs, last = self.told()
        self.assertEqual((first, arguments["project"], arguments["name"], last), ("init", "p", "n", ["finish"]))
        self.assertEqual((arguments["config"]["run.steps"], arguments["config"]["run.lr-of"]), (4, ["vision|x=1e-4"]))
        self.assertEqual(logs, [["log", line["step"], self.expected(line)] for line in lines])
        self.send("mlflow", self.path("log.jsonl"), "--project", "p", "--options", self.path("ck/omnibal.toml"))
        experiment, start, (_, options), *logs, last = self.told()
        self.assertEqual((experiment, start, last), (["experiment", "p"], ["start", None, None], ["finish"]))
        self.assertEqual(options["run.steps"], "4")
        # MLflow does not take every letter.
        self.assertEqual(logs, [["log", line["step"], {name.replace("|", "_"): value for name, value in self.expected(line).items()}]
                                for line in lines])

    def test_going_on_with_a_run(self):
        self.run_and_log()
        for destination in ("wandb", "mlflow"):
            self.send(destination, self.path("log.jsonl"), "--id", "abc", FIRST_STEP="3", FIRST_EVALUATION="2")
            self.assertEqual([what[1] for what in self.told() if what[0] == "log"], [3, 3])
        # The sender ended between the two lines of the last step.
        self.send("mlflow", self.path("log.jsonl"), "--id", "abc", FIRST_STEP="4", FIRST_EVALUATION="2")
        (step, numbers), = [what[1:] for what in self.told() if what[0] == "log"]
        self.assertEqual((step, numbers), (3, self.expected(self.lines()[-1])))

    def follow(self, *words, seconds=0.05):
        follower = subprocess.Popen([sys.executable, self.tool, "wandb", self.path("log.jsonl"), "--follow", "--seconds", str(seconds),
                                     *words], env=self.environment(), stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: follower.poll() is None and (follower.kill(), follower.wait()))
        return follower

    def write_beat(self, phase, moment):
        """Replaced as a whole, as a run does it."""
        with open(self.path("beat.new"), "w") as file:
            json.dump({"step": 3, "steps": 9, "phase": phase, "time": moment, "pid": 1}, file)
        os.replace(self.path("beat.new"), self.path("beat"))

    def wait_for_logs(self, count, follower):
        def logs():
            return [what for what in self.told() if what[0] == "log"] if os.path.exists(self.path("told")) else []
        self.wait_for(lambda: len(logs()) == count, follower)

    def test_the_end_of_an_earlier_start_is_none(self):
        for phase in ("stopped", "finished"):
            for name in ("told", "log.jsonl"):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
            self.write_beat(phase, time.time())
            follower = self.follow("--heartbeat", self.path("beat"))
            with open(self.path("log.jsonl"), "w") as file:
                file.write('{"step": 0, "loss": 1}\n')
            self.wait_for_logs(1, follower)
            time.sleep(0.5)  # ten looks
            self.assertIsNone(follower.poll())
            self.run_tool("--log", self.path("log.jsonl"), "--steps", 3, "--heartbeat", self.path("beat"))
            self.assertEqual(follower.wait(60), 0)
            self.assertEqual([what[1] for what in self.told() if what[0] == "log"], [0, 1, 2])

    def test_an_end_by_another_clock(self):
        with open(self.path("log.jsonl"), "w") as file:
            file.write('{"step": 0, "loss": 1}\n')
        self.write_beat("training", 1)
        follower = self.follow("--heartbeat", self.path("beat"))
        self.wait_for_logs(1, follower)
        time.sleep(0.5)
        self.assertIsNone(follower.poll())
        self.write_beat("finished", 2)
        self.assertEqual(follower.wait(60), 0)

    def test_what_has_come_is_sent_before_the_end(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with open(self.path("log.jsonl"), "w") as file:
                file.write('{"step": 0, "loss": 1}\n')
            follower = self.follow(seconds=1000)
            self.wait_for_logs(1, follower)
            with open(self.path("log.jsonl"), "a") as file:
                file.write('{"step": 1, "loss": 2}\n')
            follower.send_signal(number)
            self.assertEqual(follower.wait(60), 0)
            self.assertEqual([what[1] for what in self.told() if what[0] == "log"], [0, 1])
            self.assertEqual(self.told()[-1], ["finish"])
            os.remove(self.path("told"))

    def test_following_a_run_that_is_resumed(self):
        follower = self.follow("--heartbeat", self.path("beat"))
        flags = ("--log", self.path("log.jsonl"), "--checkpoint", self.path("ck"), "--checkpoint-every", 3)
        self.run_tool(*flags, "--steps", 5)
        self.assertIsNone(follower.poll())
        # Steps 3 and 4 are computed again; the log is another file then.
        self.run_tool(*flags, "--resume", self.path("ck/step-00000003"), "--overwrite", "--steps", 8, "--heartbeat", self.path("beat"))
        self.assertEqual(follower.wait(60), 0)
        logs = [what for what in self.told() if what[0] == "log"]
        self.assertEqual([what[1] for what in logs], list(range(8)))
        self.assertEqual(logs[7][2]["train/loss"], self.lines()[7]["loss"])
        self.assertEqual(self.told()[-1], ["finish"])

    def test_what_is_wrong(self):
        self.assertIn("none.jsonl does not exist", self.send("wandb", self.path("none.jsonl"), code=2).stderr)
        with open(self.path("log.jsonl"), "w") as file:
            file.write('{"step": 0, "loss": 1}\nnonsense\n{"step": 1, "skipped": "why"}\n{"step": 2, "loss": 2}\n{"step": 3, "lo')
        said = self.send("wandb", self.path("log.jsonl"))
        self.assertEqual([what[1] for what in self.told() if what[0] == "log"], [0, 2])
        self.assertIn("nonsense", said.stderr)
        os.remove(self.path("modules/wandb.py"))
        said = subprocess.run([sys.executable, "-I", self.tool, "wandb", self.path("log.jsonl")], stderr=subprocess.PIPE, text=True, timeout=60)
        if said.returncode:  # no test needs a machine without it
            self.assertIn("pip install wandb", said.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
