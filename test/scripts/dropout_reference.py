#!/usr/bin/env python3
"""Writes model-dropout.onnx and dropout.json beside a model's reference.json: a graph whose model has dropout of its own, and
ten steps of it by PyTorch.

    dropout_reference.py test/data/tiny-internvl

The vision tower has the dropout of its own code, of embeddings and projections too; all other places get some after a module.
export.py writes the graph of that model. For the steps the same places get the numbers of random_bits.py in place of
PyTorch's generator.
"""
import json
import os
import shutil
import sys
import tempfile
from unittest import mock

from random_reference import EMBEDDING, PROJECTOR, TEXT_BLOCKS, VISION_BLOCKS, Dropout, Random  # first, as it says there
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools", "python"))
import export  # noqa: E402
from exporter import model as models  # noqa: E402

PICTURES, PROJECTIONS, FEATURES, WORDS, TEXT, LAST = 0.1, 0.2, 0.15, 0.05, 0.1, 0.3  # what is dropped where


def after(module, drop):
    module.register_forward_hook(lambda module, inputs, result: drop(result))


def put_into(model, make):
    """Dropout by make(rate, layer, stream, of_tiles), whose layers and streams are those of omnibal-compile."""
    tower, text = model.model.vision_tower, model.model.language_model
    tower.embeddings.dropout = make(PICTURES, VISION_BLOCKS - 1, 0, True)
    for layer, block in enumerate(tower.encoder.layer, VISION_BLOCKS):
        block.attention.projection_dropout = make(PROJECTIONS, layer, 0, True)
        block.dropout = make(PICTURES, layer, 1, True)
    after(model.model.multi_modal_projector.linear_2, make(FEATURES, PROJECTOR, 0, True))
    after(text.embed_tokens, make(WORDS, EMBEDDING, 0, False))
    for layer, block in enumerate(text.layers, TEXT_BLOCKS):
        after(block.self_attn.o_proj, make(TEXT, layer, 0, False))
        after(block.mlp.down_proj, make(TEXT, layer, 1, False))
    after(text.norm, make(LAST, TEXT_BLOCKS + len(text.layers), 0, False))


def write_graph(folder):
    plain = models.without_weights

    def with_dropout(config):
        model = plain(config)
        put_into(model, lambda rate, *where: torch.nn.Dropout(rate).eval())
        return model
    with tempfile.TemporaryDirectory() as work, mock.patch.object(models, "without_weights", with_dropout):
        export.export_model(folder, work)
        shutil.copyfile(f"{work}/model.onnx", f"{folder}/model-dropout.onnx")


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    write_graph(folder)
    model = Random(folder, False, False)
    put_into(model.model, lambda rate, layer, stream, of_tiles: Dropout(model.place, layer, stream, of_tiles, rate))
    with open(f"{folder}/dropout.json", "w", encoding="utf-8") as file:
        json.dump(model.described([]), file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
