"""Small models of Transformers: exported, compiled and trained, and the same steps in PyTorch."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from PIL import Image

# Of losses and gradient norms, float32 against PyTorch in float64.
TOLERANCE = 2e-6
RATE, STEPS, GROUPS, GROUP = 1e-3, 3, 2, 3
PICTURES = [[], [(2, 3)], [(1, 2), (3, 1), (2, 2)], [(1, 1), (4, 2)]]  # units of the pictures of a sample, in turn
VOCABULARY = 100


def roughen(model, seed):
    """Parameters that all matter: none is zero or one throughout."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


class Training:
    """A model's folder with samples and steps. `processor` makes patches of pictures as the model's own does; without
    it there are none."""

    def __init__(self, model, folder, processor=None):
        import export
        self.model, self.folder, self.processor = model, folder, processor
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            model.save_pretrained(f"{folder}/model")
            report = export.export_model(f"{folder}/model", f"{folder}/model")
        self.facts = report.facts
        from exporter import verification
        self.difference = verification.largest_difference(report.proto, f"{folder}/model", report.tensors, model,
                                                          report.facts.checked())
        if processor is not None:
            with open(f"{folder}/preprocessor_config.json", "w") as file:
                json.dump(processor.to_dict(), file)
        self.write_samples()

    def write_samples(self):
        generator = np.random.default_rng(5)
        self.samples = []
        with tarfile.open(f"{self.folder}/data-000000.tar", "w") as tar:
            for number in range(STEPS * GROUPS * GROUP):
                self.samples.append(self.sample(tar, number, generator))
        self.steps = [[list(range(first, first + GROUP)) for first in range(s, s + GROUPS * GROUP, GROUP)]
                      for s in range(0, len(self.samples), GROUPS * GROUP)]
        with open(f"{self.folder}/steps.jsonl", "w") as file:
            for step in self.steps:
                file.write(json.dumps({"groups": [[f"s{n:03d}" for n in group] for group in step]}) + "\n")

    def sample(self, tar, number, generator):
        """(what the shard says, what the model takes, units of vision work)."""
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        sizes = PICTURES[number % len(PICTURES)] if self.processor is not None else []
        word = lambda count: generator.integers(10, VOCABULARY, count).tolist()
        ids = word(int(generator.integers(2, 9)))
        for rows, columns in sizes:
            ids += [self.facts.token] * (rows * columns) + word(2)
        ids += word(int(generator.integers(3, 9)))
        labels = [-100 if i < len(ids) // 2 or t == self.facts.token else t for i, t in enumerate(ids)]
        pictures = [generator.integers(0, 256, (rows * self.side(), columns * self.side(), 3), dtype=np.uint8)
                    for rows, columns in sizes]
        sample = dict(input_ids=ids, labels=labels, images=len(sizes))
        add(f"s{number:03d}.json", json.dumps(sample).encode())
        for picture, pixels in enumerate(pictures):
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "PNG")
            add(f"s{number:03d}.{picture}.png", buffer.getvalue())
        row = torch.tensor([ids])
        inputs = dict(input_ids=row, attention_mask=torch.ones_like(row))
        if pictures:
            made = self.processor(images=[Image.fromarray(p) for p in pictures], return_tensors="pt")
            inputs.update(pixel_values=made["pixel_values"], image_grid_thw=made["image_grid_thw"],
                          mm_token_type_ids=(row == self.facts.token).long())
        return sample, inputs, sum(rows * columns for rows, columns in sizes)

    def side(self):
        return self.processor.patch_size * self.processor.merge_size

    def in_pytorch(self, frozen=lambda name: False):
        """(loss, gradient norm) of each step in float64, every sample alone."""
        import copy
        model = copy.deepcopy(self.model).double()
        parameters = []
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not frozen(name))
            if parameter.requires_grad:
                parameters.append(parameter)
        optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.0)
        result = []
        for step in self.steps:
            samples = [self.samples[n] for group in step for n in group]
            count = sum(label != -100 for sample, *_ in samples for label in sample["labels"][1:])
            optimizer.zero_grad(set_to_none=True)
            total = 0.0
            for sample, inputs, _ in samples:
                inputs = {name: v.double() if v.is_floating_point() else v for name, v in inputs.items()}
                logits = model(**inputs, use_cache=False).logits[0]
                loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(sample["labels"][1:]), reduction="sum") / count
                loss.backward()
                total += float(loss)
            result.append((total, float(torch.nn.utils.clip_grad_norm_(parameters, float("inf")))))
            optimizer.step()
        return result

    def compiled(self, binaries, *flags):
        groups = [[self.samples[n] for n in group] for step in self.steps for group in step]
        units = max(sum(units for *_, units in group) for group in groups)
        tokens = max(sum(len(sample["input_ids"]) for sample, *_ in group) for group in groups)
        program = f"{self.folder}/program"
        run(f"{binaries}/omnibal-compile", f"{self.folder}/model/model.onnx", "--weights", f"{self.folder}/model",
            "--tiles", max(units, 1), "--tokens", tokens, "--microbatches", GROUPS, "-o", program, *flags)
        return program

    def trained(self, binaries, *flags):
        """(loss, gradient norm) of each step of our own."""
        program = self.compiled(binaries, *flags)
        preprocess = ["--preprocess", f"{self.folder}/preprocessor_config.json"] if self.processor is not None else []
        run(f"{binaries}/omnibal-run", program, "--weights", f"{self.folder}/model", "--data",
            f"{self.folder}/data-000000.tar", *preprocess, "--steps-file", f"{self.folder}/steps.jsonl", "--lr", RATE,
            "--weight-decay", 0, "--clip", 0, "--log", f"{self.folder}/run.jsonl")
        with open(f"{self.folder}/run.jsonl") as file:
            return [(line["loss"], line["grad_norm"]) for line in map(json.loads, file)]


def run(*command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"exit {result.returncode} from {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def worst(ours, theirs):
    """The largest relative difference of losses and gradient norms."""
    assert len(ours) == len(theirs) == STEPS
    return max(abs(a / b - 1) for x, y in zip(ours, theirs) for a, b in zip(x, y))
