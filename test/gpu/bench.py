#!/usr/bin/env python3
"""The GPU benchmark: bench.py BUNDLE [--seconds 570] [--logs DIR] [--models 1b-8192-1,...]

For every program of the bundle: weights and samples from a fixed seed (make_data.py), the same packed batches through
omnibal-run and through PyTorch (torch_step.py: torch.compile, flash attention of ragged sequences, fused AdamW), in one
run on one machine. Prints milliseconds a step (min / median), tokens/s, their ratio, MFU, peak memory and the losses of
both. Then kernel by kernel (bench_device_kernels) against PyTorch and the roofline. What found no time is said.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from checks import Checks  # noqa: E402

WARMUP = 3
RIVALS = [("autocast", "padded"), ("masters", "padded"), ("autocast", "exact")]


class DeviceMemory:
    """Most bytes of the device in use while open, from nvidia-smi."""

    def __enter__(self):
        self.most, self.open = 0, True
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self):
        while self.open:
            try:
                text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                                      text=True, timeout=5).stdout
                self.most = max(self.most, int(text.split()[0]) << 20)
            except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
                pass
            time.sleep(0.2)

    def __exit__(self, *_):
        self.open = False
        self.thread.join()


class Bench:
    def __init__(self, args):
        self.args, self.checks = args, Checks(args.logs, args.seconds)
        with open(os.path.join(args.bundle, "programs", "programs.json")) as file:
            programs = [p for p in json.load(file) if p["kind"] == "bench"]
        self.programs = [p for p in programs if not args.models or p["name"] in args.models.split(",")]
        self.rows = []

    def path(self, *parts):
        return os.path.join(self.args.bundle, *parts)

    def data_of(self, program):
        """One folder a model and caps: both sides, and layouts of several stages, use the same files."""
        folder = os.path.join(self.args.work, f"{program['model']}-{program['tokens']}")
        if not os.path.exists(os.path.join(folder, "batches", "groups.npy")):
            self.checks.run("data of " + program["name"], [sys.executable, os.path.join(HERE, "make_data.py"),
                            self.path("programs", program["name"]), folder, "--batch", self.path("bin", "omnibal-batch"),
                            "--samples", self.args.samples], limit=150)
        return folder

    def ours(self, program, data):
        log, trace = (os.path.join(self.args.work, name) for name in ("run.jsonl", "trace.json"))
        command = [self.path("bin", "omnibal-run"), self.path("programs", program["name"]), "--weights",
                   os.path.join(data, "model.safetensors"), "--data", os.path.join(data, "data-000000.tar"), "--preprocess",
                   os.path.join(data, "preprocessor_config.json"), "--batches", os.path.join(data, "batches"), "--steps",
                   WARMUP + self.args.steps, "--log", log, "--trace", trace]  # the third step, which is not timed
        with DeviceMemory() as memory:
            good = self.checks.run("omnibal " + program["name"], command, limit=120, show=2)
        if not good:
            return None
        with open(log) as file:
            steps = [json.loads(line) for line in file]
        self.checks.run("least times " + program["name"], [sys.executable, os.path.join(HERE, "step_measured.py"),
                        self.path("programs", program["name"]), trace, "--most", 10], limit=30, show=24)
        timed = steps[WARMUP:]
        found = {"loss": [step["loss"] for step in steps], "ms": [step["step_ms"] for step in timed],
                 "tokens": [step["tokens"] for step in timed], "peak": memory.most}
        for name in ("mfu", "idle"):
            if name in timed[0]:
                found[name] = statistics.median(step[name] for step in timed)
        return found

    def rival(self, program, data, mode, shapes):
        name = f"PyTorch {mode} {shapes} {program['model']}-{program['tokens']}"
        command = [sys.executable, os.path.join(HERE, "torch_step.py"), program["model"], data, "--tokens", program["tokens"],
                   "--tiles", program["tiles"], "--microbatches", program["microbatches"], "--steps", self.args.steps, "--warmup",
                   WARMUP, "--mode", mode, "--shapes", shapes, *(["--eager"] if self.args.eager else [])]
        with DeviceMemory() as memory:
            good = self.checks.run(name, command, limit=150)
        if not good:
            return None
        with open(os.path.join(self.checks.logs, name.replace(" ", "_") + ".log")) as log:
            found = json.loads(log.read().splitlines()[-1])
        return {"loss": found["loss"], "ms": found["ms"][WARMUP:], "tokens": found["tokens"][WARMUP:], "peak": memory.most,
                "name": f"{mode}, {shapes}"}

    def rate(self, result):
        return sum(result["tokens"]) / sum(result["ms"]) * 1e3

    def compare(self, program):
        if self.checks.left() < 30:
            return self.checks.note(program["name"], False, "no time left")
        data = self.data_of(program)
        ours = self.ours(program, data)
        rivals = [found for mode, shapes in RIVALS[:self.args.rivals] if program["stages"] == 1 and self.checks.left() > 60 and
                  (found := self.rival(program, data, mode, shapes))]
        self.show(program, ours, rivals)

    def show(self, program, ours, rivals):
        best = max(rivals, key=self.rate, default=None)
        lines = [f"{program['name']}: {program['microbatches']} micro-batches of up to {program['tokens']} tokens and {program['tiles']} tiles"]
        for name, result in [("omnibal", ours)] + [("PyTorch, " + r["name"], r) for r in rivals]:
            if result:
                extra = "".join(f", {key} {100 * result[key]:.1f} %" for key in ("mfu", "idle") if key in result)
                lines.append(f"  {name:28s} {min(result['ms']):8.1f} / {statistics.median(result['ms']):8.1f} ms   "
                             f"{self.rate(result):9.0f} tokens/s   {result['peak'] / 2**30:6.1f} GiB   loss {result['loss'][0]:.4f} "
                             f"{result['loss'][-1]:.4f}{extra}")
        if ours and best:
            lines.append(f"  ratio to {best['name']}: median {statistics.median(best['ms']) / statistics.median(ours['ms']):.3f}, "
                         f"min {min(best['ms']) / min(ours['ms']):.3f} (goal 1.15); memory {ours['peak'] / max(1, best['peak']):.2f}")
            apart = max(abs(a - b) / b for a, b in zip(ours["loss"], best["loss"]))
            self.checks.note(f"losses of {program['name']} agree", apart < 0.02, f"apart by {apart:.1e}")
        self.rows += lines
        print("\n".join(lines), flush=True)

    def kernels(self):
        if self.args.no_kernels:
            return
        results = os.path.join(self.args.work, "kernels.jsonl")
        if self.checks.run("kernels", [self.path("bin", "bench_device_kernels"), os.path.join(HERE, "kernels.json"), results], limit=60):
            others = [f"--other={wish}={self.attention(wish)}" for wish in ("own", "cudnn-unordered")]
            self.checks.run("kernels against PyTorch", [sys.executable, os.path.join(HERE, "torch_kernels.py"), results, *others], limit=90, show=50)

    def attention(self, wish):
        """Times of attention by another OMNIBAL_CUDA_ATTENTION than the default."""
        cases, results = (os.path.join(self.args.work, f"attention-{wish}.{end}") for end in ("json", "jsonl"))
        with open(os.path.join(HERE, "kernels.json")) as source, open(cases, "w") as target:
            json.dump([case for case in json.load(source) if case["kernel"].startswith("attention")], target)
        self.checks.run(f"attention {wish}", [self.path("bin", "bench_device_kernels"), cases, results], limit=30,
                        environment={"OMNIBAL_CUDA_ATTENTION": wish})
        return results

    def all(self):
        os.makedirs(self.args.work, exist_ok=True)
        self.kernels()
        for program in self.programs:
            self.compare(program)
        print("\n" + "\n".join(self.rows))
        return self.checks.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument("--logs", default="gpu-bench-logs")
    parser.add_argument("--models", help="names of programs")
    parser.add_argument("--samples", type=int, default=320)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rivals", type=int, default=2, help="how many of the ways to run PyTorch, 1 to 3")
    parser.add_argument("--no-kernels", action="store_true")
    parser.add_argument("--eager", action="store_true", help="PyTorch without torch.compile")
    args = parser.parse_args()
    args.bundle, args.logs = os.path.abspath(args.bundle), os.path.abspath(args.logs)
    args.work = os.path.join(args.logs, "work")
    bench = Bench(args)
    try:
        sys.exit(bench.all())
    finally:
        shutil.rmtree(args.work, ignore_errors=True)


if __name__ == "__main__":
    main()
