#!/usr/bin/env python3
"""Makes everything the quickstart trains on: data, steps, the exported model and its initial weights.

    python make_quickstart.py            (needs tools/python/requirements.txt and scikit-learn==1.9.1)

The result is part of the repository, so that the quickstart itself needs no Python packages. Everything is a function
of the seeds below.

  data/train-*.tar      samples over 1437 of scikit-learn's handwritten digits
  data/heldout-*.tar    samples over the other 360 pictures, which training never sees
  data/steps.jsonl      1000 steps of 12 micro-batches of at most 128 tokens and 10 pictures
  model/                an InternVL-style model (0.6 M parameters) as save_pretrained writes it, and its graph
"""
import io
import json
import os
import random
import subprocess
import sys
import tarfile

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))
TILE, TOKENS_PER_TILE = 28, 4
STEPS, MICROBATCHES, TOKENS, TILES = 1000, 12, 128, 10
TRAIN_SAMPLES, HELDOUT_SAMPLES = 6000, 400
SHIFT = 1  # training pictures are moved by up to so many pixels, so that the few there are go further

SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>", "<image>", "<img>", "</img>", "<user>", "<assistant>", "<nl>"]
CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789.,?+-=:"
VOCABULARY = {token: i for i, token in enumerate(SPECIALS + list(CHARACTERS))}
NAMES = "zero one two three four five six seven eight nine".split()
QUESTIONS = ["which digits?", "read.", "name each digit.", "digits?"]


def spell(text):
    return [VOCABULARY[c] for c in text]


def picture(pixels, shift):
    """8 x 8 gray values of 0 to 16 -> a PNG of one tile, enlarged without interpolation, moved by (down, right)."""
    grid = (np.arange(TILE) * 8) // TILE
    gray = np.rint(pixels[grid][:, grid] * (255 / 16)).astype(np.uint8)
    down, right = shift
    padded = np.pad(gray, SHIFT)
    gray = padded[SHIFT - down:SHIFT - down + TILE, SHIFT - right:SHIFT - right + TILE]
    buffer = io.BytesIO()
    Image.fromarray(gray).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def make_sample(rng, digits, choice, shift):
    """Input ids, labels, picture numbers and their shifts: pictures, a question, and the answer, which alone is learnt."""
    count = rng.choice([0, 0, 1, 1, 1, 2, 2, 3, 4, 5])
    picks = [rng.choice(choice) for _ in range(count)]
    ids = [VOCABULARY["<bos>"], VOCABULARY["<user>"]]
    ids += ([VOCABULARY["<img>"]] + [VOCABULARY["<image>"]] * TOKENS_PER_TILE + [VOCABULARY["</img>"]]) * count
    if count:
        ids += spell(rng.choice(QUESTIONS))
        answer = " ".join(NAMES[digits.target[p]] for p in picks)
    else:
        a, b = rng.randrange(10), rng.randrange(10)
        ids += spell(f"{a}+{b}=?")
        answer = " ".join(NAMES[int(c)] for c in str(a + b))
    ids += [VOCABULARY["<nl>"], VOCABULARY["<assistant>"]]
    tail = spell(answer) + [VOCABULARY["<eos>"]]
    return dict(input_ids=ids + tail, labels=[-100] * len(ids) + tail, picks=picks,
                shifts=[(rng.randint(-shift, shift), rng.randint(-shift, shift)) for _ in picks])


def write_tar(path, samples, digits):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
        for key, sample in samples:
            text = dict(input_ids=sample["input_ids"], labels=sample["labels"], images=len(sample["picks"]))
            add(f"{key}.json", json.dumps(text, separators=(",", ":")).encode())
            for i, pick in enumerate(sample["picks"]):
                add(f"{key}.{i}.png", picture(digits.images[pick], sample["shifts"][i]))


def make_steps(rng, samples):
    """Samples in random order, epoch after epoch, put into groups as they come and as they fit."""
    queue, lines = [], []
    for _ in range(STEPS):
        groups = []
        for _ in range(MICROBATCHES):
            group, tokens, tiles = [], 0, 0
            while True:
                if not queue:
                    queue = rng.sample(samples, len(samples))
                key, sample = queue[-1]
                tokens += len(sample["input_ids"])
                tiles += len(sample["picks"])
                if tokens > TOKENS or tiles > TILES:
                    break
                group.append(key)
                queue.pop()
            groups.append(group)
        lines.append(json.dumps({"groups": groups}, separators=(",", ":")))
    return lines


def make_data():
    os.makedirs(f"{HERE}/data", exist_ok=True)
    digits = load_digits()
    rng = random.Random(20240501)
    order = rng.sample(range(len(digits.images)), len(digits.images))
    train = [(f"t{i:05d}", make_sample(rng, digits, order[:1437], SHIFT)) for i in range(TRAIN_SAMPLES)]
    heldout = [(f"h{i:05d}", make_sample(rng, digits, order[1437:], 0)) for i in range(HELDOUT_SAMPLES)]
    half = len(train) // 2
    write_tar(f"{HERE}/data/train-000000.tar", train[:half], digits)
    write_tar(f"{HERE}/data/train-000001.tar", train[half:], digits)
    write_tar(f"{HERE}/data/heldout-000000.tar", heldout, digits)
    with open(f"{HERE}/data/steps.jsonl", "w") as file:
        file.write("\n".join(make_steps(rng, train)) + "\n")


def make_model():
    """The configuration, from which export.py makes initial weights and graph."""
    os.makedirs(f"{HERE}/model", exist_ok=True)
    token = VOCABULARY["<image>"]
    vision = dict(model_type="internvl_vision", hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
                  intermediate_size=192, image_size=[TILE, TILE], patch_size=[7, 7], norm_type="rms_norm",
                  use_qk_norm=True, attention_bias=False, layer_scale_init_value=0.1)
    text = dict(model_type="qwen2", hidden_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                intermediate_size=256, vocab_size=64, max_position_embeddings=256, tie_word_embeddings=False,
                bos_token_id=VOCABULARY["<bos>"], eos_token_id=VOCABULARY["<eos>"], pad_token_id=VOCABULARY["<pad>"])
    config = dict(model_type="internvl", architectures=["InternVLForConditionalGeneration"], vision_config=vision,
                  text_config=text, image_token_id=token, image_seq_length=TOKENS_PER_TILE, downsample_ratio=0.5,
                  tie_word_embeddings=False)
    seed = f"{HERE}/model/seed-config.json"
    with open(seed, "w") as file:
        json.dump(config, file)
    subprocess.run([sys.executable, f"{HERE}/../../tools/python/export.py", seed, "--out", f"{HERE}/model",
                    "--seed", "1", "--init-std", "0.05"], check=True)
    os.remove(seed)
    with open(f"{HERE}/model/preprocessor_config.json", "w") as file:
        json.dump(dict(do_rescale=True, rescale_factor=1 / 255, do_normalize=True, image_mean=[0.5] * 3,
                       image_std=[0.5] * 3, size=dict(height=TILE, width=TILE)), file, indent=1)
    with open(f"{HERE}/model/vocab.json", "w") as file:
        json.dump(VOCABULARY, file, indent=0)


if __name__ == "__main__":
    make_data()
    make_model()
