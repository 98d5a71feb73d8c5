#!/usr/bin/env python3
"""prepare.py with the processors of several kinds of models: token ids, inputs per token and pixel values are those that
the processor itself gives for conversations with several turns and pictures; labels are counted by hand."""
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
from transformers import AutoImageProcessor, PreTrainedTokenizerFast

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
import originals
import prepare
import preparation
from exporter.pictures.crossing import seen_pictures

SPECIAL = ["<unk>", "<eos>", "<pad>", "<user>", "<bot>"]
WORDS = ["what", "is", "this", "and", "that", "a", "cat", "dog", "both", "are", "animals"]
TURNS = [("user", "<image>what is this"), ("assistant", "a cat"), ("user", "and <image>that"), ("assistant", "a dog both are animals")]


def template(mark):
    return ("{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}"
            "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
            "{{ '" + mark + "' if p.type == 'image' else p.text }}{% endfor %}{% endif %}"
            "{% if m.role == 'assistant' %}<eos>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<bot>{% endif %}")


def tokenizer(special, mark, **extra):
    words = SPECIAL + special + WORDS
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_special_tokens(SPECIAL + special)
    fast = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>",
                                   extra_special_tokens=extra)
    fast.chat_template = template(mark)
    return fast


class Kind:
    """A folder with configuration, tokenizer and processor files of one kind of model."""

    def __init__(self, folder, config, settings, special, mark, processor_settings=None, facts=None, **extra):
        self.folder = folder
        os.makedirs(folder)
        self.tokenizer = tokenizer(special, mark, **extra)
        self.tokenizer.save_pretrained(folder)
        ids = {word: i for i, word in enumerate(SPECIAL + special)}
        self.write("config.json", {**config, "image_token_id": ids[special[0]], "image_token_index": ids[special[0]]})
        self.write("preprocessor_config.json", settings)
        if processor_settings:
            self.write("processor_config.json", processor_settings)
        if facts:
            self.write("omnibal.json", facts)

    def write(self, name, values):
        with open(f"{self.folder}/{name}", "w") as file:
            json.dump(values, file)


MEAN = dict(image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.25, 0.3])


def llava(folder):
    return Kind(folder, dict(model_type="llava", vision_config=dict(model_type="clip_vision_model", image_size=28, patch_size=14)),
                dict(image_processor_type="CLIPImageProcessor", size=dict(shortest_edge=28), crop_size=dict(height=28, width=28), **MEAN),
                ["<image>"], "<image>", dict(processor_class="LlavaProcessor", patch_size=14, num_additional_image_tokens=1,
                                             vision_feature_select_strategy="default"), image_token="<image>")


def qwen2_vl(folder):
    special = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    return Kind(folder, dict(model_type="qwen2_vl"),
                dict(image_processor_type="Qwen2VLImageProcessor", patch_size=4, merge_size=2, temporal_patch_size=2,
                     size=dict(shortest_edge=64, longest_edge=4096), **MEAN),
                special, "<|vision_start|><|image_pad|><|vision_end|>", dict(processor_class="Qwen2VLProcessor"),
                dict(per_token_inputs=[], image_token_id=5, pictures=dict(patch=4, merge=2)), image_token="<|image_pad|>", video_token="<|video_pad|>")


def idefics3(folder):
    special = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
    return Kind(folder, dict(model_type="idefics3"),
                dict(image_processor_type="Idefics3ImageProcessor", size=dict(longest_edge=56), max_image_size=dict(longest_edge=28), **MEAN),
                special, "<image>", dict(processor_class="Idefics3Processor", image_seq_len=4), image_token="<image>")


TILES = dict(image_processor_type="GotOcr2ImageProcessor", size=dict(height=28, width=28), crop_to_patches=True, min_patches=1,
             max_patches=4, **MEAN)


def internvl(folder):
    special = ["<IMG_CONTEXT>", "<img>", "</img>", "<video>"]
    return Kind(folder, dict(model_type="internvl", vision_config=dict(model_type="internvl_vision", image_size=[28, 28], patch_size=[7, 7])),
                TILES, special, "<IMG_CONTEXT>", dict(processor_class="InternVLProcessor", image_seq_length=4), start_image_token="<img>",
                end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>")


def aya_vision(folder):
    special = ["<image>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>", "TILE", "TILE_GLOBAL"]
    return Kind(folder, dict(model_type="aya_vision"), TILES, special, "<image>",
                dict(processor_class="AyaVisionProcessor", patch_size=14, img_size=28, downsample_factor=1))


def gemma3(folder):
    special = ["<image_soft_token>", "<start_of_image>", "<end_of_image>"]
    return Kind(folder, dict(model_type="gemma3"),
                dict(image_processor_type="Gemma3ImageProcessor", size=dict(height=28, width=28), **MEAN), special, "<start_of_image>",
                dict(processor_class="Gemma3Processor", image_seq_length=4), dict(per_token_inputs=["token_type_ids"]),
                image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")


def llava_next(folder):
    pinpoints = [[28, 56], [56, 28], [56, 56]]
    return Kind(folder, dict(model_type="llava_next", image_grid_pinpoints=pinpoints,
                             vision_config=dict(model_type="clip_vision_model", image_size=28, patch_size=14)),
                dict(image_processor_type="LlavaNextImageProcessor", size=dict(shortest_edge=28), crop_size=dict(height=28, width=28),
                     image_grid_pinpoints=pinpoints, **MEAN),
                ["<image>"], "<image>", dict(processor_class="LlavaNextProcessor", patch_size=14, num_additional_image_tokens=1,
                                             vision_feature_select_strategy="default"),
                dict(picture=[44, 50], tiles_below_each_other=5), image_token="<image>")


def glm4v(folder):
    special = ["<|image|>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>"]
    return Kind(folder, dict(model_type="glm4v"),
                dict(image_processor_type="Glm4vImageProcessor", patch_size=4, merge_size=2, temporal_patch_size=2,
                     size=dict(shortest_edge=64, longest_edge=8192), **MEAN),
                special, "<|begin_of_image|><|image|><|end_of_image|>", dict(processor_class="Glm4vProcessor"),
                dict(pictures=dict(patch=4, merge=2)), image_token="<|image|>", video_token="<|video|>")


def paligemma(folder):
    return Kind(folder, dict(model_type="paligemma"),
                dict(image_processor_type="SiglipImageProcessor", size=dict(height=28, width=28), image_seq_length=4, **MEAN),
                ["<image>"], "<image>", dict(processor_class="PaliGemmaProcessor"), dict(per_token_inputs=["token_type_ids"]),
                image_token="<image>", bos_token="<user>")


def mllama(folder):
    return Kind(folder, dict(model_type="mllama"),
                dict(image_processor_type="MllamaImageProcessor", size=dict(height=28, width=28), max_image_tiles=4, **MEAN),
                ["<|image|>"], "<|image|>", dict(processor_class="MllamaProcessor"),
                dict(picture=[56, 56], tiles_below_each_other=4, aspect_ratio_id=6), image_token="<|image|>", bos_token="<user>")


class Processors(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        generator = np.random.default_rng(1)
        self.pictures = []
        for name, width, height in (("wide.png", 60, 30), ("tall.png", 28, 44)):
            Image.fromarray(generator.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(f"{self.folder}/{name}")
            self.pictures.append(Image.open(f"{self.folder}/{name}").convert("RGB"))

    def prepared(self, kind, turns=TURNS, pictures=("wide.png", "tall.png"), **fields):
        with open(f"{self.folder}/in.json", "w") as file:
            json.dump([{"images": pictures, "messages": [dict(role=r, content=c) for r, c in turns], **fields}], file)
        out = f"{kind.folder}/out"
        arguments = ["prepare.py", kind.folder, f"{self.folder}/in.json", "--images", self.folder, "--out", out, "--overwrite"]
        with mock.patch.object(sys, "argv", arguments), mock.patch.object(sys, "stdout", io.StringIO()):
            prepare.main()
        with tarfile.open(f"{out}/data-000000.tar") as tar:
            members = {m.name: tar.extractfile(m).read() for m in tar}
        sample = json.loads(members["data-00000000.json"])
        pictures = [np.asarray(Image.open(io.BytesIO(members[f"data-00000000.{i}.png"]))) for i in range(sample["images"])]
        return sample, pictures

    def check(self, make):
        """The sample, what the processor gives, and the sample's pictures normalized."""
        kind = make(f"{self.folder}/{make.__name__}")
        sample, pictures = self.prepared(kind)
        processor = preparation.load_processor(kind.folder)
        messages = preparation.messages_of(TURNS)
        text = processor.apply_chat_template(messages, tokenize=False, chat_template=kind.tokenizer.chat_template)
        given = processor(images=self.pictures, text=[text], return_tensors="np")
        self.assertEqual(sample["input_ids"], given["input_ids"][0].tolist())
        words = [kind.tokenizer.convert_ids_to_tokens(i) for i in sample["labels"] if i != -100]
        self.assertEqual(words, ["a", "cat", "<eos>", "a", "dog", "both", "are", "animals", "<eos>"])
        for token, label in zip(sample["input_ids"], sample["labels"]):
            self.assertIn(label, (-100, token))
        return kind, sample, given, pictures

    def normalized(self, picture):
        scaled = picture.astype(np.float32) * np.float32(1 / 255)
        return ((scaled - np.float32(MEAN["image_mean"])) / np.float32(MEAN["image_std"])).transpose(2, 0, 1)

    def test_pictures_of_one_size(self):
        _, sample, given, pictures = self.check(llava)
        self.assertEqual(sample["images"], 2)
        self.assertEqual(sample["input_ids"].count(5), 2 * 4)
        np.testing.assert_allclose(np.stack([self.normalized(p) for p in pictures]), given["pixel_values"], atol=1e-6)

    def test_tiles_of_pictures(self):
        for make in (internvl, aya_vision, gemma3):
            with self.subTest(make.__name__):
                _, sample, given, pictures = self.check(make)
                self.assertEqual(sample["images"], 2 if make is gemma3 else 6)
                self.assertEqual(sample.get("token_type_ids"), given["token_type_ids"][0].tolist() if make is gemma3 else None)
                np.testing.assert_allclose(np.stack([self.normalized(p) for p in pictures]), given["pixel_values"], atol=1e-6)

    def test_tiles_below_each_other(self):
        """A graph for one size: pictures get it first; the tiles of each are one picture."""
        self.pictures = [picture.resize((50, 44)) for picture in self.pictures]
        _, sample, given, pictures = self.check(llava_next)
        self.assertEqual([p.shape for p in pictures], [(5 * 28, 28, 3)] * 2)
        tiles = np.stack([self.normalized(p) for p in pictures]).reshape(2, 3, 5, 28, 28).swapaxes(1, 2)
        np.testing.assert_allclose(tiles, given["pixel_values"], atol=1e-6)

    def test_pictures_of_any_size(self):
        for make in (qwen2_vl, glm4v):
            with self.subTest(make.__name__):
                self.any_size(make)

    def any_size(self, make):
        kind, sample, given, pictures = self.check(make)
        images = AutoImageProcessor.from_pretrained(kind.folder, backend="pil")
        again = images([Image.fromarray(p) for p in pictures], do_resize=False, return_tensors="np")
        np.testing.assert_array_equal(again["image_grid_thw"], given["image_grid_thw"])
        np.testing.assert_allclose(again["pixel_values"], given["pixel_values"], atol=1e-6)
        self.assertEqual([p.shape[0] * p.shape[1] // 16 for p in pictures], given["image_grid_thw"].prod(-1).tolist())
        with open(f"{kind.folder}/out/lengths.csv") as file:
            units = given["image_grid_thw"].prod(-1) // 4
            self.assertEqual(file.read().split(), [
                "key,vit_num,token_num,vit_square_sum",
                f"data-00000000,{units.sum()},{len(sample['input_ids'])},{(units ** 2).sum()}"])

    def test_pictures_that_are_split(self):
        _, sample, given, pictures = self.check(idefics3)
        values = given["pixel_values"].reshape(-1, *given["pixel_values"].shape[-3:])
        there = given["pixel_attention_mask"].reshape(len(values), -1).any(1)
        self.assertEqual(sample["images"], there.sum())
        np.testing.assert_allclose(np.stack([self.normalized(p) for p in pictures]), values[there], atol=1e-6)

    def owner(self, images, **facts):
        """What prepare.py keeps of a folder, for pictures alone."""
        owner = preparation.OwnProcessor.__new__(preparation.OwnProcessor)
        owner.facts, owner.folder, owner.processor = facts, self.folder, types.SimpleNamespace(image_processor=images)
        owner.places = owner.places_of
        return owner

    def test_rows_of_patches_and_padding(self):
        from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil
        images = Gemma4ImageProcessorPil(patch_size=4, pooling_kernel_size=1, max_soft_tokens=70)
        pictures = [np.random.default_rng(n).integers(0, 256, (8, 12, 3), dtype=np.uint8) for n in range(2)]
        given = dict(images(pictures, do_resize=False, do_rescale=False, do_normalize=False, return_tensors="np"))
        self.assertEqual(given["pixel_values"].shape, (2, 70, 48))
        for got, picture in zip(self.owner(images, height=8, width=12).tiles(given), pictures, strict=True):
            np.testing.assert_array_equal(got, picture)
        with self.assertRaisesRegex(preparation.BadSample, "not 8 x 8"):
            self.owner(images, height=8, width=8).tiles(given)

    def test_pixels_that_the_graph_does_not_take(self):
        given = dict(pixel_values=np.zeros((1, 3, 4, 4)), pixel_values_local=np.zeros((2, 3, 4, 4)))
        with self.assertRaisesRegex(preparation.BadSample, "pixel_values_local beside"):
            self.owner(None).tiles(given)
        self.assertEqual(len(self.owner(None).tiles({**given, "pixel_values_local": None})), 1)

    def test_pictures_that_tokens_attend_to(self):
        """A picture is one token and four tiles below each other; which pictures a token sees is derived from the ids."""
        kind = mllama(f"{self.folder}/mllama")
        sample, pictures = self.prepared(kind)
        processor = preparation.load_processor(kind.folder)
        text = processor.apply_chat_template(preparation.messages_of(TURNS), tokenize=False, chat_template=kind.tokenizer.chat_template)
        given = processor(images=[picture.resize((56, 56)) for picture in self.pictures], text=[text], return_tensors="np")
        self.assertEqual(sample["input_ids"], given["input_ids"][0].tolist())
        tiles = given["pixel_values"].transpose(0, 1, 3, 2, 4, 5).reshape(2, 3, 4 * 28, 28)
        np.testing.assert_allclose(np.stack([self.normalized(p) for p in pictures]), tiles, atol=1e-6)
        seen = [[[int(first <= p < last)] * 4 for p in range(2)] for first, last in seen_pictures(sample["input_ids"], 5)]
        self.assertEqual(given["cross_attention_mask"][0].tolist(), seen)
        kind.write("omnibal.json", dict(picture=[56, 56], tiles_below_each_other=4, aspect_ratio_id=1))
        with self.assertRaisesRegex(SystemExit, "arranges the tiles of a picture in another way"):
            self.prepared(kind)

    def test_what_becomes_of_pictures_is_described(self):
        """Each description was compared with the processor's pixels (picture_kinds.describe)."""
        square = dict(height=28, width=28)
        for make, wanted in ((llava, dict(kind="shortest_edge", edge=28, resample="bicubic", **square)),
                             (internvl, dict(kind="tiles", min_tiles=1, max_tiles=4, resample="bicubic", **square)),
                             (gemma3, dict(kind="fixed", resample="bilinear", **square)),
                             (idefics3, dict(kind="splits", longest_edge=56, tile=28, split=True, resample="lanczos")),
                             (qwen2_vl, dict(kind="units", factor=8, min_pixels=64, max_pixels=4096, resample="bicubic")),
                             (glm4v, dict(kind="units", factor=8, min_pixels=32, max_pixels=4096, resample="bicubic"))):
            with self.subTest(make.__name__):
                kind = make(f"{self.folder}/{make.__name__}")
                found = originals.Originals(prepare.load_model(kind.folder, None), kind.folder, None).kind
                self.assertEqual({name: found[name] for name in found if name != "order"}, wanted)
        # InternVL's processor asks for tiles, whatever the file of its pictures says.
        kind = internvl(f"{self.folder}/internvl-uncut")
        with open(f"{kind.folder}/preprocessor_config.json") as file:
            settings = json.load(file)
        kind.write("preprocessor_config.json", {**settings, "crop_to_patches": False})
        found = originals.Originals(prepare.load_model(kind.folder, None), kind.folder, None).kind
        self.assertEqual((found["kind"], found["max_tiles"]), ("tiles", 4))
        for make in (mllama, llava_next):
            kind = make(f"{self.folder}/{make.__name__}")
            with self.subTest(make.__name__), self.assertRaisesRegex(SystemExit, "leave out --original-pictures"):
                originals.Originals(prepare.load_model(kind.folder, None), kind.folder, None)

    def test_a_processor_that_does_something_else_is_noticed(self):
        """Settings alone are not believed."""
        kind = llava(f"{self.folder}/llava")
        model = prepare.load_model(kind.folder, None)
        resize = type(model.processor.image_processor).resize
        with mock.patch.object(type(model.processor.image_processor), "resize",
                               lambda self, image, *a, **k: resize(self, image[..., ::-1], *a, **k)), \
                self.assertRaisesRegex(SystemExit, "does something with pictures that omnibal-run does not do"):
            originals.Originals(model, kind.folder, None)

    def test_question_and_answer(self):
        """A prefix that sees itself both ways ends where the answer begins, as the processor says for a suffix."""
        kind = paligemma(f"{self.folder}/paligemma")
        turns = [("user", "<image>\nwhat is this"), ("assistant", "a cat")]
        sample, pictures = self.prepared(kind, turns, ["wide.png"])
        processor = preparation.load_processor(kind.folder)
        given = processor(images=self.pictures[:1], text=["<image>what is this"], suffix=["a cat"], return_tensors="np")
        self.assertEqual(sample["input_ids"], given["input_ids"][0].tolist())
        self.assertEqual(sample["token_type_ids"], given["token_type_ids"][0].tolist())
        ends = len(sample["input_ids"]) - 3
        self.assertEqual(kind.tokenizer.convert_ids_to_tokens(sample["labels"][ends:]), ["a", "cat", "<eos>"])
        self.assertEqual(sample["labels"][:ends], [-100] * ends)
        self.assertEqual(sample["token_type_ids"], [0] * ends + [1] * 3)
        np.testing.assert_allclose(self.normalized(pictures[0])[None], given["pixel_values"], atol=1e-6)
        with self.assertRaisesRegex(SystemExit, "one question and its answer"):
            self.prepared(kind)

    def test_pairs_of_answers(self):
        """Both sequences are those of the answers alone, with all inputs per token."""
        for make in (gemma3, qwen2_vl, paligemma):
            with self.subTest(make.__name__):
                kind, prompt = make(f"{self.folder}/{make.__name__}"), [("user", "<image>\nwhat is this")]
                chosen, rejected = (self.prepared(kind, [*prompt, ("assistant", answer)], ["wide.png"])[0] for answer in ("a cat", "both"))
                pair, _ = self.prepared(kind, prompt, ["wide.png"], chosen="a cat", rejected="both")
                self.assertEqual(pair.pop("chosen_tokens"), len(chosen["input_ids"]))
                self.assertEqual(pair.pop("images"), chosen.pop("images"))
                self.assertEqual(pair, {name: values + rejected[name] for name, values in chosen.items()})


if __name__ == "__main__":
    unittest.main()
