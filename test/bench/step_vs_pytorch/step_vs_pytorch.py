#!/usr/bin/env python3
"""Step time of omnibal-run against PyTorch on the same model, weights and samples.

    step_vs_pytorch.py --bin BUILD/bin --work DIR [--threads 1,2] [--rounds 3] [--steps 4]

PyTorch runs eager and torch.compile, packed (4-D block-diagonal causal mask and restarted positions) and
sample by sample, AdamW(fused=True), clipping as ours. Both sides alternate; every figure is a minimum and
a median over all steps but the first of each round. The language head: ours computes logits at labelled positions only;
PyTorch's packed run is given the same advantage (`logits_to_keep` style slicing of the hidden states).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def our_steps(args, threads):
    """Step times in seconds of one run of omnibal-run."""
    program, log = os.path.join(args.work, "program"), os.path.join(args.work, "run.jsonl")
    model = os.path.join(args.work, "model")
    if not os.path.exists(program):
        subprocess.run([os.path.join(args.bin, "omnibal-compile"), os.path.join(model, "model.onnx"), "--tiles", "4",
                        "--tokens", "512", "--stages", "1", "--microbatches", "1", "--cpu", "native", "-o", program],
                       check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.path.join(args.bin, "omnibal-run"), program, "--weights", os.path.join(model, "model.safetensors"),
                    "--data", os.path.join(args.work, "data-000000.tar"),
                    "--preprocess", os.path.join(args.work, "preprocessor_config.json"),
                    "--steps-file", os.path.join(args.work, "steps.jsonl"), "--steps", str(args.steps + 1),
                    "--threads", str(threads), "--log", log], check=True, stdout=subprocess.DEVNULL)
    with open(log) as file:
        entries = [json.loads(line) for line in file]
    return [entry["step_ms"] / 1e3 for entry in entries][1:], entries[0]["loss"]


class Rival:
    """PyTorch on the same samples; `mode` is packed or single, eager or compiled."""

    def __init__(self, args, packed, compiled):
        import torch
        from transformers import AutoModelForImageTextToText
        self.torch, self.packed = torch, packed
        self.model = AutoModelForImageTextToText.from_pretrained(os.path.join(args.work, "model"), dtype=torch.float32)
        self.model.train()
        decay = [p for p in self.model.parameters() if p.ndim >= 2]
        rest = [p for p in self.model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05},
                                            {"params": rest, "weight_decay": 0.0}], lr=1e-4, fused=True)
        self.run = torch.compile(self.model.model, dynamic=False) if compiled else self.model.model
        self.batches = self.read(args)

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
        return F.cross_entropy(self.model.lm_head(hidden[keep]), targets[keep], reduction="sum"), int(keep.sum())

    def step(self, batch):
        parts = [batch] if self.packed else batch
        self.optimizer.zero_grad(set_to_none=False)
        total, count = 0.0, 0
        for inputs, targets in parts:
            loss, labels = self.loss_sum(inputs, targets)
            loss.backward()
            total, count = total + loss.item(), count + labels
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(count)
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total / count

    def steps(self, count):
        times, first = [], None
        for i in range(count + 1):
            begin = time.perf_counter()
            loss = self.step(self.batches[i])
            times.append(time.perf_counter() - begin)
            first = loss if first is None else first
        return times[1:], first


def worker(args):
    """One round of one PyTorch configuration in a process of its own; prints JSON."""
    import torch
    torch.set_num_threads(args.worker_threads)
    packed, compiled = args.worker.split("-")
    rival = Rival(args, packed == "packed", compiled == "compile")
    if compiled == "compile":
        rival.steps(2)  # compilation is not timed
    times, loss = rival.steps(args.steps)
    print(json.dumps({"times": times, "loss": loss}))


def rival_steps(args, mode, threads):
    command = [sys.executable, os.path.abspath(__file__), "--work", args.work, "--bin", args.bin, "--steps",
               str(args.steps), "--worker", mode, "--worker-threads", str(threads)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if result.returncode != 0:
        return None, result.stderr.strip().splitlines()[-1] if result.stderr.strip() else "failed"
    data = json.loads(result.stdout.strip().splitlines()[-1])
    return data["times"], data["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--modes", default="packed-eager,single-eager,packed-compile,single-compile")
    parser.add_argument("--worker")
    parser.add_argument("--worker-threads", type=int, default=1)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    if not os.path.exists(os.path.join(args.work, "steps.jsonl")):
        subprocess.run([sys.executable, os.path.join(HERE, "make_model.py"), args.work], check=True)
    for threads in map(int, args.threads.split(",")):
        ours, theirs, losses = [], {}, {}
        for _ in range(args.rounds):
            times, losses["omnibal"] = our_steps(args, threads)
            ours += times
            for mode in args.modes.split(","):
                times, loss = rival_steps(args, mode, threads)
                if times is None:
                    print(f"PyTorch {mode}: {loss}")
                    continue
                theirs.setdefault(mode, []).extend(times)
                losses[mode] = loss
        print(f"{threads} thread(s): step seconds, min / median; loss of the first step")
        print(f"  omnibal           {min(ours):.3f} / {statistics.median(ours):.3f}   {losses['omnibal']:.6f}")
        for mode, times in theirs.items():
            print(f"  {mode:16s}  {min(times):.3f} / {statistics.median(times):.3f}   {losses[mode]:.6f}")
        best = min(theirs, key=lambda mode: statistics.median(theirs[mode]))
        print(f"  ratio to PyTorch's fastest ({best}): min {min(theirs[best]) / min(ours):.2f}, "
              f"median {statistics.median(theirs[best]) / statistics.median(ours):.2f}")


if __name__ == "__main__":
    main()
