"""Renames every module of an exported model at random, in the graph and in its checkpoint alike.

Every component of a dotted path (a module, a number of a list, a parameter) becomes another word, the same word
wherever it stands. Half of the words mislead: they are those that people call parts of such models by. Graph inputs
and outputs keep their names, tensors their order and bytes.

    python rename_modules.py FOLDER GRAPH RESULT_FOLDER --seed 1      # prints the new name of every tensor as JSON
"""
import argparse
import json
import os
import random
import shutil
import struct

import onnx

MISLEADING = ["vision", "visual", "vision_tower", "vision_model", "projector", "multi_modal_projector", "connector", "merger",
              "resampler", "language_model", "text_model", "lm_head"]
SCOPES = "pkg.torch.onnx.name_scopes"


class Renaming:
    """A random one-to-one map of path components."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.words = {}

    def component(self, old):
        if old and old not in self.words:
            number = len(self.words)
            word = self.rng.choice(MISLEADING) if self.rng.random() < 0.5 else "".join(
                self.rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(self.rng.randint(3, 9)))
            self.words[old] = f"{word}{number}"  # numbered: no two become one
        return self.words.get(old, old)

    def path(self, old):
        return ".".join(self.component(part) for part in old.split("."))


def rename_checkpoint(source, result, renaming):
    """The file with other tensor names; returns by how much the data moved, and the names."""
    with open(source, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    names = {name: renaming.path(name) for name in header if name != "__metadata__"}
    text = json.dumps({names.get(name, name): entry for name, entry in header.items()}).encode()
    text += b" " * (-len(text) % 8)
    with open(result, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return len(text) - size, names


def rename_graph(model, renaming, checkpoint, moved):
    """The graph with other names of modules, nodes and values, and its external data where it is now."""
    graph = model.graph
    kept = {value.name for value in list(graph.input) + list(graph.output)} | {""}
    parameters = {tensor.name for tensor in graph.initializer}
    values = {}

    def value(old):
        if old in kept:
            return old
        if old not in values:
            values[old] = renaming.path(old) if old in parameters else f"value_{len(values)}"
        return values[old]

    del graph.value_info[:]
    for node in graph.node:
        node.name = f"node_{renaming.rng.getrandbits(32):08x}"
        node.input[:] = [value(name) for name in node.input]
        node.output[:] = [value(name) for name in node.output]
        for entry in node.metadata_props:
            if entry.key == SCOPES:
                scopes = [text.strip("'\" ") for text in entry.value.strip("[]").split(", ")]
                renamed = [renaming.path(path) for path in scopes[:-1]] + [node.name]
                entry.value = "[" + ", ".join(f"'{path}'" for path in renamed) + "]"
    for tensor in graph.initializer:
        tensor.name = value(tensor.name)
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
        for entry in tensor.external_data:
            if entry.key == "offset" and location == checkpoint:
                entry.value = str(int(entry.value) + moved)


def rename(folder, graph, result, seed, checkpoint="model.safetensors"):
    """Writes RESULT/model.onnx and RESULT/model.safetensors; returns the new name of every tensor."""
    renaming = Renaming(seed)
    os.makedirs(result, exist_ok=True)
    moved, names = rename_checkpoint(os.path.join(folder, checkpoint), os.path.join(result, checkpoint), renaming)
    model = onnx.load(os.path.join(folder, graph), load_external_data=False)
    rename_graph(model, renaming, checkpoint, moved)
    onnx.save(model, os.path.join(result, "model.onnx"))
    # How pictures of any size are cut stands beside the graph.
    shutil.copy(os.path.join(folder, "config.json"), result)
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("graph")
    parser.add_argument("result")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(json.dumps(rename(args.folder, args.graph, args.result, args.seed), indent=1))


if __name__ == "__main__":
    main()
