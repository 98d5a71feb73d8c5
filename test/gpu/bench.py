#!/usr/bin/env python3
"""The GPU benchmark: bench.py BUNDLE [--seconds 570] [--logs DIR] [--models 2b-8192-1,...] [--part steps|ours|kernels]

For every program of the bundle: weights and samples from a fixed seed (make_data.py), the same packed batches through
omnibal-run and through PyTorch in every way that torch_step.py knows (bfloat16 by autocast or with float32 masters,
padded to the caps or at the real sizes), in one run on one machine. Prints milliseconds a step (min / median), tokens/s,
memory, what torch.compile compiled, losses and gradient norms; the ratio is to the fastest of PyTorch's ways, and only
stated when all of them ran (--ways: those that were asked for). Then kernel by kernel (bench_device_kernels) against
PyTorch and the roofline. What found no time is said and counts as failed: --models and --part divide the benchmark into
runs of 10 minutes.
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
import agreement  # noqa: E402
import models  # noqa: E402
from checks import Checks  # noqa: E402

WARMUP = 12  # both sides choose kernels for shapes, and PyTorch's allocator learns them
# Ways to run PyTorch, by what the program computes in: numbers and shapes of torch_step.py.
RIVALS = {"bfloat16": [("autocast", "exact"), ("masters", "exact"), ("autocast", "padded"), ("masters", "padded")],
          "float32": [("float32", "exact"), ("float32", "padded")]}
GOAL = 1.15


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
        log, profile = (os.path.join(self.args.work, name) for name in ("run.jsonl", "profile"))
        trace = os.path.join(profile, f"step-{WARMUP:08d}.json")  # the last step that is not timed
        command = [self.path("bin", "omnibal-run"), self.path("programs", program["name"]), "--weights",
                   os.path.join(data, "model.safetensors"), "--data", os.path.join(data, "data-000000.tar"), "--preprocess",
                   os.path.join(data, "preprocessor_config.json"), "--batches", os.path.join(data, "batches"), "--steps",
                   WARMUP + self.args.steps, "--lr", models.learning_rate(program["model"]), "--weight-decay", 0.05, "--clip", 1,
                   "--log", log, "--profile", profile, "--profile-at", WARMUP]
        with DeviceMemory() as memory:
            good = self.checks.run("omnibal " + program["name"], command, limit=120, show=2)
        if not good:
            return None
        with open(log) as file:
            steps = [json.loads(line) for line in file]
        self.checks.run("least times " + program["name"], [sys.executable, os.path.join(HERE, "step_measured.py"),
                        self.path("programs", program["name"]), trace, "--most", 10], limit=30, show=24)
        timed = steps[WARMUP:]
        found = {"loss": [step["loss"] for step in steps], "norm": [step["grad_norm"] for step in steps],
                 "ms": [step["step_ms"] for step in timed], "tokens": [step["tokens"] for step in timed], "device": memory.most,
                 "memory": f"planned {self.planned(program) / 2**30:.2f}"}
        for name in ("mfu", "idle"):
            if name in timed[0]:
                found[name] = statistics.median(step[name] for step in timed)
        return found

    def planned(self, program):
        """Bytes of the rank that has most."""
        with open(self.path("programs", program["name"], "stages.json")) as file:
            return max(stage["arena_bytes"] for stage in json.load(file))

    def rival(self, program, data, mode, shapes):
        name = f"PyTorch {mode} {shapes} {program['model']}-{program['tokens']}"
        command = [sys.executable, os.path.join(HERE, "torch_step.py"), program["model"], data, "--tokens", program["tokens"],
                   "--tiles", program["tiles"], "--microbatches", program["microbatches"], "--steps", self.args.steps, "--warmup",
                   WARMUP, "--lr", models.learning_rate(program["model"]), "--mode", mode, "--shapes", shapes, "--backend",
                   self.args.backend, "--compile", self.args.compile]
        with DeviceMemory() as memory:
            good = self.checks.run(name, command, limit=200)
        if not good:
            return None
        with open(os.path.join(self.checks.logs, name.replace(" ", "_") + ".log")) as log:
            found = json.loads(log.read().splitlines()[-1])
        return self.timed(found) | {"device": memory.most, "mode": mode, "name": f"{mode}, {shapes}"}

    @staticmethod
    def timed(found):
        """Without the steps in which torch.compile still compiled, which would be in our favor."""
        compiles = found["compiles"]
        kept = [i for i in range(WARMUP, len(compiles)) if compiles[i] == 0] or range(WARMUP, len(compiles))
        gigabytes = "allocated {:.2f} reserved {:.2f}".format(*(found[name] / 2**30 for name in ("allocated_bytes", "reserved_bytes")))
        text = f"{sum(compiles[:WARMUP])} graphs in the warm-up, {sum(compiles[WARMUP:])} recompiled in timed steps"
        text += f", {found['graph_breaks']} graph breaks" if found["graph_breaks"] else ""
        return {"loss": found["loss"], "norm": found["norm"], "ms": [found["ms"][i] for i in kept],
                "tokens": [found["tokens"][i] for i in kept], "memory": gigabytes, "compiled": text,
                "recompiled": sum(count > 0 for count in compiles[WARMUP:])}

    def rate(self, result):
        return sum(result["tokens"]) / sum(result["ms"]) * 1e3

    def compare(self, program):
        if self.checks.left() < 30:
            return self.checks.note(program["name"], False, "no time left")
        data = self.data_of(program)
        ours = self.ours(program, data)
        ways = RIVALS[program.get("dtype", "bfloat16")] if program["stages"] == 1 and self.args.part != "ours" else []
        ways = [way for way in ways if not self.args.ways or ":".join(way) in self.args.ways.split(",")]
        rivals = [found for mode, shapes in ways if (found := self.rival(program, data, mode, shapes))]
        self.show(program, ours, rivals)
        if ours and ways:
            self.judge(program, ours, rivals, ways)

    def show(self, program, ours, rivals):
        self.say(f"{program['name']}: {program['microbatches']} micro-batches of up to {program['tokens']} tokens and {program['tiles']} "
                 "tiles; memory in GiB")
        for name, result in [("omnibal", ours)] + [("PyTorch, " + r["name"], r) for r in rivals]:
            if result:
                extra = "".join(f", {key} {100 * result[key]:.1f} %" for key in ("mfu", "idle") if key in result)
                self.say(f"  {name:26s} {min(result['ms']):8.1f} / {statistics.median(result['ms']):8.1f} ms {self.rate(result):9.0f} tokens/s"
                         f"   {result['memory']}, of the device {result['device'] / 2**30:.1f}   loss {result['loss'][0]:.4f} "
                         f"{result['loss'][-1]:.4f}, norm {result['norm'][0]:.4f} {result['norm'][-1]:.4f}{extra}")
                if "compiled" in result:
                    self.say(f"  {'':26s} {result['compiled']}")

    def judge(self, program, ours, rivals, ways):
        name = program["name"]
        self.checks.note(f"loss of {name} falls", agreement.fall(ours) >= agreement.LEAST_FALL, f"by {agreement.fall(ours):.1%}")
        for rival in rivals:
            mode, apart = rival["mode"], agreement.deviations(ours, rival, rival["mode"])
            self.checks.note(f"{name} agrees with PyTorch {rival['name']}", agreement.agree(ours, rival, mode),
                             "losses apart by {:.1e}, norms by {:.1e}".format(*apart) +
                             "; {:.0e} and {:.0e} allowed".format(*agreement.ALLOWED[mode]))
            self.checks.note(f"PyTorch {rival['name']} of {name} is compiled once", rival["recompiled"] <= self.args.steps // 2,
                             f"{rival['recompiled']} of {self.args.steps} timed steps compiled and are left out")
        if len(rivals) < len(ways):
            return self.say(f"  no ratio: {len(ways) - len(rivals)} of PyTorch's {len(ways)} ways did not run")
        best = max(rivals, key=self.rate)
        self.say(f"  ratio to PyTorch's best ({best['name']}): {self.rate(ours) / self.rate(best):.3f} in tokens/s; median step "
                 f"{statistics.median(best['ms']) / statistics.median(ours['ms']):.3f}, min {min(best['ms']) / min(ours['ms']):.3f} (goal {GOAL}); "
                 f"device's memory {ours['device'] / max(1, min(r['device'] for r in rivals)):.2f} of PyTorch's least")

    def say(self, line):
        self.rows.append(line)
        print(line, flush=True)

    def kernels(self):
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
        if self.args.part != "kernels":
            for program in self.programs:
                self.compare(program)
        if self.args.part in ("all", "kernels"):
            self.kernels()
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
    parser.add_argument("--part", choices=["all", "steps", "ours", "kernels"], default="all", help="ours: steps without PyTorch")
    parser.add_argument("--keep", action="store_true", help="leave weights and samples in LOGS/work")
    parser.add_argument("--compile", choices=["model", "blocks", "none"], default="model", help="what of PyTorch's side torch.compile gets")
    parser.add_argument("--ways", help="MODE:SHAPES,... of PyTorch; default: all")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    args = parser.parse_args()
    args.bundle, args.logs = os.path.abspath(args.bundle), os.path.abspath(args.logs)
    args.work = os.path.join(args.logs, "work")
    bench = Bench(args)
    try:
        sys.exit(bench.all())
    finally:
        if not args.keep:
            shutil.rmtree(args.work, ignore_errors=True)


if __name__ == "__main__":
    main()
