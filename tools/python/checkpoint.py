"""Finds, for every parameter of a model in memory, the tensor of its checkpoint on disk.

The names in a checkpoint and those in memory differ for several families, and by version. The values decide; where
several tensors are equal (fresh norm weights are all ones) the names' endings do.
"""
import json
import os
import struct


class Tensor:
    """One tensor of a safetensors file: where its bytes lie."""

    def __init__(self, name, file, dtype, shape, offset, length):
        self.name, self.file, self.dtype, self.shape = name, file, dtype, shape
        self.offset, self.length = offset, length


def read_headers(folder):
    """{name: Tensor} of a folder with model.safetensors, or with shards and an index."""
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index) as file:
            files = sorted(set(json.load(file)["weight_map"].values()))
    elif os.path.exists(os.path.join(folder, "model.safetensors")):
        files = ["model.safetensors"]
    else:
        raise SystemExit(f"{folder}: neither model.safetensors nor model.safetensors.index.json is there")
    tensors = {}
    for name in files:
        with open(os.path.join(folder, name), "rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(length))
        for key, entry in header.items():
            if key != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[key] = Tensor(key, name, entry["dtype"], entry["shape"], 8 + length + begin, end - begin)
    return tensors


def common_ending(a, b):
    """Number of dotted name parts that agree, from the end."""
    count = 0
    for x, y in zip(reversed(a.split(".")), reversed(b.split("."))):
        if x != y:
            break
        count += 1
    return count


def match(folder, tensors, parameters):
    """{name in memory: Tensor}. `parameters` holds each distinct tensor once (a tied one under one of its names)."""
    import torch
    from safetensors import safe_open
    handles = {t.file: safe_open(os.path.join(folder, t.file), "pt") for t in tensors.values()}
    by_shape = {}
    for tensor in tensors.values():
        by_shape.setdefault(tuple(tensor.shape), []).append(tensor)
    found, taken = {}, {}
    # Longest possible agreement of names first, so that equal values go to the right place.
    for name, value in parameters.items():
        candidates = sorted(by_shape.get(tuple(value.shape), []),
                            key=lambda t: (-common_ending(name, t.name), t.name))
        for tensor in candidates:
            if torch.equal(handles[tensor.file].get_tensor(tensor.name).to(value.dtype), value.detach().cpu()):
                found[name] = tensor
                break
        else:
            raise SystemExit(f"{folder}: no tensor of the checkpoint holds the value of the parameter {name} "
                             f"{list(value.shape)}; was the checkpoint saved by save_pretrained?")
        other = taken.setdefault(found[name].name, name)
        if other != name:
            raise SystemExit(f"{folder}: the parameters {other} and {name} have equal values and names too unlike the "
                             f"checkpoint's ({found[name].name}) to tell them apart")
    return found
