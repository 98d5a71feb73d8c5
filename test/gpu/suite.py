#!/usr/bin/env python3
"""The GPU test suite: suite.py BUNDLE [--seconds 570] [--logs DIR] [--only TEXT] [--jobs N]

BUNDLE is a folder of bundle.sh. Kernels and conformance against the host backend; losses of the small models in float32
and bfloat16 against PyTorch's; equal losses of 1, 2 and 4 logical ranks and equal bits of two runs; saved and resumed
runs; --forward against the exported graph's outputs; memory and race checks. --jobs checks share the device at a time,
which takes less of the machine's time. The last line is "N passed, N failed".
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test", "support", "python")]
import reference_losses  # noqa: E402
from checks import Checks  # noqa: E402

SHARDS = {"gpu-kernel-test": 4, "gpu-conformance": 2, "gpu-backend-test": 1}
SANITIZED = {"gpu-kernel-test": 6}  # its small problems


class Suite:
    def __init__(self, args):
        self.args, self.checks = args, Checks(args.logs, args.seconds, args.slowness)
        self.work = os.path.join(args.logs, "work")
        with open(os.path.join(args.bundle, "programs", "programs.json")) as file:
            self.programs = [p for p in json.load(file) if p["kind"] == "suite" and (not args.programs or p["name"] in args.programs.split(","))]

    def path(self, *parts):
        return os.path.join(self.args.bundle, *parts)

    def data(self, program, name):
        return os.path.join(ROOT, "test", "data", program["model"], name)

    def run(self, name, *command, **options):
        if self.args.only and self.args.only not in name:
            return False
        return self.checks.run(name, command, **options)

    def sharded(self, binary, shards, prefix="", tool=(), environment=None, **options):
        """The tests of a binary, as so many tasks."""
        for shard in range(shards):
            yield lambda name=f"{prefix}{binary} {shard + 1}/{shards}", shard=shard: self.run(
                name, *tool, self.path("bin", binary), "--gtest_brief=1",
                environment={**(environment or {}), "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}, **options)

    def binaries(self):
        for name, shards in SHARDS.items():
            if os.path.exists(self.path("bin", name)) or not self.args.partial:
                yield from self.sharded(name, shards, limit=150, show=1)
        yield lambda: self.run("gpu-kernel-test, attention by our own kernels", self.path("bin", "gpu-kernel-test"), "--gtest_brief=1",
                               "--gtest_filter=*Attention", limit=60, show=1, environment={"OMNIBAL_CUDA_ATTENTION": "own"})

    def losses(self, program, again=False):
        """One training run against reference.json. Returns the folder with its log."""
        name = program["name"] + (" again" if again else "")
        work = os.path.join(self.work, name.replace(" ", "-"))
        flags = ["--bfloat16"] if program["dtype"] == "bfloat16" else []
        good = self.run("losses " + name, sys.executable, os.path.join(ROOT, "test", "support", "python", "reference_losses.py"), "--bin",
                        self.path("bin"), "--model", os.path.dirname(self.data(program, "x")), "--variant", program["variant"],
                        "--program", self.path("programs", program["name"]), "--work", work, *flags, limit=60, show=1)
        return work if good else None

    def read(self, work, file="run.jsonl"):
        with open(os.path.join(work, file)) as log:
            return [json.loads(line) for line in log]

    def same_bits(self, one, other):
        numbers = [[(step["loss"], step["grad_norm"]) for step in self.read(work)] for work in (one, other)]
        contents = []
        for work in (one, other):
            with open(os.path.join(work, "gradients.safetensors"), "rb") as file:
                contents.append(file.read())
        return numbers[0] == numbers[1] and contents[0] == contents[1]

    def training(self):
        """Every program against PyTorch, those of two stages twice, then the layouts of a model against each other."""
        works = {}

        def train(program):
            work = self.losses(program)
            if work:
                works[program["name"]] = work
            if work and program["stages"] == 2:
                again = self.losses(program, again=True)
                if again:
                    self.checks.note("equal bits of two runs " + program["name"], self.same_bits(work, again))
        self.together(lambda program=program: train(program) for program in self.programs)
        self.layouts(works)

    def layouts(self, works):
        groups = {}
        for program in self.programs:
            if program["name"] in works:
                groups.setdefault((program["model"], program["variant"], program["dtype"]), []).append(program["name"])
        for (model, variant, dtype), names in groups.items():
            if len(names) < 2:
                continue
            losses = [[step["loss"] for step in self.read(works[name])] for name in names]
            apart = max(abs(a - b) / abs(b) for other in losses[1:] for a, b in zip(other, losses[0]))
            allowed = 1e-6 if dtype == "float32" else 1e-4  # a sum over replicas in another order may round a weight
            self.checks.note(f"layouts of {model} {variant} {dtype} agree", apart <= allowed,
                             f"{len(names)} layouts, losses apart by {apart:.1e}, {allowed:.0e} allowed")

    def runtime(self, program, *more):
        return [self.path("bin", "omnibal-run"), self.path("programs", program["name"]), "--weights",
                self.data(program, "model.safetensors"), *more]

    def train(self, program, work, *more):
        return self.runtime(program, "--data", self.data(program, "data-000000.tar"), "--preprocess",
                            self.data(program, "preprocessor_config.json"), "--steps-file", self.steps(program), "--lr", "1e-3",
                            "--log", os.path.join(work, "run.jsonl"), *more)

    def steps(self, program):
        path = os.path.join(self.work, "steps-" + program["name"] + ".jsonl")
        with open(self.data(program, "reference.json")) as source:
            reference_losses.write_steps(path, json.load(source)["variants"][program["variant"]]["steps"])
        return path

    def resuming(self):
        for program in self.programs:
            if program["variant"] == "train_all" and program["stages"] == 2 and program["replicas"] == 1:
                yield lambda program=program: self.resumed(program)

    def resumed(self, program):
        name = program["name"]
        whole, parts = (os.path.join(self.work, kind + name) for kind in ("whole-", "parts-"))
        for work in (whole, parts):
            shutil.rmtree(work, ignore_errors=True)
            os.makedirs(work)
        checkpoints = os.path.join(whole, "checkpoints")
        good = self.run("whole run " + name, *self.train(program, whole, "--save", os.path.join(whole, "saved"), "--checkpoint",
                                                         checkpoints, "--checkpoint-every", "4"))
        if not good:
            return
        first = min(found for found in os.listdir(checkpoints) if found.startswith("step-"))
        good = self.run("resumed run " + name, *self.train(program, parts, "--resume", os.path.join(checkpoints, first), "--save",
                                                           os.path.join(parts, "saved")))
        if good:
            contents = [open(os.path.join(work, "saved", "model.safetensors"), "rb").read() for work in (whole, parts)]
            losses = [[step["loss"] for step in self.read(work)] for work in (whole, parts)]
            same = 0 < len(losses[1]) < len(losses[0]) and losses[0][-len(losses[1]):] == losses[1]
            self.checks.note("resumed run is the whole run " + name, same and contents[0] == contents[1])

    def forward(self):
        for program in self.programs:
            if program["variant"] == "train_all" and program["stages"] in (1, 2) and program["replicas"] == 1:
                yield lambda program=program: self.run(
                    "forward " + program["name"], sys.executable, os.path.join(HERE, "forward_check.py"), self.path("bin", "omnibal-run"),
                    self.path("programs", program["name"]), self.data(program, ""), "2e-2" if program["dtype"] == "bfloat16" else "2e-5")

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.path.exists(tool):
            self.checks.note("compute-sanitizer", False, "not found")
            return
        for kind in ("memcheck", "racecheck"):
            # Whether other people's kernels race is not ours to say.
            environment = {"OMNIBAL_CUDA_ATTENTION": "own"} if kind == "racecheck" else {}
            checked = [tool, "--tool", kind, "--error-exitcode", "9", "--print-limit", "5"]
            for name, shards in SANITIZED.items():
                yield from self.sharded(name, shards, f"{kind} ", checked, {**environment, "OMNIBAL_TEST_LARGE": "0"}, limit=150, show=2)
            for program in self.programs:
                if program["name"] in ("tiny-internvl-train_all-2x1-float32", "tiny-internvl-train_all-1x1-bfloat16"):
                    work = os.path.join(self.work, f"{kind}-{program['name']}")
                    os.makedirs(work, exist_ok=True)
                    yield lambda kind=kind, program=program, work=work, checked=checked, environment=environment: self.run(
                        f"{kind} training {program['name']}", *checked, *self.train(program, work, "--steps", "1"), limit=120, show=2,
                        environment=environment)

    def together(self, tasks):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()

    def all(self):
        os.makedirs(self.work, exist_ok=True)
        self.together(self.binaries())
        self.training()
        self.together([*self.resuming(), *self.forward()])
        if not self.args.no_sanitizer:
            self.together(self.sanitizer())
        return self.checks.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument("--logs", default="gpu-suite-logs")
    parser.add_argument("--only", help="checks whose name contains this")
    parser.add_argument("--programs", help="names of programs, of all that the bundle has")
    parser.add_argument("--slowness", type=float, default=1, help="factor of all time limits: of an emulated device")
    parser.add_argument("--jobs", type=int, default=6, help="checks at a time")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--partial", action="store_true", help="binaries that the bundle lacks are left out")
    args = parser.parse_args()
    args.bundle, args.logs = os.path.abspath(args.bundle), os.path.abspath(args.logs)
    sys.exit(Suite(args).all())


if __name__ == "__main__":
    main()
