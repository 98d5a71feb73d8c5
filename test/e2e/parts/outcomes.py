"""What runs leave, byte by byte, to compare one way of running a program with another."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, DATA, LONGEST, MPIRUN, RunCase  # noqa: E402


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return str(listener.getsockname()[1])


def layout(stages, replicas, *flags, groups=6):
    return ("--stages", str(stages), "--data-parallel", str(replicas), "--microbatches", str(groups // replicas), *flags)


class OutcomeCase(RunCase):
    def groups(self, count, steps=4):
        """The samples of each reference step in `count` groups."""
        result = []
        for groups in self.steps[:steps]:
            keys = [key for group in groups for key in group]
            result.append([keys[i::count] for i in range(count)])
        return self.write_steps(result, f"steps-{count}.jsonl")

    def log(self, name):
        with open(self.path(name)) as file:
            return [{key: line[key] for key in ("loss", "grad_norm", "label_tokens")} for line in map(json.loads, file)]

    def outcome(self, program, groups, *flags, ranks=0, launch="threads", name="run"):
        """What a run leaves: losses and norms, weights, checkpoint, gradients of the first step."""
        for old in (f"{name}.ck", f"{name}.saved"):
            shutil.rmtree(self.path(old), ignore_errors=True)
        flags = ("--log", self.path(f"{name}.jsonl"), "--checkpoint", self.path(f"{name}.ck"), "--save", self.path(f"{name}.saved"),
                 "--save-gradients", self.path(f"{name}.gradients"), "--lr", "1e-3", "--clip", "0.5", *flags)
        steps = self.groups(groups)
        if launch == "threads":
            self.run_tool(*flags, program=program, steps=steps)
        elif launch == "mpirun":
            self.run_tool(*flags, program=program, steps=steps, launcher=(*MPIRUN, str(ranks)))
        else:
            port, jobs = free_port(), []
            for rank in range(ranks):
                environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                                   LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="localhost", MASTER_PORT=port, OMNIBAL_RUN_ID=port)
                jobs.append(subprocess.Popen(self.command(*flags, program=program, steps=steps), env=environment,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            for job in jobs:
                _, said = job.communicate(timeout=LONGEST)
                self.assertEqual(job.returncode, 0, said)
        return self.log(f"{name}.jsonl"), self.weights(f"{name}.saved"), self.tensors(f"{name}.ck"), self.bytes(f"{name}.gradients")

    def bytes(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def tensors(self, folder):
        """The newest checkpoint's shards, byte by byte."""
        newest = f"{folder}/step-{self.checkpoints(folder)[-1]:08}"
        return {name: self.bytes(f"{newest}/{name}") for name in sorted(os.listdir(self.path(newest))) if name.endswith(".safetensors")}

    def assertSame(self, one, other, text):
        for what, a, b in zip(("losses and norms", "weights", "checkpoint", "gradients"), one, other):
            self.assertTrue(a == b, f"{text}: other {what}" + (f": {a} {b}" if what[0] == "l" else ""))

    def named(self, shards):
        """name -> bytes, on whatever stage."""
        result = {}
        for content in shards.values():
            length = int.from_bytes(content[:8], "little")
            for name, entry in json.loads(content[8:8 + length]).items():
                if name != "__metadata__":
                    begin, end = entry["data_offsets"]
                    result[name] = content[8 + length + begin:8 + length + end]
        return result


class TiedCase(OutcomeCase):
    """A model of which two stages have copies of one parameter: their gradients add up first."""

    @classmethod
    def setUpClass(cls):
        cls.programs = tempfile.mkdtemp(prefix="omnibal-tied-")
        cls.addClassCleanup(shutil.rmtree, cls.programs)
        model = os.path.join(DATA, "llava-tied")
        for name, flags in cls.layouts.items():
            subprocess.run([f"{BIN}/omnibal-compile", f"{model}/model-opset22.onnx", "--tiles", "24", "--tokens", "420", *flags, "-o",
                            f"{cls.programs}/{name}"], check=True, stdout=subprocess.DEVNULL)
        with open(f"{model}/reference.json") as file:
            cls.steps = [step["groups"] for step in json.load(file)["variants"]["train_all"]["steps"]]

    def command(self, *flags, program="one", data=None, steps=None, weights=None):
        model = os.path.join(DATA, "llava-tied")
        return [f"{BIN}/omnibal-run", f"{self.programs}/{program}", "--weights", f"{model}/model.safetensors", "--data",
                f"{model}/data-000000.tar", "--preprocess", f"{model}/preprocessor_config.json", "--steps-file", steps, *map(str, flags)]
