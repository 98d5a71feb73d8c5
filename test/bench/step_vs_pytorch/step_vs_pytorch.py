#!/usr/bin/env python3
"""Step time of omnibal-run against PyTorch on the same model, weights and samples.

    step_vs_pytorch.py --bin BUILD/bin --work DIR [--models 55m,5m] [--isa native,avx2] [--threads 1,2]
                       [--rounds 3] [--steps 4]

PyTorch runs eager and torch.compile, packed (4-D block-diagonal causal mask and restarted positions) and
sample by sample, as one would write it for speed: AdamW(fused=True), zero_grad(set_to_none=True), the loss
divided before the backward pass, logits only at labeled positions, as ours. Both sides alternate; every
figure is a minimum and a median over all steps but the first of each round, the ratio is to the rival with
the least median. Losses and gradient norms of all steps must agree with ours, or the script fails.
`--isa avx2` keeps both sides from AVX-512. One thread: run it under `taskset -c CORE`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Ten times what agreeing sides show: in the first step, and after five steps of AdamW, which turns rounding near 0 into
# whole updates.
TOLERANCE = {"first loss": 2e-6, "first gradient norm": 2e-5, "loss": 1.5e-5, "gradient norm": 1e-2}
WITHOUT_AVX512 = {"OMNIBAL_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
                  "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def environment_of(isa):
    return dict(os.environ, **(WITHOUT_AVX512 if isa == "avx2" else {}))


def our_steps(args, work, isa, threads):
    """Step times in seconds of one run of omnibal-run, and (loss, gradient norm) of all its steps."""
    program, log = os.path.join(work, f"program-{isa}"), os.path.join(work, "run.jsonl")
    model = os.path.join(work, "model")
    if not os.path.exists(program):
        subprocess.run([os.path.join(args.bin, "omnibal-compile"), os.path.join(model, "model.onnx"), "--tiles", "4",
                        "--tokens", "512", "--stages", "1", "--microbatches", "1",
                        "--cpu", "native" if isa == "native" else "x86-64-v3", "-o", program],
                       check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.path.join(args.bin, "omnibal-run"), program, "--weights", os.path.join(model, "model.safetensors"),
                    "--data", os.path.join(work, "data-000000.tar"),
                    "--preprocess", os.path.join(work, "preprocessor_config.json"),
                    "--steps-file", os.path.join(work, "steps.jsonl"), "--steps", str(args.steps + 1),
                    "--threads", str(threads), "--log", log], check=True, env=environment_of(isa),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as file:
        entries = [json.loads(line) for line in file]
    return [entry["step_ms"] / 1e3 for entry in entries][1:], [(e["loss"], e["grad_norm"]) for e in entries]


class Rival:
    """PyTorch on the same samples; packed or sample by sample, eager or compiled."""

    def __init__(self, args, packed, compiled):
        import torch
        from transformers import AutoModelForImageTextToText
        self.torch, self.packed = torch, packed
        self.model = AutoModelForImageTextToText.from_pretrained(os.path.join(args.work, "model"), dtype=torch.float32)
        self.model.train()
        self.run = torch.compile(self.model.model, dynamic=False) if compiled else self.model.model
        self.batches = self.read(args)
        self.start()

    def start(self):
        decay = [p for p in self.model.parameters() if p.ndim >= 2]
        rest = [p for p in self.model.parameters() if p.ndim < 2]
        self.optimizer = self.torch.optim.AdamW([{"params": decay, "weight_decay": 0.05},
                                                 {"params": rest, "weight_decay": 0.0}], lr=1e-4, fused=True)

    def warm_up(self, count):
        """Steps that do not count: afterwards weights and optimizer are as before."""
        before = [p.detach().clone() for p in self.model.parameters()]
        self.steps(count)
        with self.torch.no_grad():
            for parameter, value in zip(self.model.parameters(), before):
                parameter.copy_(value)
        self.start()

    def read(self, args):
        import io, tarfile
        import numpy as np
        from PIL import Image
        torch = self.torch
        samples = {}
        with tarfile.open(os.path.join(args.work, "data-000000.tar")) as tar:
            for member in tar:
                data = tar.extractfile(member).read()
                key, kind = member.name.split(".", 1)
                samples.setdefault(key, {})["json" if kind == "json" else "png"] = data
        with open(os.path.join(args.work, "preprocessor_config.json")) as file:
            prep = json.load(file)
        mean, std = (np.array(prep[k], dtype=np.float32)[:, None, None] for k in ("image_mean", "image_std"))

        def load(key):
            sample = json.loads(samples[key]["json"])
            pixels = np.asarray(Image.open(io.BytesIO(samples[key]["png"])), dtype=np.float32).transpose(2, 0, 1)
            return sample["input_ids"], sample["labels"], (pixels * prep["rescale_factor"] - mean) / std

        batches = []
        with open(os.path.join(args.work, "steps.jsonl")) as file:
            for line in file:
                loaded = [load(key) for key in json.loads(line)["groups"][0]]
                batches.append(self.pack(loaded) if self.packed else [self.pack([one]) for one in loaded])
        return batches

    def pack(self, loaded):
        torch = self.torch
        ids = torch.tensor([[t for sample in loaded for t in sample[0]]])
        targets = torch.tensor([t for sample in loaded for t in sample[1][1:] + [-100]])
        positions = torch.tensor([[p for sample in loaded for p in range(len(sample[0]))]])
        owner = torch.tensor([i for i, sample in enumerate(loaded) for _ in sample[0]])
        mask = (owner[:, None] == owner[None, :]) & torch.ones(len(owner), len(owner), dtype=torch.bool).tril()
        import numpy as np
        pixels = torch.from_numpy(np.stack([sample[2] for sample in loaded]))
        inputs = {"input_ids": ids, "pixel_values": pixels, "use_cache": False}
        if len(loaded) > 1:
            inputs["position_ids"] = positions
            inputs["attention_mask"] = mask[None, None]
        return inputs, targets

    def loss_sum(self, inputs, targets):
        F = self.torch.nn.functional
        hidden = self.run(**inputs).last_hidden_state[0]
        keep = targets != -100
        return F.cross_entropy(self.model.lm_head(hidden[keep]), targets[keep], reduction="sum")

    def step(self, batch):
        parts = [batch] if self.packed else batch
        labels = sum(int((targets != -100).sum()) for _, targets in parts)
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for inputs, targets in parts:
            loss = self.loss_sum(inputs, targets) / labels
            loss.backward()
            total += loss.item()
        norm = self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total, float(norm)

    def steps(self, count):
        times, results = [], []
        for i in range(count + 1):
            begin = time.perf_counter()
            results.append(self.step(self.batches[i]))
            times.append(time.perf_counter() - begin)
        return times[1:], results


def worker(args):
    """One round of one PyTorch configuration in a process of its own; prints JSON."""
    import torch
    torch.set_num_threads(args.worker_threads)
    packed, compiled = args.worker.split("-")
    rival = Rival(args, packed == "packed", compiled == "compile")
    if compiled == "compile":
        rival.warm_up(2)  # compilation is not timed
    times, results = rival.steps(args.steps)
    print(json.dumps({"times": times, "results": results}))


def rival_steps(args, work, mode, isa, threads):
    """As our_steps; None and the reason where PyTorch fails."""
    command = [sys.executable, os.path.abspath(__file__), "--work", work, "--bin", args.bin, "--steps",
               str(args.steps), "--worker", mode, "--worker-threads", str(threads)]
    environment = dict(environment_of(isa), OMP_NUM_THREADS=str(threads), TRANSFORMERS_VERBOSITY="error",
                       HF_HUB_OFFLINE="1")
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if result.returncode != 0:
        return None, result.stderr.strip().splitlines()[-1] if result.stderr.strip() else "failed"
    data = json.loads(result.stdout.strip().splitlines()[-1])
    return data["times"], data["results"]


class Agreement:
    """The largest relative differences between our losses and gradient norms and a rival's."""

    def __init__(self):
        self.worst = dict.fromkeys(TOLERANCE, 0.0)

    def compare(self, ours, theirs):
        assert len(ours) == len(theirs) and ours
        for step, (mine, other) in enumerate(zip(ours, theirs)):
            for what, a, b in zip(("loss", "gradient norm"), mine, other):
                difference = abs(a - b) / abs(b)
                what = what if step else f"first {what}"
                self.worst[what] = max(self.worst[what], difference if difference == difference else float("inf"))

    def holds(self):
        return all(self.worst[what] <= TOLERANCE[what] for what in TOLERANCE)

    def __str__(self):
        return ", ".join(f"{what} {value:.1e}" for what, value in self.worst.items())


def compare(args, model, isa, threads):
    """One table; false if losses or gradient norms differ or a rival is missing altogether."""
    work = os.path.join(args.work, model)
    if not os.path.exists(os.path.join(work, "steps.jsonl")):
        subprocess.run([sys.executable, os.path.join(HERE, "make_model.py"), work, model], check=True)
    ours, theirs, agreement, failed = [], {}, Agreement(), {}
    for _ in range(args.rounds):
        times, expected = our_steps(args, work, isa, threads)
        ours += times
        for mode in (mode for mode in args.modes.split(",") if mode not in failed):
            times, results = rival_steps(args, work, mode, isa, threads)
            if times is None:
                failed[mode] = results
                continue
            theirs.setdefault(mode, []).extend(times)
            agreement.compare(expected, results)
    print(f"{model}, {isa}, {threads} thread(s): step seconds, min / median")
    print(f"  omnibal           {min(ours):.4f} / {statistics.median(ours):.4f}   loss {expected[0][0]:.4f} to {expected[-1][0]:.4f}")
    for mode, times in theirs.items():
        print(f"  {mode:16s}  {min(times):.4f} / {statistics.median(times):.4f}")
    for mode, reason in failed.items():
        print(f"  {mode:16s}  fails: {reason}")
    if not theirs:
        return False
    best = min(theirs, key=lambda mode: statistics.median(theirs[mode]))
    print(f"  ratio to PyTorch's fastest ({best}): min {min(theirs[best]) / min(ours):.2f}, "
          f"median {statistics.median(theirs[best]) / statistics.median(ours):.2f}")
    print(f"  largest relative differences: {agreement}" + ("" if agreement.holds() else "   TOO LARGE"), flush=True)
    return agreement.holds()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--models", default="55m,5m")
    parser.add_argument("--isa", default="native,avx2")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--modes", default="packed-eager,single-eager,packed-compile",
                        help="of them and single-compile")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--worker-threads", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    agree = [compare(args, model, isa, threads) for model in args.models.split(",") for isa in args.isa.split(",")
             for threads in map(int, args.threads.split(","))]
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
