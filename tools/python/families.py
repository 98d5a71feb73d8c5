#!/usr/bin/env python3
"""Which families of Transformers are taken: exports, compiles and trains a small model of each and compares with PyTorch.

    python families.py --bin build/bin                     # every image-text-to-text family of the installed Transformers
    python families.py --bin build/bin llava gemma3        # some
    python families.py --bin build/bin --text              # language models without pictures
    python families.py --bin build/bin --markdown out.md   # the table as a file

Columns: whether pictures are of any size or of one that the export chose; nodes of the exported graph; whether
omnibal-compile takes it; largest difference of logits (omnibal-run --forward against Transformers); largest relative
difference of loss and gradient norm over three steps of AdamW, from PyTorch in float32 or, where that is more than 1e-4, in
float64. Where a step fails, the table has its reason and the steps
after it are empty. The configurations are in exporter/small_models.py. Each family runs in a process of its own.
"""
import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import logging
logging.disable(logging.WARNING)

# Language models without pictures that --text measures: kinds of layers and of attention, not every name.
TEXT = ("llama", "qwen2", "qwen3", "mistral", "ministral", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "olmo", "olmo2",
        "olmo3", "granite", "cohere", "cohere2", "glm", "glm4", "smollm3", "stablelm", "starcoder2", "gpt2", "gpt_neox", "opt",
        "falcon", "helium", "nemotron", "exaone4", "seed_oss", "hunyuan_v1_dense", "ernie4_5", "arcee", "gpt_oss", "mixtral",
        "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "deepseek_v3", "lfm2", "qwen3_next", "phimoe", "mimo_v2_flash", "flint")
# Characters of a reason in the table that is written: a cell of the docs is no longer (test/lint/prose.py).
LONGEST_REASON = 200
COLUMNS = ("pictures", "export", "compile", "logits", "loss")
STEPS, GROUPS, GROUP = 3, 2, 4
# Differences up to which a family counts as taken: float32 against float32.
LOGITS, LOSS = 1e-3, 1e-4


class Failed(Exception):
    """A column's name and the reason."""


def call(column, *command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines or [f"exit {result.returncode}"]
        raise Failed(column, re.sub(r"^\S*?(error: |omnibal-\w+: )", "", errors[0])[:300])


def normalized(picture):
    """Pixels [height, width, 3] as the settings of the samples say: [3, height, width]."""
    import numpy as np
    import torch
    values = (picture.astype(np.float32) * np.float32(1 / 255) - np.float32(0.5)) / np.float32(0.5)
    return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))


class Small:
    """One family's small model, its samples and what comes of them."""

    def __init__(self, family, work, binaries):
        self.family, self.work, self.binaries = family, work, binaries
        self.result = {}

    def make(self):
        from exporter.small_models import small_model
        try:
            self.model = small_model(self.family)
            with contextlib.redirect_stderr(io.StringIO()):
                self.model.save_pretrained(f"{self.work}/model")
        except Exception as error:  # of any kind, from the library's own code
            raise Failed("model", f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}")

    def export(self):
        import export
        from exporter import verification
        from exporter.errors import ExportError
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                report = export.export_model(f"{self.work}/model", f"{self.work}/model")
        except ExportError as error:
            raise Failed("export", str(error))
        self.facts = report.facts
        self.result["export"] = str(report.nodes)
        if self.facts.takes_pictures:
            self.result["pictures"] = "any size" if self.facts.sizes_vary else "one size"
        difference = verification.largest_difference(report.proto, f"{self.work}/model", report.tensors, self.model,
                                                     report.facts.checked())
        if not difference <= LOGITS:
            raise Failed("export", f"ONNX Runtime differs from PyTorch by {difference:.1e}")

    def samples(self):
        """24 samples of 0 to 3 pictures with labels, and the shard that holds them."""
        import numpy as np
        from exporter import small_runs
        self.generator = np.random.default_rng(7)
        made = [self.sample(number) for number in range(GROUP * GROUPS * STEPS)]
        self.data = [sample for sample, _ in made]
        small_runs.write_samples(self.work, [(sample, pictures) for (sample, *_), pictures in made])
        settings = dict(do_rescale=True, rescale_factor=1 / 255, do_normalize=True, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        if self.facts.sizes_vary:
            settings.update(patch_size=self.facts.patch, merge_size=self.facts.merge, temporal_patch_size=self.facts.copies)
        with open(f"{self.work}/preprocessor_config.json", "w") as file:
            json.dump(settings, file)
        self.steps = small_runs.write_steps(self.work, len(made), GROUPS, GROUP)

    def sample(self, number):
        """(What the shard says, what the model takes, what the graph takes, how many units of vision work it is), and the
        pictures."""
        import numpy as np
        import torch
        facts, generator = self.facts, self.generator
        count = number % 4 if facts.takes_pictures else 0
        more = 6 + int(generator.integers(0, 9))
        if facts.sizes_vary:
            units = [tuple(int(n) for n in generator.integers(1, 4, 2)) for _ in range(count)]
            sizes = [(rows * facts.side(), columns * facts.side()) for rows, columns in units]
            text = facts.text([units], length=sum(rows * columns + 2 for rows, columns in units) + more)
        else:
            sizes = [facts.size() for _ in range(count)]
            text = facts.rows([count], length=count * (facts.count + 2) + more)
        pictures = [generator.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
        pixels = [normalized(picture) for picture in pictures]
        same = not facts.sizes_vary and pixels
        inputs, graph = facts.with_pictures(text, torch.stack(pixels) if same else pixels)
        ids = text["input_ids"][0].tolist()
        labels = [-100 if i < len(ids) // 2 or t == facts.token else t for i, t in enumerate(ids)]
        sample = dict(input_ids=ids, labels=labels)
        sample.update({name: facts.per_sample(graph, name)[0].tolist() for name in facts.token_inputs()})
        return (sample, inputs, graph, sum(r * c for r, c in units) if facts.sizes_vary else count), pictures

    def compile(self):
        from exporter import small_runs
        caps = small_runs.caps(self.steps, [units for *_, units in self.data], [len(sample["input_ids"]) for sample, *_ in self.data])
        call("compile", f"{self.binaries}/omnibal-compile", f"{self.work}/model/model.onnx", "--weights", f"{self.work}/model",
             *caps, "--stages", 2, "--microbatches", GROUPS, "-o", f"{self.work}/program")
        self.result["compile"] = "yes"

    def logits(self):
        import torch
        from safetensors.torch import load_file, save_file
        worst = 0.0
        for number in (1, 3):
            _, inputs, graph, _ = self.data[number]
            takes = {name for name in self.facts.axes() if name not in self.facts.unread}
            given = {name: value for name, value in graph.items() if name in takes}
            given.update({name: self.facts.per_sample(graph, name) for name in self.facts.token_inputs()})
            if not self.facts.sizes_vary:
                given.pop("position_ids", None)
            given = {name: value.clone().contiguous() for name, value in given.items()}
            if "pixel_values" in given and not self.facts.sizes_vary:
                given["pixel_values"] = given["pixel_values"].reshape(-1, *given["pixel_values"].shape[-3:])
            save_file(given, f"{self.work}/in.safetensors")
            call("logits", f"{self.binaries}/omnibal-run", f"{self.work}/program", "--weights", f"{self.work}/model",
                 "--forward", f"{self.work}/in.safetensors", "-o", f"{self.work}/out.safetensors")
            ours = load_file(f"{self.work}/out.safetensors")["logits"]
            with torch.no_grad():
                theirs = self.model(**inputs, use_cache=False).logits
            worst = max(worst, float((ours - theirs).abs().max()))
        self.result["logits"] = f"{worst:.1e}"
        if not worst <= LOGITS:
            raise Failed("logits", f"differ by {worst:.1e}")

    def train(self):
        from exporter import small_runs
        call("loss", f"{self.binaries}/omnibal-run", f"{self.work}/program", "--weights", f"{self.work}/model",
             "--preprocess", f"{self.work}/preprocessor_config.json", *small_runs.training(self.work))
        steps = [[(self.data[n][0]["labels"], self.data[n][1]) for group in step for n in group] for step in self.steps]
        theirs = small_runs.pytorch_steps(self.model, list(self.model.parameters()), steps)
        ours = small_runs.logged(self.work)
        worst = small_runs.largest_difference(ours, theirs)
        if not worst <= LOSS:
            worst = min(worst, self.from_float64(ours, steps))
        self.result["loss"] = f"{worst:.1e}"
        if not worst <= LOSS:
            raise Failed("loss", f"loss or gradient norm differs by {worst:.1e}")

    def from_float64(self, ours, steps):
        """The same from PyTorch in float64: where a router values two experts alike, float32 chooses by its rounding, here
        and there. Infinite where the model does not compute in it."""
        from exporter import small_runs
        from exporter.small_models import small_model
        model = small_model(self.family).double()
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")  # others know no float64
        wide = lambda value: value.double() if hasattr(value, "double") and value.is_floating_point() else value
        steps = [[(labels, {name: wide(value) for name, value in inputs.items()}) for labels, inputs in step] for step in steps]
        try:
            return small_runs.largest_difference(ours, small_runs.pytorch_steps(model, list(model.parameters()), steps))
        except (RuntimeError, TypeError, ValueError):
            return math.inf

    def run(self):
        try:
            for part in (self.make, self.export, self.samples, self.compile, self.logits, self.train):
                part()
        except Failed as failure:
            column, reason = failure.args
            self.result["failed"], self.result["reason"] = column, " ".join(reason.replace(f"{self.work}/", "").split())
        except subprocess.TimeoutExpired as error:
            self.result["failed"], self.result["reason"] = "compile", f"{error.cmd[0]} takes more than {error.timeout:.0f} s"
        except Exception as error:  # a bug of this tool or a model that fails on its own samples
            self.result["failed"] = "samples"
            self.result["reason"] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return self.result


def child(family, binaries, keep, pipe):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with contextlib.ExitStack() as stack:
        work = keep and os.path.join(keep, family) or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(work, exist_ok=True)
        pipe.send(Small(family, work, binaries).run())


def measure(family, arguments):
    """The result of one family, from a process of its own."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(family, arguments.bin, arguments.keep, theirs))
    process.start()
    theirs.close()
    try:
        result = mine.recv() if mine.poll(arguments.timeout) else {"failed": "export", "reason": f"more than {arguments.timeout} s"}
    except EOFError:
        result = {"failed": "export", "reason": "the process died"}
    process.kill()
    process.join()
    return result


def row(family, result, longest=None):
    """A row of the table; a reason of more than `longest` characters is cut."""
    cells = [result.get(column, "") for column in COLUMNS]
    reason = result.get("reason", "").replace("|", "/")
    if longest and len(reason) > longest:
        reason = reason[:longest - 4].rstrip() + " ..."
    return f"| {family} | {' | '.join(cells)} | {reason} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="model types (default: all of Transformers' image-text-to-text mapping)")
    parser.add_argument("--text", action="store_true", help="language models without pictures in place of those")
    parser.add_argument("--bin", default="build/bin", help="folder of the built tools (default build/bin)")
    parser.add_argument("--keep", help="folder to leave models, graphs and programs in")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one family (default 600)")
    parser.add_argument("--markdown", help="file to write the table to")
    arguments = parser.parse_args()
    import torch  # noqa: F401 - imported once, before the processes fork
    import torch.onnx  # noqa: F401
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    families = arguments.families or (TEXT if arguments.text else list(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES))
    lines = [f"| family | {' | '.join(COLUMNS)} | reason |", "|---" * (len(COLUMNS) + 2) + "|"]
    taken = 0
    print("\n".join(lines), flush=True)
    for family in families:
        began = time.time()
        result = measure(family, arguments)
        taken += "failed" not in result
        lines.append(row(family, result, LONGEST_REASON))
        print(row(family, result) + (f" {time.time() - began:.0f} s" if sys.stdout.isatty() else ""), flush=True)
    print(f"{taken} of {len(families)} families train with PyTorch's losses")
    if arguments.markdown:
        with open(arguments.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
