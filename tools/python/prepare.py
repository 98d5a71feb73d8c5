#!/usr/bin/env python3
"""Turn LLaVA or ShareGPT conversations with pictures into WebDataset shards for omnibal-run.

    python prepare.py MODEL_FOLDER train.jsonl --images PICTURES/ --out SHARDS/ --name train

A line (or an element of a JSON list) is
    {"id": ..., "image": "a.jpg" or [...], "conversations": [{"from": "human", "value": "<image>\\nWhat is it?"}, ...]}
or  {"images": [...], "messages": [{"role": "user", "content": "<image>What is it?"}, ...]}
or, for omnibal-compile --loss dpo, a pair of answers to one prompt:
    {"images": [...], "prompt": [{"role": "user", "content": "<image>What is it?"}], "chosen": "A cat.", "rejected": "A dog."}
(the prompt may be in "conversations" or "messages" too, and answers may be turns, or whole conversations).
Text goes through the model's own tokenizer and chat template, pictures through its own image processor (cut into
tiles where the model does that); each "<image>" becomes the placeholder tokens of its tiles. Only what the assistant
says is learnt. Each sample becomes KEY.json and KEY.0.png, KEY.1.png, ... (one tile each, not yet normalized). With
--original-pictures the pictures stay as they are, and OUT/preprocessor_config.json tells omnibal-run, as --preprocess, how
to resize and cut them. The same command goes on where an interrupted one stopped (OUT/NAME.prepared.json
says where).
"""
import argparse
import functools
import itertools
import json
import os
import sys
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from preparation import MARK, BadSample, OwnProcessor, as_bytes, labels_of, load_processor, read_facts, rendered, spoken
from encoding_jobs import Encoding
from originals import Originals, original
from preference import is_pair, joined, sides_of
from prepared_folder import PreparedFolder, digest, digest_of_model
from shards import members_of

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


# ------------------------------------------------------------------------------------------------------- input
def read_lines(path):
    """(place, object) of every sample of a .jsonl or .json file; in place of a line that is none, what is wrong with it."""
    with open(path, encoding="utf-8", errors="replace") as file:
        if path.endswith(".json"):
            try:
                for i, item in enumerate(json.load(file)):
                    yield f"{path}[{i}]", item
            except json.JSONDecodeError as error:
                raise SystemExit(f"prepare.py: {path}: {error}")
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield f"{path}:{number}", json.loads(line)
                except json.JSONDecodeError as error:
                    yield f"{path}:{number}", BadSample(f"not valid JSON: {error}")


def conversation(item):
    """[(role, text)] and the picture files of either format."""
    if not isinstance(item, dict):
        raise BadSample("not a JSON object")
    turns = item.get("conversations") or item.get("messages")
    if not isinstance(turns, list) or not turns:
        raise BadSample('neither "conversations" nor "messages" holds a list of turns')
    result = []
    for i, turn in enumerate(turns):
        if not isinstance(turn, dict):
            raise BadSample(f"turn {i}: not a JSON object")
        role = turn.get("from", turn.get("role"))
        text = turn.get("value", turn.get("content"))
        if role not in ROLES:
            raise BadSample(f"turn {i}: unknown speaker {role!r}")
        if not isinstance(text, str):
            raise BadSample(f"turn {i}: the text is not a string")
        result.append((ROLES[role], text))
    files = item.get("image", item.get("images")) or []
    files = [files] if isinstance(files, str) else files
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise BadSample("the pictures are not names of files")
    marks = sum(text.count(MARK) for _, text in result)
    if marks == 0 and files:  # the usual convention: pictures come first
        first = next((i for i, (role, _) in enumerate(result) if role == "user"), 0)
        result[first] = (result[first][0], MARK * len(files) + "\n" + result[first][1])
    elif marks != len(files):
        raise BadSample(f"{marks} times {MARK} in the text, but {len(files)} pictures")
    if not any(role == "assistant" for role, _ in result):
        raise BadSample("the assistant says nothing, so there is nothing to learn")
    return result, files


# ------------------------------------------------------------------------------------------------------- model
class Model:
    """A model folder without a processor of pictures and text: tokenizer, image processor and the facts about
    placeholders."""

    def __init__(self, folder, crop):
        from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer
        config = AutoConfig.from_pretrained(folder)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        if not self.tokenizer.is_fast:
            raise SystemExit(f"prepare.py: {folder}: the tokenizer has no fast form (tokenizer.json)")
        self.images = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.crop = crop
        facts = read_facts(folder)
        self.token_id = facts.get("image_token_id") or getattr(config, "image_token_id", None) or \
            getattr(config, "image_token_index", None)
        self.per_tile = facts.get("tokens_per_picture") or getattr(config, "image_seq_length", None)
        if self.token_id is None or self.per_tile is None:
            raise SystemExit(f"prepare.py: {folder}: neither omnibal.json (export.py writes it) nor config.json names the "
                             "image token and how many of them a picture takes")
        self.token = self.tokenizer.convert_ids_to_tokens(self.token_id)
        self.before = getattr(self.tokenizer, "start_image_token", "") or ""
        self.after = getattr(self.tokenizer, "end_image_token", "") or ""

    def tiles(self, picture):
        """The picture as the model sees it, before normalization: a list of height x width x 3 arrays."""
        import numpy as np
        options = dict(do_rescale=False, do_normalize=False, return_tensors="np")
        if self.crop is not None and hasattr(self.images, "crop_to_patches"):
            options["crop_to_patches"] = self.crop
        values = np.asarray(self.images(picture, **options)["pixel_values"])
        values = values.reshape(-1, *values.shape[-3:]).transpose(0, 2, 3, 1)
        return list(as_bytes(values))

    def render(self, turns, prompt):
        """The chat template's text, with the image token where pictures are."""
        apply = self.tokenizer.chat_template and self.tokenizer.apply_chat_template
        return rendered(turns, prompt, self.token, self.tokenizer, apply)

    def encode(self, turns, pictures, first=0):
        """input_ids, labels, further inputs per token (none), and the tiles of the pictures; learnt is what the assistant
        says from turn `first` on."""
        tiles = [self.tiles(picture) for picture in pictures]
        ids, labels = self.tokens(turns, [len(t) for t in tiles], first)
        return ids, labels, {}, [tile for picture in tiles for tile in picture]

    def units_of_pictures(self, tiles):
        return None  # they have one size

    def tokens(self, turns, tiles_of, first):
        """input_ids and labels; tiles_of: number of tiles of each picture."""
        def expand(text):
            pieces = text.split(self.token)
            out = pieces[0]
            for count, piece in zip(tiles_of, pieces[1:]):
                out += self.before + self.token * (count * self.per_tile) + self.after + piece
            return out
        whole = expand(self.render(turns, False))
        spans = spoken(turns, whole, lambda turns, prompt: expand(self.render(turns, prompt)), first)
        coded = self.tokenizer(whole, return_offsets_mapping=True,
                               add_special_tokens=not self.tokenizer.chat_template)
        ids = list(coded["input_ids"])
        found, wanted = ids.count(self.token_id), sum(tiles_of) * self.per_tile
        if found != wanted:
            raise BadSample(f"the text holds the image token {found} times, its tiles need {wanted}")
        return ids, labels_of(coded, spans)


# ------------------------------------------------------------------------------------------------------- samples
def load_model(folder, crop):
    """What turns conversations into samples: the folder's own processor, where Transformers has one of its kind."""
    processor = load_processor(folder)
    if processor is not None and getattr(processor, "image_processor", None) is not None:
        return OwnProcessor(folder, processor, crop)
    model = Model(folder, crop)
    if crop is None and model.before:  # InternVL's processor class turns tiling on by itself
        model.crop = True
    return model


def open_picture(path):
    from PIL import Image
    try:
        return Image.open(path).convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadSample(f"{path}: {error}") from None


class Encoder:
    """Turns a line of the input into the members of a shard."""

    def __init__(self, arguments, kind=None):
        """kind: what becomes of pictures, where that is known."""
        crop = {"yes": True, "no": False, "auto": None}[arguments.crop]
        self.model = load_model(arguments.model, crop)
        self.originals = Originals(self.model, arguments.model, crop, kind) if arguments.original_pictures else None
        self.images, self.name, self.max_tokens = arguments.images, arguments.name, arguments.max_tokens
        self.squares = self.model.units_of_pictures([]) is not None
        self.header = "key,vit_num,token_num" + ",vit_square_sum" * self.squares

    def __call__(self, number, item):
        """[(member, bytes)] and the line of lengths.csv; None where there are too many tokens; or what is wrong."""
        if isinstance(item, BadSample):
            return item
        try:
            files, pictures, sample, tiles = self.encoded(item)
            if self.originals:
                self.originals.check(files, pictures, tiles)
        except BadSample as error:
            return error
        tokens = len(sample["input_ids"])
        if self.max_tokens and tokens > self.max_tokens:
            return None
        key = f"{self.name}-{number:08d}"
        units = self.model.units_of_pictures(tiles)
        length = f"{key},{sum(units)},{tokens},{sum(u * u for u in units)}" if self.squares else f"{key},{len(tiles)},{tokens}"
        if self.originals:
            tiles = [original(os.path.join(self.images, f), p) for f, p in zip(files, pictures)]
        return members_of(key, sample, tiles), length

    def encoded(self, item):
        """Names of the pictures, pictures, the sample's fields and its tiles."""
        if not is_pair(item):
            turns, files = conversation(item)
            pictures = self.opened(files)
            ids, labels, per_token, tiles = self.model.encode(turns, pictures)
            return files, pictures, dict(input_ids=ids, labels=labels, **per_token), tiles
        sides, first = sides_of(item)
        conversations = {side: conversation(whole) for side, whole in sides.items()}
        files = conversations["chosen"][1]
        pictures = self.opened(files)
        sample, tiles = joined({side: self.model.encode(turns, pictures, first) for side, (turns, _) in conversations.items()})
        return files, pictures, sample, tiles

    def opened(self, files):
        return [open_picture(os.path.join(self.images, file)) for file in files]


# ------------------------------------------------------------------------------------------------------- output
def settings_of(arguments):
    """What decides the bytes of the shards, but for the pictures themselves. A run that ended at a damaged sample had none
    before it, so it may go on with --skip-bad."""
    return {"model": digest_of_model(arguments.model), "input": digest([arguments.input]),
            "--images": os.path.abspath(arguments.images), "--shard-size": arguments.shard_size,
            "--max-tokens": arguments.max_tokens, "--crop": arguments.crop, "--original-pictures": arguments.original_pictures}


def write_samples(folder, encoded, skip_bad):
    """Takes [(place, what the encoder gave)] into the folder, in order."""
    began, first, shown = time.time(), folder.written, 0.0
    for place, result in encoded:
        if isinstance(result, BadSample):
            if not skip_bad:
                raise SystemExit(f"prepare.py: {place}: {result} (--skip-bad goes on without such samples)")
            print(f"prepare.py: {place}: {result}", file=sys.stderr)
            folder.bad += 1
        elif result is None:
            folder.dropped += 1
        else:
            folder.add(*result)
        folder.line_done()
        if sys.stderr.isatty() and time.time() - shown > 1:
            shown = time.time()
            print(f"\r{folder.written} samples, {(folder.written - first) / (shown - began):.0f} a second", end="", file=sys.stderr)


def summary(folder, max_tokens):
    return (f"{folder.folder}: {folder.written} samples in {folder.shards} shards" +
            (f", {folder.dropped} over {max_tokens} tokens dropped" if folder.dropped else "") +
            (f", {folder.bad} damaged ones skipped" if folder.bad else ""))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face model folder with tokenizer and processor")
    parser.add_argument("input", help=".jsonl or .json of conversations")
    parser.add_argument("--images", default=".", help="folder that picture paths are relative to")
    parser.add_argument("--out", required=True, help="folder for the shards and lengths.csv")
    parser.add_argument("--name", default="data", help="prefix of the shards (default data)")
    parser.add_argument("--shard-size", type=positive, default=1000, help="samples a shard (default 1000)")
    parser.add_argument("--max-tokens", type=positive, help="drop longer samples, and say how many")
    parser.add_argument("--crop", choices=["auto", "yes", "no"], default="auto",
                        help="cut pictures into tiles (default: as the processor is configured; InternVL: yes)")
    parser.add_argument("--original-pictures", action="store_true",
                        help="leave resizing and cutting of pictures to omnibal-run; --preprocess OUT/preprocessor_config.json")
    parser.add_argument("--skip-bad", action="store_true", help="report damaged samples and go on")
    parser.add_argument("--jobs", type=positive, default=len(os.sched_getaffinity(0)),
                        help="processes that encode; the shards do not depend on it (default: one a processor)")
    parser.add_argument("--overwrite", action="store_true", help="replace shards of this name")
    arguments = parser.parse_args()
    if not os.path.isfile(arguments.input):
        parser.error(f"{arguments.input}: there is no such file")
    if arguments.original_pictures and os.path.realpath(arguments.out) == os.path.realpath(arguments.model):
        parser.error("--original-pictures writes a preprocessor_config.json, so --out cannot be the model's own folder")
    return arguments


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def main():
    arguments = parse_arguments()
    encoder = Encoder(arguments)
    with PreparedFolder(arguments.out, arguments.name, arguments.shard_size, settings_of(arguments)) as folder:
        folder.open(encoder.header, arguments.overwrite)
        folder.write_settings(encoder.originals.settings() if encoder.originals else None)
        if not folder.complete:
            fill(folder, encoder, arguments)
    print(summary(folder, arguments.max_tokens))


def fill(folder, encoder, arguments):
    if folder.goes_on:
        print(f"prepare.py: goes on behind {folder.lines} lines of {arguments.input}, in {folder.shards} shards", file=sys.stderr)
    lines = itertools.islice(enumerate(read_lines(arguments.input)), folder.lines, None)
    kind = encoder.originals and encoder.originals.kind  # probing a processor takes longer than a picture
    with Encoding(encoder, functools.partial(Encoder, arguments, kind), arguments.jobs) as encoding:
        write_samples(folder, encoding.all(lines), arguments.skip_bad)
    folder.finish()


if __name__ == "__main__":
    main()
