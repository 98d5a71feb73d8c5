"""Small models of Transformers: exported, compiled and trained, and the same steps in PyTorch."""
import contextlib
import io
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from PIL import Image

from exporter import small_runs

# Of losses and gradient norms, float32 against PyTorch in float64.
TOLERANCE = 2e-6
STEPS, GROUPS, GROUP = 3, 2, 3
PICTURES = [[], [(2, 3)], [(1, 2), (3, 1), (2, 2)], [(1, 1), (4, 2)]]  # units of the pictures of a sample, in turn
VOCABULARY = 100


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
        made = [self.sample(number, generator) for number in range(STEPS * GROUPS * GROUP)]
        self.samples = [sample for sample, _ in made]
        small_runs.write_samples(self.folder, [(sample, pictures) for (sample, *_), pictures in made])
        self.steps = small_runs.write_steps(self.folder, len(made), GROUPS, GROUP)

    def sample(self, number, generator):
        """(What the shard says, what the model takes, units of vision work), and the pictures."""
        sizes = PICTURES[number % len(PICTURES)] if self.processor is not None else []
        word = lambda count: generator.integers(10, VOCABULARY, count).tolist()
        ids = word(int(generator.integers(2, 9)))
        for rows, columns in sizes:
            ids += [self.facts.token] * (rows * columns) + word(2)
        ids += word(int(generator.integers(3, 9)))
        labels = [-100 if i < len(ids) // 2 or t == self.facts.token else t for i, t in enumerate(ids)]
        pictures = [generator.integers(0, 256, (rows * self.side(), columns * self.side(), 3), dtype=np.uint8)
                    for rows, columns in sizes]
        row = torch.tensor([ids])
        inputs = dict(input_ids=row, attention_mask=torch.ones_like(row))
        if pictures:
            made = self.processor(images=[Image.fromarray(p) for p in pictures], return_tensors="pt")
            inputs.update(pixel_values=made["pixel_values"], image_grid_thw=made["image_grid_thw"],
                          mm_token_type_ids=(row == self.facts.token).long())
        return (dict(input_ids=ids, labels=labels), inputs, sum(rows * columns for rows, columns in sizes)), pictures

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
        double = lambda inputs: {name: v.double() if v.is_floating_point() else v for name, v in inputs.items()}
        steps = [[(self.samples[n][0]["labels"], double(self.samples[n][1])) for group in step for n in group] for step in self.steps]
        return list(small_runs.pytorch_steps(model, parameters, steps))

    def compiled(self, binaries, *flags):
        caps = small_runs.caps(self.steps, [units for *_, units in self.samples],
                               [len(sample["input_ids"]) for sample, *_ in self.samples])
        program = f"{self.folder}/program"
        run(f"{binaries}/omnibal-compile", f"{self.folder}/model/model.onnx", "--weights", f"{self.folder}/model", *caps,
            "--microbatches", GROUPS, "-o", program, *flags)
        return program

    def trained(self, binaries, *flags):
        """(loss, gradient norm) of each step of our own."""
        program = self.compiled(binaries, *flags)
        preprocess = ["--preprocess", f"{self.folder}/preprocessor_config.json"] if self.processor is not None else []
        run(f"{binaries}/omnibal-run", program, "--weights", f"{self.folder}/model", *preprocess,
            *small_runs.training(self.folder))
        return small_runs.logged(self.folder)


def run(*command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"exit {result.returncode} from {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def worst(ours, theirs):
    """The largest relative difference of losses and gradient norms."""
    assert len(theirs) == STEPS
    return small_runs.largest_difference(ours, theirs)
