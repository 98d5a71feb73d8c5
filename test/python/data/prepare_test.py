#!/usr/bin/env python3
"""prepare.py on a tiny InternVL-like folder: tiles, placeholders, labels and shards, counted by hand."""
import contextlib
import io
import json
import os
import struct
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
import encoding_jobs
import originals
import prepare
import prepared_folder

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


class PrepareCase(unittest.TestCase):
    """A model's folder, two pictures, and prepare.py."""

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


class Prepare(PrepareCase):
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
        self.assertEqual(sorted(os.listdir(f"{self.folder}/out")),
                         ["lengths.csv", "x-000000.tar", "x-000001.tar", "x.prepared.json"])
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
            run = self.prepare([good, bad], "--overwrite")
            self.assertEqual(run.returncode, 1)
            self.assertIn("in.jsonl:2", run.stderr)
            self.assertIn(message, run.stderr)
            run = self.prepare([good, bad, good], "--skip-bad", "--overwrite")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("2 samples", run.stdout)

    def test_pairs_of_answers(self):
        """One line in the ways in which preference data is written: one sample, and its tokens counted by hand."""
        prompt = [{"from": "human", "value": "<image> what is this"}, {"from": "gpt", "value": "and"},
                  {"from": "human", "value": "and this"}]
        roles = [{"role": "assistant" if turn["from"] == "gpt" else "user", "content": turn["value"]} for turn in prompt]
        pieces = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " what is this"}]}, *roles[1:]]
        answers = {side: {"role": "assistant", "content": word} for side, word in (("chosen", "cat"), ("rejected", "dog cat"))}
        ways = [{"conversations": prompt, **{side: {"from": "gpt", "value": turn["content"]} for side, turn in answers.items()}},
                {"prompt": roles, **{side: turn["content"] for side, turn in answers.items()}},
                {"prompt": pieces, **{side: [turn] for side, turn in answers.items()}},
                {side: [*roles, turn] for side, turn in answers.items()}]
        run = self.prepare([{"images": ["square.jpg"], **way} for way in ways])
        self.assertEqual(run.returncode, 0, run.stderr)
        files, w = self.read(), WORDS.index
        shared = [w("<user>"), w("<img>")] + [2] * 4 + [w("</img>"), w("what"), w("is"), w("this"), w("<bot>"), w("and"),
                                                         w("<eos>"), w("<user>"), w("and"), w("this"), w("<bot>")]
        chosen, rejected = [w("cat"), w("<eos>")], [w("dog"), w("cat"), w("<eos>")]
        expected = {"input_ids": shared + chosen + shared + rejected, "chosen_tokens": len(shared + chosen), "images": 1,
                    "labels": [-100] * len(shared) + chosen + [-100] * len(shared) + rejected}
        for i in range(len(ways)):
            self.assertEqual(json.loads(files[f"data-0000000{i}.json"]), expected)
            self.assertIn(f"data-0000000{i}.0.png", files)  # once, for both answers
        with open(f"{self.folder}/out/lengths.csv") as file:
            self.assertEqual(file.read().splitlines()[1], "data-00000000,1,39")

    def test_pairs_that_are_none(self):
        pair = {"prompt": "what", "chosen": "cat", "rejected": "dog"}
        for change, message in (({"rejected": ""}, 'this one has "chosen" alone'), ({"chosen": None}, 'this one has "rejected" alone'),
                                ({"rejected": "cat"}, "both answers are the same"), ({"prompt": ""}, 'there is no "prompt"'),
                                ({"chosen": "<image>"}, "pictures belong to the prompt"), ({"chosen": 3}, "neither a text nor turns"),
                                ({"rejected": {"role": "robot", "content": "dog"}}, "robot"),
                                ({"rejected": [{"role": "user", "content": "dog"}]}, "nothing to learn")):
            run = self.prepare([{**pair, **change}], "--overwrite")
            self.assertEqual(run.returncode, 1, change)
            self.assertIn("in.jsonl:1", run.stderr)
            self.assertIn(message, run.stderr)

    def lines(self, count):
        """Conversations with and without a picture, every seventh too long."""
        for i in range(count):
            words = "what is this and " * (9 if i % 7 == 3 else 1 + i % 3)
            turns = [{"from": "human", "value": words}, {"from": "gpt", "value": "cat" if i % 2 else "dog"}]
            yield {"conversations": turns, **({"image": ["wide.png", "square.jpg"][i % 2]} if i % 3 else {})}

    def whole(self, out="out"):
        """Every file of a folder."""
        files = {}
        for name in sorted(os.listdir(f"{self.folder}/{out}")):
            with open(f"{self.folder}/{out}/{name}", "rb") as file:
                files[name] = file.read()
        return files

    OPTIONS = ["--shard-size", "8", "--max-tokens", "30"]

    def test_shards_do_not_depend_on_processes(self):
        lines = list(self.lines(80))
        lines[70] = {"messages": []}
        runs = [self.prepare(lines, *self.OPTIONS, "--skip-bad", "--jobs", jobs, "--out", f"{self.folder}/{jobs}") for jobs in "13"]
        self.assertEqual([run.returncode for run in runs], [0, 0], runs[1].stderr)
        self.assertIn("in.jsonl:71", runs[1].stderr)
        self.assertIn("68 samples in 9 shards, 11 over 30 tokens dropped, 1 damaged ones skipped", runs[1].stdout)
        self.assertEqual(self.whole("1"), self.whole("3"))

    def test_an_error_among_processes_is_that_of_the_first_line(self):
        lines = list(self.lines(100))
        lines[66], lines[90] = {"messages": []}, {"messages": []}
        run = self.prepare(lines, *self.OPTIONS, "--jobs", "2")
        self.assertEqual(run.returncode, 1)
        self.assertIn("in.jsonl:67", run.stderr)
        self.assertNotIn("in.jsonl:91", run.stderr)
        # It goes on behind the last shard, with --skip-bad now.
        run = self.prepare(lines, *self.OPTIONS, "--skip-bad")
        self.assertRegex(run.stderr, "goes on behind 6[0-5] lines of .*in.jsonl, in 7 shards")
        self.prepare(lines, *self.OPTIONS, "--skip-bad", "--out", f"{self.folder}/undisturbed")
        self.assertEqual(self.whole(), self.whole("undisturbed"))

    def interrupted(self, lines, after):
        """A run that ends when so many lines are encoded, wherever it is then."""
        encode, count = prepare.Encoder.__call__, 0

        def counted(encoder, number, item):
            nonlocal count
            count += 1
            if count > after:
                raise KeyboardInterrupt
            return encode(encoder, number, item)
        with mock.patch.object(prepare.Encoder, "__call__", counted), self.assertRaises(KeyboardInterrupt):
            self.prepare(lines, *self.OPTIONS)

    def test_the_same_command_goes_on(self):
        lines = list(self.lines(40))
        self.prepare(lines, *self.OPTIONS, "--out", f"{self.folder}/undisturbed")
        for after in (0, 5, 9, 11, 30, 39):
            with self.subTest(after):
                self.interrupted(lines, after)
                if not os.path.exists(f"{self.folder}/out/data-000002.tar"):
                    self.interrupted(lines, 12)
                run = self.prepare(lines, *self.OPTIONS)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(self.whole(), self.whole("undisturbed"))
                with mock.patch.object(prepare.Encoder, "__call__", side_effect=AssertionError):
                    again = self.prepare(lines, *self.OPTIONS)  # nothing is left to do
                self.assertEqual((again.returncode, again.stdout), (0, run.stdout))
                self.assertEqual(self.whole(), self.whole("undisturbed"))
                self.prepare(lines[:2], *self.OPTIONS, "--overwrite")
                self.assertEqual(sorted(self.whole()), ["data-000000.tar", "data.prepared.json", "lengths.csv"])
                for name in self.whole():
                    os.remove(f"{self.folder}/out/{name}")

    def test_shards_of_something_else_stay(self):
        lines = list(self.lines(20))
        self.prepare(lines, *self.OPTIONS)
        before = self.whole()
        template = f"{self.folder}/chat_template.jinja"
        with open(template, "a") as file:
            file.write("{# changed #}")
        for changed, options, what in ((lines[:-1], (), "another model, another input"), (lines, ("--max-tokens", "29"), "--max-tokens")):
            run = self.prepare(changed, *self.OPTIONS, *options)
            self.assertEqual(run.returncode, 1)
            self.assertIn(what, run.stderr)
            self.assertIn("--overwrite", run.stderr)
            self.assertEqual(self.whole(), before)
        with open(template, "w") as file:
            file.write(TEMPLATE)
        run = self.prepare(lines, *self.OPTIONS, "--name", "data-2")
        self.assertIn("has the shards of --name data, and lengths.csv is theirs", run.stderr)
        self.assertEqual(self.whole(), before)
        for damage, message in ((lambda: os.remove(f"{self.folder}/out/data-000001.tar"), "data-000001.tar is missing"),
                                (lambda: open(f"{self.folder}/out/data.prepared.json", "w").close(), "not as prepare.py writes it"),
                                (lambda: os.remove(f"{self.folder}/out/data.prepared.json"), "left no record")):
            damage()
            run = self.prepare(lines, *self.OPTIONS)
            self.assertEqual(run.returncode, 1)
            self.assertIn(message, run.stderr)
        self.assertEqual(self.prepare(lines, *self.OPTIONS, "--overwrite").returncode, 0)

    def test_a_folder_is_filled_by_one(self):
        lines = list(self.lines(9))
        self.prepare(lines, *self.OPTIONS)
        before = self.whole()
        with prepared_folder.PreparedFolder(f"{self.folder}/out", "data", 8, {}):
            run = self.prepare(lines, *self.OPTIONS, "--overwrite")
        self.assertEqual((run.returncode, self.whole()), (1, before))
        self.assertIn("another prepare.py is filling", run.stderr)
        self.assertEqual(self.prepare(lines, *self.OPTIONS, "--overwrite").returncode, 0)

    def test_lines_that_are_no_samples(self):
        good = json.dumps({"messages": [{"role": "user", "content": "what"}, {"role": "assistant", "content": "cat"}]})
        for bad, message in (("{", "not valid JSON"), ("[1]", "not a JSON object"), ('{"messages": ["a"]}', "turn 0: not a JSON object"),
                             (good[:-1] + ', "image": [null]}', "not names of files"), ("\udcff", "not valid JSON"),
                             (good[:-1] + ', "image": "text.png"}', "text.png")):
            with open(f"{self.folder}/text.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n no picture")
            with open(f"{self.folder}/in.txt", "w", errors="surrogateescape") as file:
                file.write(f"{good}\n{bad}\n{good}\n")
            os.replace(f"{self.folder}/in.txt", f"{self.folder}/lines.jsonl")
            with mock.patch.object(prepare, "parse_arguments", self.arguments("lines.jsonl", skip_bad=False)), \
                    self.assertRaisesRegex(SystemExit, f"lines.jsonl:2: .*{message}"):
                prepare.main()
            out = io.StringIO()
            with mock.patch.object(prepare, "parse_arguments", self.arguments("lines.jsonl", skip_bad=True)), \
                    contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                prepare.main()
            self.assertIn("2 samples in 1 shards, 1 damaged ones skipped", out.getvalue())

    def arguments(self, name, skip_bad):
        return lambda: types.SimpleNamespace(
            model=self.folder, input=f"{self.folder}/{name}", images=self.folder, out=f"{self.folder}/out", name="data", shard_size=8,
            max_tokens=None, crop="auto", original_pictures=False, skip_bad=skip_bad, jobs=1, overwrite=True)


class OriginalPictures(PrepareCase):
    def test_pictures_stay_as_they_are(self):
        Image.fromarray(np.full((20, 30), 3, np.uint8)).save(f"{self.folder}/other.gif")
        lines = [{"image": ["wide.png", "square.jpg"], "conversations": [{"from": "human", "value": "what"}, {"from": "gpt", "value": "cat"}]},
                 {"conversations": [{"from": "human", "value": "what"}, {"from": "gpt", "value": "dog"}]},
                 {"image": "other.gif", "conversations": [{"from": "human", "value": "is this"}, {"from": "gpt", "value": "cat"}]}]
        run = self.prepare(lines, "--original-pictures")
        self.assertEqual(run.returncode, 0, run.stderr)
        files = self.read()
        self.assertEqual(sorted(files), ["data-00000000.0.png", "data-00000000.1.jpg", "data-00000000.json", "data-00000001.json",
                                         "data-00000002.0.png", "data-00000002.json"])
        for name, source in (("data-00000000.0.png", "wide.png"), ("data-00000000.1.jpg", "square.jpg")):
            with open(f"{self.folder}/{source}", "rb") as file:
                self.assertEqual(files[name], file.read())
        self.assertEqual(np.asarray(Image.open(io.BytesIO(files["data-00000002.0.png"]))).tolist(), [[[3, 3, 3]] * 30] * 20)
        self.assertEqual(json.loads(files["data-00000000.json"])["images"], 2)
        with open(f"{self.folder}/out/preprocessor_config.json") as file:
            settings = json.load(file)
        kind = settings["omnibal"]["original_pictures"]
        self.assertEqual({name: kind[name] for name in kind if name != "order"},
                         dict(kind="tiles", height=28, width=28, min_tiles=1, max_tiles=4, resample="bicubic"))
        self.assertIn(kind["order"], ("rows", "auto"))
        self.assertEqual(settings["image_mean"], [0.5] * 3)
        # Tokens and lengths are those of tiles.
        self.assertEqual(self.prepare(lines, "--out", f"{self.folder}/tiles").returncode, 0)
        with open(f"{self.folder}/out/lengths.csv") as ours, open(f"{self.folder}/tiles/lengths.csv") as theirs:
            self.assertEqual(ours.read(), theirs.read())
        with tarfile.open(f"{self.folder}/tiles/data-000000.tar") as tar:
            for key in ("data-00000000.json", "data-00000002.json"):
                self.assertEqual(json.loads(files[key])["input_ids"], json.load(tar.extractfile(key))["input_ids"])

    def test_files_that_only_pillow_takes_become_png(self):
        with open(f"{self.folder}/wide.png", "rb") as file:
            good = file.read()
        pixels = np.asarray(Image.open(f"{self.folder}/wide.png"))
        crc = good.index(b"IDAT") + 4 + struct.unpack(">I", good[good.index(b"IDAT") - 4:good.index(b"IDAT")])[0]
        Image.fromarray(pixels).save(f"{self.folder}/still.webp", lossless=True)
        with open(f"{self.folder}/still.webp", "rb") as file:
            still = file.read()
        Image.fromarray(pixels).save(f"{self.folder}/one.webp", lossless=True, save_all=True, append_images=[Image.fromarray(255 - pixels)])
        damaged = {"ok.png": (good, True), "no_end.png": (good[:-12], False), "crc.png": (good[:crc] + b"abcd" + good[crc + 4:], False),
                   "ok.webp": (still, True)}
        for name, (data, kept) in damaged.items():
            with self.subTest(name):
                with open(f"{self.folder}/{name}", "wb") as file:
                    file.write(data)
                extension, written = originals.original(f"{self.folder}/{name}", Image.fromarray(pixels))
                self.assertEqual(written == data, kept)
                self.assertEqual(extension, name[-4:].strip(".") if kept else "png")
                np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(written)).convert("RGB")), pixels)
        self.assertEqual(originals.original(f"{self.folder}/one.webp", Image.fromarray(pixels))[0], "png")

    def test_pictures_that_a_run_takes_nothing_of(self):
        Image.fromarray(np.zeros((2, 900, 3), np.uint8)).save(f"{self.folder}/line.png")
        line = {"image": "line.png", "conversations": [{"from": "human", "value": "what"}, {"from": "gpt", "value": "cat"}]}
        run = self.prepare([line], "--original-pictures")
        self.assertEqual(run.returncode, 1)
        self.assertIn("in.jsonl:1: line.png: 900 x 2 pixels; no side may be more than 200 times the other", run.stderr)
        self.assertEqual(self.prepare([line], "--overwrite").returncode, 0)


class Processes(unittest.TestCase):
    def test_one_that_ends_by_itself(self):
        lines = [(number, ("in.jsonl", {})) for number in range(encoding_jobs.FEW)]
        with encoding_jobs.Encoding(None, dying_encoder, 2) as encoding, self.assertRaisesRegex(SystemExit, "ended by itself"):
            list(encoding.all(lines))


def dying_encoder():
    return lambda number, item: os._exit(9)


if __name__ == "__main__":
    unittest.main()
