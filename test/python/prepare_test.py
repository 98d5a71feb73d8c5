#!/usr/bin/env python3
"""prepare.py on a tiny InternVL-like folder: tiles, placeholders, labels and shards, counted by hand."""
import contextlib
import io
import json
import os
import sys
import tarfile
import tempfile
import types
import unittest
from unittest import mock

import numpy as np
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
import prepare

WORDS = ["<unk>", "<eos>", "<ctx>", "<img>", "</img>", "<user>", "<bot>", "what", "is", "this", "cat", "dog", "and"]
TEMPLATE = ("{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}"
            "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
            "{{ '<ctx>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}"
            "{% if m.role == 'assistant' %}<eos>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<bot>{% endif %}")


def make_model(folder, wrap):
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<ctx>", "<img>", "</img>", "<user>", "<bot>", "<eos>"])
    extra = dict(start_image_token="<img>", end_image_token="</img>") if wrap else {}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>",
                                   extra_special_tokens=extra)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    config = dict(model_type="internvl", image_token_id=2, image_seq_length=4,
                  vision_config=dict(model_type="internvl_vision", image_size=[28, 28], patch_size=[7, 7]),
                  text_config=dict(model_type="qwen2", vocab_size=len(WORDS)))
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)
    with open(f"{folder}/preprocessor_config.json", "w") as file:
        json.dump(dict(image_processor_type="GotOcr2ImageProcessor", size=dict(height=28, width=28),
                       image_mean=[0.5] * 3, image_std=[0.5] * 3, min_patches=1, max_patches=4), file)


class Prepare(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        make_model(self.folder, True)
        rng = np.random.default_rng(1)
        for name, width, height in (("wide.png", 56, 28), ("square.jpg", 28, 28)):
            Image.fromarray(rng.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(f"{self.folder}/{name}")

    def tearDown(self):
        self.temporary.cleanup()

    def prepare(self, lines, *options):
        with open(f"{self.folder}/in.jsonl", "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        arguments = ["prepare.py", self.folder, f"{self.folder}/in.jsonl", "--images", self.folder,
                     "--out", f"{self.folder}/out", *options]
        out, err, code = io.StringIO(), io.StringIO(), 0
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            try:
                prepare.main()
            except SystemExit as error:  # what Python does with it at the top
                code = 1
                print(error, file=err)
        return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())

    def read(self):
        files = {}
        for name in sorted(os.listdir(f"{self.folder}/out")):
            if name.endswith(".tar"):
                with tarfile.open(f"{self.folder}/out/{name}") as tar:
                    files.update({m.name: tar.extractfile(m).read() for m in tar})
        return files

    def test_tiles_placeholders_and_labels(self):
        run = self.prepare([
            {"id": 1, "image": "wide.png", "conversations": [
                {"from": "human", "value": "<image> what is this"}, {"from": "gpt", "value": "cat"},
                {"from": "human", "value": "and this"}, {"from": "gpt", "value": "dog"}]},
            {"messages": [{"role": "user", "content": "what"}, {"role": "assistant", "content": "cat"}]},
            {"image": ["square.jpg"], "conversations": [{"from": "human", "value": "is this"},
                                                        {"from": "gpt", "value": "cat"}]}])
        self.assertEqual(run.returncode, 0, run.stderr)
        files = self.read()
        first = json.loads(files["data-00000000.json"])
        # 56 x 28 at tile 28: a grid of 2 x 1 and the thumbnail = 3 tiles of 4 tokens
        self.assertEqual(first["images"], 3)
        w = WORDS.index
        self.assertEqual(first["input_ids"], [w("<user>"), w("<img>")] + [2] * 12 + [
            w("</img>"), w("what"), w("is"), w("this"), w("<bot>"), w("cat"), w("<eos>"), w("<user>"), w("and"),
            w("this"), w("<bot>"), w("dog"), w("<eos>")])
        learnt = [t for t, l in enumerate(first["labels"]) if l != -100]
        self.assertEqual([first["labels"][t] for t in learnt], [w("cat"), w("<eos>"), w("dog"), w("<eos>")])
        self.assertTrue(all(first["labels"][t] == first["input_ids"][t] for t in learnt))
        # The first two tiles are the halves of the picture, pixel for pixel: nothing was resized.
        picture = np.asarray(Image.open(f"{self.folder}/wide.png"))
        for i in range(2):
            tile = np.asarray(Image.open(io.BytesIO(files[f"data-00000000.{i}.png"])))
            self.assertTrue((tile == picture[:, 28 * i:28 * i + 28]).all())
        text = json.loads(files["data-00000001.json"])
        self.assertEqual(text["images"], 0)
        self.assertNotIn("data-00000001.0.png", files)
        # A picture that the text does not mention comes first.
        third = json.loads(files["data-00000002.json"])
        self.assertEqual(third["images"], 1)
        self.assertEqual(third["input_ids"][:6], [w("<user>"), w("<img>"), 2, 2, 2, 2])
        with open(f"{self.folder}/out/lengths.csv") as file:
            self.assertEqual(file.read().splitlines()[:2], ["key,vit_num,token_num", "data-00000000,3,27"])

    def test_shards_and_dropping(self):
        line = {"messages": [{"role": "user", "content": "what"}, {"role": "assistant", "content": "cat"}]}
        long = {"messages": [{"role": "user", "content": "what " * 50}, {"role": "assistant", "content": "cat"}]}
        run = self.prepare([line, long, line, line], "--shard-size", "2", "--max-tokens", "20", "--name", "x")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("1 over 20 tokens dropped", run.stdout)
        self.assertEqual([f for f in sorted(os.listdir(f"{self.folder}/out")) if f != "lengths.csv"],
                         ["x-000000.tar", "x-000001.tar"])
        self.assertEqual(len(self.read()), 3)

    def test_errors_name_the_line(self):
        good = {"messages": [{"role": "user", "content": "what"}, {"role": "assistant", "content": "cat"}]}
        for bad, message in (
                ({"messages": []}, "conversations"),
                ({"messages": [{"role": "user", "content": "what"}]}, "nothing to learn"),
                ({"messages": [{"role": "robot", "content": "what"}]}, "robot"),
                ({"image": "none.png", **good}, "none.png"),
                ({"image": "wide.png", "messages": [{"role": "user", "content": "<image><image>"},
                                                    {"role": "assistant", "content": "cat"}]}, "2 times")):
            run = self.prepare([good, bad])
            self.assertEqual(run.returncode, 1)
            self.assertIn("in.jsonl:2", run.stderr)
            self.assertIn(message, run.stderr)
            run = self.prepare([good, bad, good], "--skip-bad")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("2 samples", run.stdout)


if __name__ == "__main__":
    unittest.main()
