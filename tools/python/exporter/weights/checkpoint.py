"""What lies where in a folder of safetensors, without reading values.

The folder may be a Hugging Face cache's snapshot (links into blobs/), one file or shards with an index.
"""
import json
import os
import struct

from exporter.errors import ExportError

FLOATS = ("F32", "BF16", "F16")
LONGEST_HEADER = 100 * 1000 * 1000


class Tensor:
    """One tensor of a safetensors file: where its bytes lie."""

    def __init__(self, name, file, dtype, shape, offset, length):
        self.name, self.file, self.dtype, self.shape = name, file, dtype, shape
        self.offset, self.length = offset, length


def files_of(folder):
    """Names of the safetensors files of a model folder."""
    single, index = (os.path.join(folder, name) for name in ("model.safetensors", "model.safetensors.index.json"))
    # Transformers looks for them in this order.
    if os.path.exists(single):
        return ["model.safetensors"]
    if not os.path.exists(index):
        raise ExportError(f"{folder}: neither model.safetensors nor model.safetensors.index.json is there")
    with open(index, encoding="utf-8") as file:
        try:
            return sorted(set(json.load(file)["weight_map"].values()))
        except (ValueError, KeyError, AttributeError):
            raise ExportError(f"{index}: no index of shards (no \"weight_map\")") from None


def read_header(path):
    """The JSON header and the position of the first tensor byte."""
    try:
        with open(path, "rb") as file:
            begin = file.read(8)
            length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else LONGEST_HEADER + 1
            if length > LONGEST_HEADER:
                raise ExportError(f"{path}: no safetensors file")
            return json.loads(file.read(length)), 8 + length
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ExportError(f"{path}: the header is no JSON; is the file complete?") from None


def read_headers(folder):
    """{name: Tensor} of all files of a model folder."""
    tensors = {}
    for name in files_of(folder):
        path = os.path.join(folder, name)
        header, base = read_header(path)
        size = os.path.getsize(path)
        for key, entry in header.items():
            if key == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            if base + end > size:
                raise ExportError(f"{path}: ends before the tensor {key}; was it copied or downloaded completely?")
            tensors[key] = Tensor(key, name, entry["dtype"], entry["shape"], base + begin, end - begin)
    return tensors


class Values:
    """Reads single tensors as float32 (or their integer type), one at a time."""

    def __init__(self, folder):
        self.folder, self.handles = folder, {}

    def __call__(self, tensor):
        """A torch tensor."""
        from safetensors import safe_open
        if tensor.file not in self.handles:
            self.handles[tensor.file] = safe_open(os.path.join(self.folder, tensor.file), "pt")
        value = self.handles[tensor.file].get_tensor(tensor.name)
        return value.float() if value.is_floating_point() else value
