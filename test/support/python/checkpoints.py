"""Checkpoints for tests: other types, shards, the layout of the Hugging Face cache."""
import hashlib
import json
import os
import struct


def retype(source, target, dtype, shards=1):
    """The float tensors of a model folder in another type, in so many files, without Transformers."""
    from safetensors.torch import load_file, save_file
    os.makedirs(target, exist_ok=True)
    state = {k: v.to(dtype) if v.is_floating_point() else v
             for k, v in load_file(f"{source}/model.safetensors").items()}
    names = sorted(state)
    parts = [names[i::shards] for i in range(shards)]
    files = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)] if shards > 1 else ["model.safetensors"]
    for file, part in zip(files, parts):
        save_file({k: state[k] for k in part}, f"{target}/{file}", metadata={"format": "pt"})
    if shards > 1:
        with open(f"{target}/model.safetensors.index.json", "w") as file:
            json.dump({"metadata": {"total_size": sum(v.nbytes for v in state.values())},
                       "weight_map": {k: f for f, part in zip(files, parts) for k in part}}, file)
    for name in os.listdir(source):
        if name.endswith(".json") and not name.startswith("model.safetensors") and name != "reference.json":
            with open(f"{source}/{name}") as a, open(f"{target}/{name}", "w") as b:
                b.write(a.read())
    return state


def cache_layout(source, cache, repository="someone--small-model"):
    """The folder as the Hugging Face cache holds it: blobs named by content, a snapshot of links. Returns the snapshot."""
    root = os.path.join(cache, f"models--{repository}")
    snapshot = os.path.join(root, "snapshots", "0123456789abcdef0123456789abcdef01234567")
    os.makedirs(os.path.join(root, "blobs"))
    os.makedirs(snapshot)
    for name in os.listdir(source):
        with open(os.path.join(source, name), "rb") as file:
            data = file.read()
        blob = hashlib.sha256(data).hexdigest()
        with open(os.path.join(root, "blobs", blob), "wb") as file:
            file.write(data)
        os.symlink(os.path.join("..", "..", "blobs", blob), os.path.join(snapshot, name))
    return snapshot


def header_only(folder, shapes, dtype="BF16", per_file=200):
    """A checkpoint of tensors of these shapes whose bytes are holes of sparse files."""
    names = sorted(shapes)
    parts = [names[i:i + per_file] for i in range(0, len(names), per_file)]
    weight_map = {}
    for number, part in enumerate(parts):
        file = f"model-{number + 1:05d}-of-{len(parts):05d}.safetensors"
        header, offset = {}, 0
        for name in part:
            size = 2
            for extent in shapes[name]:
                size *= extent
            header[name] = {"dtype": dtype, "shape": list(shapes[name]), "data_offsets": [offset, offset + size]}
            offset += size
            weight_map[name] = file
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, file), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            out.truncate(8 + len(text) + offset)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as out:
        json.dump({"metadata": {}, "weight_map": weight_map}, out)
