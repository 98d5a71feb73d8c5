#!/usr/bin/env python3
"""Turn LLaVA or ShareGPT conversations with pictures into WebDataset shards for omnibal-run.

    python prepare.py MODEL_FOLDER train.jsonl --images PICTURES/ --out SHARDS/ --name train

A line (or an element of a JSON list) is
    {"id": ..., "image": "a.jpg" or [...], "conversations": [{"from": "human", "value": "<image>\\nWhat is it?"}, ...]}
or  {"images": [...], "messages": [{"role": "user", "content": "<image>What is it?"}, ...]}
Text goes through the model's own tokenizer and chat template, pictures through its own image processor (cut into
tiles where the model does that); each "<image>" becomes the placeholder tokens of its tiles. Only what the assistant
says is learnt. Each sample becomes KEY.json and KEY.0.png, KEY.1.png, ... (one tile each, not yet normalized).
"""
import argparse
import json
import os
import sys
import tarfile
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from preparation import MARK, BadSample, OwnProcessor, as_bytes, labels_of, load_processor, read_facts, rendered, spoken
from shards import add_sample

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


# ------------------------------------------------------------------------------------------------------- input
def read_lines(path):
    """(place, object) of every sample of a .jsonl or .json file."""
    with open(path, encoding="utf-8") as file:
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
                    raise SystemExit(f"prepare.py: {path}:{number}: {error}")


def conversation(item):
    """[(role, text)] and the picture files of either format."""
    turns = item.get("conversations") or item.get("messages")
    if not isinstance(turns, list) or not turns:
        raise BadSample('neither "conversations" nor "messages" holds a list of turns')
    result = []
    for i, turn in enumerate(turns):
        role = turn.get("from", turn.get("role"))
        text = turn.get("value", turn.get("content"))
        if role not in ROLES:
            raise BadSample(f"turn {i}: unknown speaker {role!r}")
        if not isinstance(text, str):
            raise BadSample(f"turn {i}: the text is not a string")
        result.append((ROLES[role], text))
    files = item.get("image", item.get("images")) or []
    files = [files] if isinstance(files, str) else files
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

    def encode(self, turns, pictures):
        """input_ids, labels, further inputs per token (none), and the tiles of the pictures."""
        tiles = [self.tiles(picture) for picture in pictures]
        ids, labels = self.tokens(turns, [len(t) for t in tiles])
        return ids, labels, {}, [tile for picture in tiles for tile in picture]

    def units_of_pictures(self, tiles):
        return None  # they have one size

    def tokens(self, turns, tiles_of):
        """input_ids and labels; tiles_of: number of tiles of each picture."""
        def expand(text):
            pieces = text.split(self.token)
            out = pieces[0]
            for count, piece in zip(tiles_of, pieces[1:]):
                out += self.before + self.token * (count * self.per_tile) + self.after + piece
            return out
        whole = expand(self.render(turns, False))
        spans = spoken(turns, whole, lambda turns, prompt: expand(self.render(turns, prompt)))
        coded = self.tokenizer(whole, return_offsets_mapping=True,
                               add_special_tokens=not self.tokenizer.chat_template)
        ids = list(coded["input_ids"])
        found, wanted = ids.count(self.token_id), sum(tiles_of) * self.per_tile
        if found != wanted:
            raise BadSample(f"the text holds the image token {found} times, its tiles need {wanted}")
        return ids, labels_of(coded, spans)


# ------------------------------------------------------------------------------------------------------- output
class Shards:
    """NAME-000000.tar, NAME-000001.tar, ...; a shard gets its name when it is complete."""

    def __init__(self, folder, name, limit):
        self.folder, self.name, self.limit = folder, name, limit
        self.number, self.count, self.tar = 0, 0, None
        os.makedirs(folder, exist_ok=True)

    def path(self):
        return os.path.join(self.folder, f"{self.name}-{self.number:06d}.tar")

    def add(self, key, ids, labels, per_token, tiles):
        if self.tar is None:
            self.tar = tarfile.open(self.path() + ".tmp", "w", format=tarfile.PAX_FORMAT)
        add_sample(self.tar, key, dict(input_ids=ids, labels=labels, **per_token), tiles)
        self.count += 1
        if self.count == self.limit:
            self.close()

    def close(self):
        if self.tar is not None:
            self.tar.close()
            os.rename(self.path() + ".tmp", self.path())
            self.number, self.count, self.tar = self.number + 1, 0, None


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
    except OSError as error:
        raise BadSample(f"{path}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face model folder with tokenizer and processor")
    parser.add_argument("input", help=".jsonl or .json of conversations")
    parser.add_argument("--images", default=".", help="folder that picture paths are relative to")
    parser.add_argument("--out", required=True, help="folder for the shards and lengths.csv")
    parser.add_argument("--name", default="data", help="prefix of the shards (default data)")
    parser.add_argument("--shard-size", type=int, default=1000, help="samples a shard (default 1000)")
    parser.add_argument("--max-tokens", type=int, help="drop longer samples, and say how many")
    parser.add_argument("--crop", choices=["auto", "yes", "no"], default="auto",
                        help="cut pictures into tiles (default: as the processor is configured; InternVL: yes)")
    parser.add_argument("--skip-bad", action="store_true", help="report damaged samples and go on")
    arguments = parser.parse_args()

    model = load_model(arguments.model, {"yes": True, "no": False, "auto": None}[arguments.crop])
    shards = Shards(arguments.out, arguments.name, arguments.shard_size)
    began, shown = time.time(), 0.0
    written = dropped = bad = 0
    with open(os.path.join(arguments.out, "lengths.csv"), "w") as lengths:
        squares = model.units_of_pictures([]) is not None
        lengths.write("key,vit_num,token_num" + ",vit_square_sum" * squares + "\n")
        for number, (place, item) in enumerate(read_lines(arguments.input)):
            try:
                turns, files = conversation(item)
                pictures = [open_picture(os.path.join(arguments.images, f)) for f in files]
                ids, labels, per_token, tiles = model.encode(turns, pictures)
            except BadSample as error:
                if not arguments.skip_bad:
                    raise SystemExit(f"prepare.py: {place}: {error} (--skip-bad goes on without such samples)")
                print(f"prepare.py: {place}: {error}", file=sys.stderr)
                bad += 1
                continue
            if arguments.max_tokens and len(ids) > arguments.max_tokens:
                dropped += 1
                continue
            key = f"{arguments.name}-{number:08d}"
            shards.add(key, ids, labels, per_token, tiles)
            units = model.units_of_pictures(tiles)
            lengths.write(f"{key},{sum(units)},{len(ids)},{sum(u * u for u in units)}\n" if squares else
                          f"{key},{len(tiles)},{len(ids)}\n")
            written += 1
            if sys.stderr.isatty() and time.time() - shown > 1:
                shown = time.time()
                print(f"\r{written} samples, {written / (shown - began):.0f} a second", end="", file=sys.stderr)
    shards.close()
    print(f"{arguments.out}: {written} samples in {shards.number} shards" +
          (f", {dropped} over {arguments.max_tokens} tokens dropped" if dropped else "") +
          (f", {bad} damaged ones skipped" if bad else ""))


if __name__ == "__main__":
    main()
