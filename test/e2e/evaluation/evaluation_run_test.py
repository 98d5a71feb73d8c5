#!/usr/bin/env python3
"""Evaluation while a run trains: evaluation_run_test.py BIN_FOLDER DATA_FOLDER [unittest options].
Training has the bits of a run without it, and the figures are those of --evaluate on the same checkpoint."""
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from event_files import as_float32, events  # noqa: E402
from run_case import BIN, MODEL, MPIRUN, STOPPED, RunCase  # noqa: E402


EMULATED = {"OMNIBAL_PLUGINS": os.path.join(BIN, "..", "emulated")}


class EvaluationRun(RunCase):
    layouts = {"one": (), "four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2"),
               "planned": ("--stages", "2", "--schedule", "per-step"),
               "shares": ("--data-parallel", "2", "--microbatches", "2", "--zero", "1"),
               "device": ("--stages", "2", "--target", "cuda", "--dtype", "bfloat16", "--gpu-code", "emulated")}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The same program with two ranks that run a stage together.
        shutil.copytree(f"{cls.programs}/planned", f"{cls.programs}/parts")
        with open(f"{cls.programs}/parts/manifest.json") as file:
            manifest = json.load(file)
        with open(f"{cls.programs}/parts/manifest.json", "w") as file:
            json.dump({**manifest, "model_parallel": 2}, file)

    def setUp(self):
        super().setUp()
        with tarfile.open(f"{MODEL}/data-000000.tar") as tar:
            self.members = [(member.name, tar.extractfile(member).read()) for member in tar if member.isfile()]
        keys = sorted({name.split(".")[0] for name, _ in self.members})
        self.halves = keys[:len(keys) // 2], keys[len(keys) // 2:]
        for folder, keys in zip(("held/first", "held/second"), self.halves):
            os.makedirs(self.path(folder))
            self.write_shard(f"{folder}/a.tar", keys)

    def write_shard(self, name, keys, change=lambda name, data: data):
        with tarfile.open(self.path(name), "w", format=tarfile.USTAR_FORMAT) as tar:
            for member, data in self.members:
                if member.split(".")[0] in keys:
                    data = change(member, data)
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))

    def held(self):
        return "--evaluate-data", self.path("held/first"), self.path("held/second")

    def log(self, name="log.jsonl"):
        with open(self.path(name)) as file:
            return [json.loads(line) for line in file]

    def evaluations(self, name="log.jsonl"):
        return {line["step"]: line["evaluation"] for line in self.log(name) if "evaluation" in line}

    def trained(self, name):
        """The figures of steps that do not depend on time."""
        return [{key: value for key, value in line.items() if key in ("step", "loss", "grad_norm", "lr", "tokens", "messages", "message_bytes")}
                for line in self.log(name) if "evaluation" not in line]

    def evaluate(self, weights, *data, program="one"):
        subprocess.run([f"{BIN}/omnibal-run", f"{self.programs}/{program}", "--weights", weights, "--data", *data, "--preprocess",
                        f"{MODEL}/preprocessor_config.json", "--evaluate", "--log", self.path("evaluate.json")],
                       check=True, capture_output=True, timeout=600)
        with open(self.path("evaluate.json")) as file:
            return json.load(file)

    def exported(self, checkpoint):
        target = self.path("exported-" + os.path.basename(checkpoint))
        subprocess.run([f"{BIN}/omnibal-run", "--export-checkpoint", checkpoint, "--weights", MODEL, "--save", target, "--overwrite"],
                       check=True, capture_output=True)
        return target

    def test_training_has_the_bits_of_a_run_without_it(self):
        figures = {}
        for program, launcher in (("one", ()), ("four", (*MPIRUN, "4")), ("four", ()), ("planned", ()), ("shares", ()), ("parts", ())):
            with self.subTest(program=program, launcher=launcher):
                names = "alone", "beside"
                for name, flags in zip(names, ((), ("--evaluate-every", 2, *self.held()))):
                    self.run_tool("--log", self.path(f"{name}.jsonl"), "--save", self.path(name), "--checkpoint", self.path(f"ck-{name}"),
                                  "--checkpoint-every", 4, "--keep", 9, "--overwrite", *flags, program=program, launcher=launcher)
                self.assertEqual(self.weights("alone"), self.weights("beside"))
                alone, beside = map(lambda name: self.trained(f"{name}.jsonl"), names)
                self.assertEqual([{k: v for k, v in line.items() if not k.startswith("message")} for line in alone],
                                 [{k: v for k, v in line.items() if not k.startswith("message")} for line in beside])
                figures[program] = self.evaluations("beside.jsonl")
                self.assertEqual(sorted(figures[program]), [1, 3, 5, 7, 9])
                for step in (4, 8):
                    shards = [name for name in sorted(os.listdir(self.path(f"ck-alone/step-{step:08}"))) if name.endswith(".safetensors")]
                    for shard in shards:
                        with open(self.path(f"ck-alone/step-{step:08}/{shard}"), "rb") as a, \
                                open(self.path(f"ck-beside/step-{step:08}/{shard}"), "rb") as b:
                            self.assertTrue(a.read() == b.read(), shard)

        self.assertEqual(figures["parts"], figures["planned"])

    def test_a_device_with_steps_ahead(self):
        """The emulated device, in bfloat16."""
        os.makedirs(self.path("few"))
        self.write_shard("few/a.tar", self.halves[0][:3])
        for name, flags in (("alone", ()), ("beside", ("--evaluate-every", 1, "--evaluate-data", self.path("few")))):
            self.run_tool("--log", self.path(f"{name}.jsonl"), "--save", self.path(name), "--steps", 2, *flags, program="device",
                          environment=EMULATED)
        self.assertEqual(self.weights("alone"), self.weights("beside"))
        self.assertEqual(sorted(self.evaluations("beside.jsonl")), [0, 1])

    def test_figures_are_those_of_evaluate(self):
        self.run_tool("--log", self.path("log.jsonl"), "--checkpoint", self.path("ck"), "--checkpoint-every", 3, "--keep", 9,
                      "--evaluate-every", 3, *self.held(), "--tensorboard", self.path("tb"), says="evaluated after step 9: loss")
        found = self.evaluations()
        self.assertEqual(sorted(found), [2, 5, 8, 9])
        for step, figures in found.items():
            weights = self.exported(self.path(f"ck/step-{step + 1:08}"))
            self.assertEqual(self.evaluate(weights, self.path("held/first"), self.path("held/second")), figures)
            # A source is what its folder is by itself, and the whole what the sources are together.
            self.assertEqual(sorted(figures["sources"]), ["first", "second"])
            for name, own in figures["sources"].items():
                alone = self.evaluate(weights, self.path(f"held/{name}"))
                self.assertNotIn("sources", alone)
                for field, value in own.items():
                    self.assertAlmostEqual(value, alone[field], delta=1e-6, msg=(name, field))
            self.assertEqual(figures["samples"], sum(map(len, self.halves)))
            self.assertEqual(figures["label_tokens"], sum(own["label_tokens"] for own in figures["sources"].values()))
        file, = [events(self.path(f"tb/{name}")) for name in os.listdir(self.path("tb"))]
        told = {event["step"]: event["scalars"] for event in file[2:] if any(tag.startswith("evaluation/") for tag in event["scalars"])}
        self.assertEqual(sorted(told), sorted(found))
        for step, scalars in told.items():
            self.assertEqual(scalars["evaluation/loss"], as_float32(found[step]["loss"]))
            self.assertEqual(scalars["evaluation/second/token_accuracy"], as_float32(found[step]["sources"]["second"]["token_accuracy"]))

    def test_layouts_agree(self):
        losses = []
        for program, launcher in (("one", ()), ("four", (*MPIRUN, "4"))):
            self.run_tool("--log", self.path("log.jsonl"), "--steps", 2, "--evaluate-every", 1, *self.held(), program=program, launcher=launcher)
            losses.append([figures["loss"] for figures in self.evaluations().values()])
        for a, b in zip(*losses):
            self.assertAlmostEqual(a, b, delta=2e-5)

    def test_going_on_after_any_step(self):
        flags = ("--evaluate-every", 2, *self.held(), "--keep-best")
        for program in ("one", "four"):
            with self.subTest(program=program):
                self.run_tool("--log", self.path("whole.jsonl"), "--checkpoint", self.path("ck"), "--checkpoint-every", 1, "--keep", 20,
                              "--save", self.path("whole"), "--overwrite", *flags, program=program)
                whole = self.evaluations("whole.jsonl")
                for step in (1, 2, 5, 6, 9):
                    if os.path.exists(self.path("rest.jsonl")):
                        os.remove(self.path("rest.jsonl"))
                    self.run_tool("--log", self.path("rest.jsonl"), "--resume", self.path(f"ck/step-{step:08}"), "--save", self.path("rest"),
                                  "--checkpoint", self.path(f"ck-{program}-{step}"), "--overwrite", *flags, program=program)
                    self.assertEqual(self.weights("rest"), self.weights("whole"))
                    self.assertEqual(self.evaluations("rest.jsonl"), {at: f for at, f in whole.items() if at >= step})
                    best = min((f["loss"], at) for at, f in whole.items())[1] + 1
                    if best > step:
                        self.assertEqual(self.best(f"ck-{program}-{step}"), best)

    def best(self, folder="ck"):
        with open(self.path(f"{folder}/best")) as file:
            name = file.read()
        self.assertRegex(name, r"^step-\d{8}\n$")
        return int(name[5:])

    def test_the_best_checkpoint_stays(self):
        # So large a rate that the loss rises after its first steps.
        flags = ("--lr", 0.02, "--evaluate-every", 1, *self.held(), "--checkpoint", self.path("ck"), "--keep", 1, "--log", self.path("log.jsonl"))
        for launcher, program in (((), "one"), ((*MPIRUN, "4"), "four")):
            with self.subTest(program=program):
                self.run_tool(*flags, "--keep-best", "--checkpoint-every", 1, "--overwrite", launcher=launcher, program=program)
                found = self.evaluations()
                best = min(found, key=lambda step: found[step]["loss"])
                self.assertLess(best, 8, "the test needs a loss that rises")
                self.assertEqual(self.best(), best + 1)
                self.assertEqual(self.checkpoints(), [best + 1, 10])
                self.assertEqual(self.evaluate(self.exported(self.path(f"ck/step-{best + 1:08}")), self.path("held/first"),
                                               self.path("held/second"), program=program), found[best])
                # A run without the flag prunes around it; one that begins anew replaces it.
                self.run_tool(*flags[7:], "--steps", 13, "--lr", 0.02, "--resume", "auto", "--checkpoint-every", 1, launcher=launcher, program=program)
                self.assertEqual(self.checkpoints(), [best + 1, 13])
        self.run_tool("--checkpoint", self.path("ck"), "--overwrite", "--steps", 1)
        self.assertEqual(sorted(os.listdir(self.path("ck"))), ["latest", "lock", "omnibal.toml", "step-00000001"])

    def test_only_better_ones_are_saved(self):
        self.run_tool("--lr", 0.02, "--evaluate-every", 1, *self.held(), "--checkpoint", self.path("ck"), "--keep", 99, "--keep-best",
                      "--log", self.path("log.jsonl"))
        found, least, better = self.evaluations(), float("inf"), set()
        for step in sorted(found):
            if found[step]["loss"] < least:
                least = found[step]["loss"]
                better.add(step + 1)
        self.assertEqual(set(self.checkpoints()), better | {10})

    def test_early_stop(self):
        flags = ("--lr", 0.02, "--evaluate-every", 1, *self.held(), "--log", self.path("log.jsonl"))
        self.run_tool(*flags)
        losses = [figures["loss"] for _, figures in sorted(self.evaluations().items())]
        since, end, best = 0, None, 0
        for step, loss in enumerate(losses):
            since = 0 if step == 0 or loss < losses[best] else since + 1
            best = best if since else step
            if since == 2:
                end = step + 1
                break
        self.assertIsNotNone(end, losses)
        for launcher, program in (((), "one"), ((*MPIRUN, "4"), "four")):
            shutil.rmtree(self.path("ck"), ignore_errors=True)
            said = self.run_tool(*flags, "--early-stop", 2, "--checkpoint", self.path("ck"), "--save", self.path("out"), program=program,
                                 launcher=launcher, says=f"had no lower loss than {losses[best]:.3f}")
            self.assertIn(f"after step {best + 1} (--early-stop)", said)
            self.assertEqual(self.checkpoints(), [end])
            self.assertTrue(os.path.exists(self.path("out/model.safetensors")))
            # The same command line again has nothing left to do.
            said = self.run_tool(*flags, "--early-stop", 2, "--checkpoint", self.path("ck"), "--resume", "auto", program=program,
                                 launcher=launcher, says="(--early-stop)")
            self.assertNotIn("step 10/", said)
            self.assertEqual(self.checkpoints(), [end])
        # Counting goes on where a run goes on.
        shutil.rmtree(self.path("ck"))
        self.run_tool(*flags, "--early-stop", 2, "--checkpoint", self.path("ck"), "--steps", end - 1)
        self.run_tool(*flags, "--early-stop", 2, "--checkpoint", self.path("ck"), "--resume", "auto", says="(--early-stop)")
        self.assertEqual(self.checkpoints()[-1], end)

    def test_a_run_that_is_stopped_is_evaluated_by_the_one_that_goes_on(self):
        log = self.path("stopped.jsonl")
        with open(self.path("said"), "w") as said:
            job = subprocess.Popen(self.command("--log", log, "--steps", 100000, "--evaluate-every", 1, *self.held(), "--checkpoint",
                                                self.path("ck")), stderr=said)
        self.addCleanup(job.kill)
        end = time.time() + 60
        while not (os.path.exists(log) and os.path.getsize(log) > 3000):
            self.assertLess(time.time(), end)
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(job.wait(60), STOPPED)
        done = self.checkpoints()[-1]
        self.run_tool("--log", log, "--steps", done + 2, "--evaluate-every", 1, *self.held(), "--checkpoint", self.path("ck"), "--resume", "auto")
        self.run_tool("--log", self.path("whole.jsonl"), "--steps", done + 2, "--evaluate-every", 1, *self.held())
        self.assertEqual(self.evaluations("stopped.jsonl"), self.evaluations("whole.jsonl"))

    def test_other_data_begins_anew(self):
        flags = ("--checkpoint", self.path("ck"), "--evaluate-every", 2, "--keep-best")
        self.run_tool(*flags, *self.held(), "--steps", 4)
        said = self.run_tool(*flags, "--evaluate-data", self.path("held/first"), "--resume", "auto", "--steps", 6,
                             says="--evaluate-data has other samples than when the checkpoint was written")
        self.assertIn("(the best so far)", said)

    def test_a_bad_sample_costs_no_step(self):
        keys = self.halves[0]
        broken = lambda name, data: b"no picture" if name.endswith((".png", ".jpg")) else data
        short = lambda name, data: json.dumps({**json.loads(data), "labels": [1]}).encode() if name == f"{keys[0]}.json" else data
        for change, program, launcher in ((broken, "one", ()), (broken, "four", (*MPIRUN, "4")), (short, "four", ()), (short, "four", (*MPIRUN, "4"))):
            shutil.rmtree(self.path("ck"), ignore_errors=True)
            self.write_shard("bad.tar", keys, change)
            said = self.run_tool("--checkpoint", self.path("ck"), "--evaluate-every", 3, "--evaluate-data", self.path("bad.tar"),
                                 program=program, launcher=launcher, code=1, says="evaluating after step 3: ")
            self.assertIn("bad.tar: ", said)
            self.assertEqual(self.checkpoints(), [3])

    def test_mistakes_of_the_command_line(self):
        for flags, says in ((("--evaluate-every", 2), "--evaluate-every needs --evaluate-data"),
                            (self.held(), "--evaluate-data needs --evaluate-every"),
                            (("--early-stop", 2), "--early-stop needs --evaluate-every"),
                            (("--keep-best", "--checkpoint", self.path("ck")), "--keep-best needs --evaluate-every"),
                            (("--evaluate-every", 2, *self.held(), "--keep-best"), "--keep-best needs --evaluate-every, which finds the best, and --checkpoint"),
                            (("--evaluate-every", 0, *self.held()), "--evaluate-every")):
            self.run_tool(*flags, code=2, says=says)
        self.run_tool("--evaluate-every", 2, "--evaluate-data", self.path("nothing"), code=1, says="--evaluate-data: ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
