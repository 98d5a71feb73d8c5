#!/usr/bin/env python3
"""From a bare model class to a trained folder, with a checkpoint as the Hugging Face cache holds published ones: bfloat16,
three shards, links into blobs. Export, prepare, batch, compile, train, save; losses are PyTorch's on the weights raised
to float32, and Transformers loads what was saved.

    published_checkpoint_test.py BIN_FOLDER
"""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "test", "support", "python"), os.path.join(ROOT, "tools", "python")]
import checkpoints
from omnibal_batches import Batches

BIN = None
STEPS, MICROBATCHES, RATE = 20, 2, 2e-3
WORDS = ["<pad>", "<eos>", "<unk>", "<user>", "<ctx>", "<img>", "</img>", "<bot>", "which", "digits", "are", "these", "and",
         *map(str, range(10))]
TEMPLATE = ("{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{% if m.content is string %}{{ m.content }}"
            "{% else %}{% for p in m.content %}{{ '<ctx>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}"
            "{% if m.role == 'assistant' %}<eos>{% endif %}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}")


def run(*command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def write_published(folder):
    """A small InternVL with random weights as its makers would publish it."""
    torch.manual_seed(3)
    config = AutoConfig.from_pretrained(f"{ROOT}/examples/quickstart/model")
    config.vision_config.num_hidden_layers, config.text_config.num_hidden_layers = 2, 2
    config.text_config.layer_types = ["full_attention"] * 2
    config.dtype = "bfloat16"
    AutoModelForImageTextToText.from_config(config, dtype=torch.float32).bfloat16().save_pretrained(f"{folder}-whole")
    checkpoints.retype(f"{folder}-whole", folder, torch.bfloat16, shards=3)
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([w for w in WORDS if "<" in w])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>",
                                   extra_special_tokens=dict(start_image_token="<img>", end_image_token="</img>"))
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    with open(f"{folder}/preprocessor_config.json", "w") as file:
        json.dump(dict(image_processor_type="GotOcr2ImageProcessor", do_rescale=True, rescale_factor=1 / 255, do_normalize=True,
                       size=dict(height=28, width=28), image_mean=[0.5] * 3, image_std=[0.5] * 3, crop_to_patches=False,
                       min_patches=1, max_patches=1), file)


def write_chats(folder):
    """48 questions about 0 to 3 pictures whose brightness is the answer."""
    generator = np.random.default_rng(5)
    with open(f"{folder}/chats.jsonl", "w") as file:
        for number in range(48):
            digits = generator.integers(0, 10, number % 4)
            names = []
            for place, digit in enumerate(digits):
                names.append(f"{number}-{place}.png")
                pixels = generator.integers(0, 30, (28, 28, 3)) + 22 * digit
                Image.fromarray(pixels.astype(np.uint8)).save(f"{folder}/{names[-1]}")
            answer = " ".join(str(d) for d in digits) or "0 1 2"
            file.write(json.dumps({"images": names, "messages": [
                {"role": "user", "content": "<image> " * len(names) + "which digits are these"},
                {"role": "assistant", "content": " " + answer + " "}]}) + "\n")


def read_samples(folder):
    """[(input_ids, labels, pixels)] in the order of the shard."""
    samples = []
    with tarfile.open(f"{folder}/data-000000.tar") as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar}
    for name in [n for n in members if n.endswith(".json")]:
        sample = json.loads(members[name])
        tiles = [np.asarray(Image.open(io.BytesIO(members[f"{name[:-5]}.{i}.png"]))) for i in range(sample["images"])]
        pixels = (np.stack(tiles).astype(np.float32) * np.float32(1 / 255) - 0.5) / 0.5 if tiles else np.zeros((0, 28, 28, 3))
        samples.append((sample["input_ids"], sample["labels"], torch.tensor(pixels.transpose(0, 3, 1, 2), dtype=torch.float32)))
    return samples


def train_in_pytorch(folder, samples, steps):
    """Losses and gradient norms of AdamW on the weights raised to float32; each sample is run alone."""
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).train()
    matrices, vectors = ([p for p in model.parameters() if (p.ndim >= 2) == large] for large in (True, False))
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=0.01), dict(params=vectors, weight_decay=0.0)],
                                  lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    result = []
    for numbers in steps:
        count = sum(label != -100 for n in numbers for label in samples[n][1][1:])
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for n in numbers:
            ids, labels, pixels = samples[n]
            inputs = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64))
            logits = model(**inputs, **(dict(pixel_values=pixels) if len(pixels) else {}), use_cache=False).logits[0]
            loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(labels[1:]), reduction="sum") / count
            loss.backward()
            total += float(loss)
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")))
        optimizer.step()
        result.append((total, norm))
    return model, result


class PublishedCheckpoint(unittest.TestCase):
    def test_from_the_bare_class_to_a_trained_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            write_published(f"{folder}/published")
            snapshot = checkpoints.cache_layout(f"{folder}/published", f"{folder}/hub")
            shards = [name for name in os.listdir(snapshot) if name.endswith(".safetensors")]
            self.assertEqual(len(shards), 3)
            blobs = {name: os.readlink(f"{snapshot}/{name}") for name in shards}
            tools = f"{ROOT}/tools/python"
            run(sys.executable, f"{tools}/export.py", snapshot)
            write_chats(folder)
            run(sys.executable, f"{tools}/prepare.py", snapshot, f"{folder}/chats.jsonl", "--images", folder, "--out", f"{folder}/shards")
            run(f"{BIN}/omnibal-batch", f"{folder}/shards", "--tiles", 9, "--tokens", 160, "--ranks", 1, "-o", f"{folder}/batches")
            run(f"{BIN}/omnibal-compile", f"{snapshot}/model.onnx", "--tiles", 9, "--tokens", 160, "--stages", 2,
                "--microbatches", MICROBATCHES, "-o", f"{folder}/program")
            common = ["--weights", snapshot, "--data", f"{folder}/shards", "--preprocess", f"{snapshot}/preprocessor_config.json"]
            # The groups of the first epoch over and over, so that PyTorch can be given the same ones.
            batches = Batches(f"{folder}/batches")
            groups = [batches.samples[a:b].tolist() for a, b in zip(batches.offsets, batches.offsets[1:])]
            steps = [[groups[(s * MICROBATCHES + m) % len(groups)] for m in range(MICROBATCHES)] for s in range(STEPS)]
            with open(f"{folder}/steps.jsonl", "w") as file:
                file.writelines(json.dumps({"groups": [[f"data-{n:08d}" for n in group] for group in step]}) + "\n" for step in steps)
            run(f"{BIN}/omnibal-run", f"{folder}/program", *common, "--steps-file", f"{folder}/steps.jsonl", "--lr", RATE,
                "--beta1", 0.9, "--beta2", 0.999, "--weight-decay", 0.01, "--clip", 0, "--log", f"{folder}/run.jsonl", "--save", f"{folder}/trained")
            for name, link in blobs.items():
                self.assertEqual(os.readlink(f"{snapshot}/{name}"), link)

            samples = read_samples(f"{folder}/shards")
            theirs, wanted = train_in_pytorch(snapshot, samples, [[n for group in step for n in group] for step in steps])
            with open(f"{folder}/run.jsonl") as file:
                ours = [json.loads(line) for line in file]
            self.assertEqual(len(ours), STEPS)
            self.assertLess(ours[-1]["loss"], 0.8 * ours[0]["loss"], "nothing was learnt")
            for step, (line, (loss, norm)) in enumerate(zip(ours, wanted)):
                self.assertAlmostEqual(line["loss"] / loss, 1, delta=2e-5, msg=f"loss of step {step}")
                self.assertAlmostEqual(line["grad_norm"] / norm, 1, delta=1e-4, msg=f"gradient norm of step {step}")

            saved, report = AutoModelForImageTextToText.from_pretrained(f"{folder}/trained", output_loading_info=True)
            self.assertFalse(report["missing_keys"] or report["unexpected_keys"] or report["mismatched_keys"])
            self.assertIn("tokenizer.json", os.listdir(f"{folder}/trained"))
            before = dict(AutoModelForImageTextToText.from_pretrained(snapshot).named_parameters())
            trained = dict(theirs.named_parameters())
            moved = 0
            for name, value in saved.named_parameters():
                self.assertEqual(value.dtype, torch.bfloat16, name)
                # Rounded to bfloat16 once, at the end; PyTorch's float32 value may lie next to a rounding border.
                torch.testing.assert_close(value.float(), trained[name].detach(), rtol=2 ** -7, atol=1e-5, msg=name)
                moved += not torch.equal(value, before[name])
            self.assertGreater(moved, len(trained) // 2, "training changed nothing")


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
