"""What tests of whole runs share: small programs, their command lines, and what runs leave behind.
The test's own arguments are BIN_FOLDER DATA_FOLDER [unittest options]."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")
STOPPED = 75
LONGEST = 600  # seconds that a run may take: one that hangs, not one on a busy machine
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n")


class RunCase(unittest.TestCase):
    graph = "model.onnx"
    layouts = {"one": (), "two": ("--stages", "2"), "replicas": ("--data-parallel", "2", "--microbatches", "2"),
               "frozen": ("--freeze", "vision")}

    @classmethod
    def setUpClass(cls):
        cls.programs = tempfile.mkdtemp(prefix="omnibal-survival-")
        cls.addClassCleanup(shutil.rmtree, cls.programs)
        for name, flags in cls.layouts.items():
            subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/{cls.graph}", "--tiles", "24", "--tokens", "420", *flags,
                            "-o", f"{cls.programs}/{name}"], check=True, stdout=subprocess.DEVNULL)
        with open(f"{MODEL}/reference.json") as file:
            cls.steps = [step["groups"] for step in json.load(file)["variants"]["train_all"]["steps"]]

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-survival-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def write_steps(self, steps, name="steps.jsonl"):
        with open(self.path(name), "w") as file:
            file.writelines(json.dumps({"groups": groups}) + "\n" for groups in steps)
        return self.path(name)

    def command(self, *flags, program="one", data=None, steps=None, weights=None):
        return [f"{BIN}/omnibal-run", f"{self.programs}/{program}", "--weights", weights or f"{MODEL}/model.safetensors", "--data",
                data or f"{MODEL}/data-000000.tar", "--preprocess", f"{MODEL}/preprocessor_config.json", "--steps-file", steps or self.write_steps(self.steps), *map(str, flags)]

    def run_tool(self, *flags, code=0, says="", launcher=(), environment=None, **options):
        result = subprocess.run([*launcher, *self.command(*flags, **options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=LONGEST, env={**os.environ, **(environment or {})})
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(says, result.stderr)
        return result.stderr

    def weights(self, folder):
        with open(os.path.join(self.path(folder), "model.safetensors"), "rb") as file:
            return file.read()

    def checkpoints(self, folder="ck"):
        return sorted(int(name[5:]) for name in os.listdir(self.path(folder)) if name.startswith("step-"))
