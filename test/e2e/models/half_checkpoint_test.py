#!/usr/bin/env python3
"""Checkpoints as they are published: bfloat16 and float16, in shards, as snapshots of the Hugging Face cache.

    half_checkpoint_test.py BIN_FOLDER DATA_FOLDER [unittest options]

A training that starts from them is compared with one that starts from the same numbers in float32, which it must equal bit
by bit, and their saved folders with each other; NumPy does the conversions on this side.
"""
import filecmp
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import graph_file

BIN, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "tiny-internvl")
COMPANIONS = ("config.json", "preprocessor_config.json", "vocab.json")
BYTES = {"BF16": 2, "F16": 2, "F32": 4}


def call(tool, *arguments, check=True):
    command = [os.path.join(BIN, tool), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if check and result.returncode != 0:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result


def to_bfloat16(values):
    """Upper halves of float32, to nearest even."""
    word = values.astype(np.float32).view(np.uint32)
    return ((word + 0x7fff + (word >> 16 & 1)) >> 16).astype(np.uint16)


def encode(values, dtype):
    return {"F32": lambda: values.astype(np.float32), "BF16": lambda: to_bfloat16(values),
            "F16": lambda: values.astype(np.float16)}[dtype]().tobytes()


def decode(data, dtype):
    if dtype == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[dtype]).astype(np.float32)


def write_safetensors(path, tensors):
    """`tensors`: name -> (dtype, shape, bytes). Returns where each one lies."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)
    return {name: (8 + len(text) + e["data_offsets"][0], e["data_offsets"][1] - e["data_offsets"][0])
            for name, e in header.items()}


def read_safetensors(path):
    """name -> (dtype, shape, bytes), and where each lies."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors, places = {}, {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = entry["dtype"], entry["shape"], data[begin:end]
        places[begin] = name
    return tensors, places


def read_folder(folder):
    """All tensors of a folder with one file or an index."""
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read_safetensors(os.path.join(folder, "model.safetensors"))[0]
    with open(index) as file:
        names = json.load(file)["weight_map"]
    files = {part: read_safetensors(os.path.join(folder, part))[0] for part in set(names.values())}
    if sorted(names) != sorted(name for tensors in files.values() for name in tensors):
        raise AssertionError("the index and the shards do not list the same tensors")
    return {name: files[part][name] for name, part in names.items()}


class Cache:
    """models--org--name/{blobs,refs,snapshots/REVISION}; every file of the snapshot is a link into blobs."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "models--org--name")
        self.snapshot = os.path.join(self.root, "snapshots", "0123abcd")
        for part in ("blobs", "refs", "snapshots/0123abcd"):
            os.makedirs(os.path.join(self.root, part))
        with open(os.path.join(self.root, "refs/main"), "w") as file:
            file.write("0123abcd")
        self.count = 0

    def blob(self, name):
        """A new blob under this name of the snapshot; returns the blob's path."""
        self.count += 1
        blob = f"{self.count:040x}"
        os.symlink(f"../../blobs/{blob}", os.path.join(self.snapshot, name))
        return os.path.join(self.root, "blobs", blob)

    def weights(self, tensors, shards):
        """Returns name -> (file, offset, length)."""
        names, places, index = sorted(tensors), {}, {}
        for s in range(shards):
            part = names[len(names) * s // shards:len(names) * (s + 1) // shards]
            file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
            for name, (offset, length) in write_safetensors(self.blob(file), {n: tensors[n] for n in part}).items():
                places[name] = file, offset, length
                index[name] = file
        with open(self.blob("model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {}, "weight_map": index}, file)
        return places


class HalfTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-e2e-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def publish(self, dtype, name="hub", alternative=None):
        """The test model as somebody published it. Every third tensor has the type `alternative`."""
        tensors, self.names = read_safetensors(os.path.join(MODEL, "model.safetensors"))
        half = {}
        for i, (key, (_, shape, data)) in enumerate(sorted(tensors.items())):
            chosen = alternative if alternative and i % 3 == 0 else dtype
            half[key] = chosen, shape, encode(decode(data, "F32"), chosen)
        half["not.in.the.graph"] = dtype, [3], encode(np.array([1, -2, 3e-5]), dtype)
        half["integers"] = "I64", [1], struct.pack("<q", 1 << 40)
        os.makedirs(self.path(name))
        cache = Cache(self.path(name))
        places = cache.weights(half, 3)
        for companion in COMPANIONS:
            shutil.copyfile(os.path.join(MODEL, companion), cache.blob(companion))
        self.graph(cache.snapshot, lambda _, old: places[self.names[int(old["offset"])]])
        return cache, half

    def graph(self, folder, place):
        with open(os.path.join(MODEL, "model.onnx"), "rb") as file:
            model = file.read()
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(graph_file.point(model, place))

    def upcast(self, tensors):
        """The same numbers in one float32 file, with a graph of its own."""
        folder = self.path("upcast")
        os.makedirs(folder)
        places = write_safetensors(os.path.join(folder, "model.safetensors"), {
            name: ("F32", shape, encode(decode(data, dtype), "F32")) if dtype in BYTES else (dtype, shape, data)
            for name, (dtype, shape, data) in tensors.items()})
        self.graph(folder, lambda _, old: ("model.safetensors", *places[self.names[int(old["offset"])]]))
        for companion in COMPANIONS:
            shutil.copyfile(os.path.join(MODEL, companion), os.path.join(folder, companion))
        return folder

    def compile(self, folder, name, *flags):
        call("omnibal-compile", os.path.join(folder, "model.onnx"), "--tiles", 32, "--tokens", 768, "--stages", 2,
             "--microbatches", 4, *flags, "-o", self.path(name))
        return self.path(name)

    def run_tool(self, program, weights, *flags, check=True):
        with open(os.path.join(MODEL, "reference.json")) as file:
            steps = json.load(file)["variants"]["train_all"]["steps"][:3]
        with open(self.path("steps.jsonl"), "w") as file:
            file.writelines(json.dumps({"groups": step["groups"]}) + "\n" for step in steps)
        data = ("--data", f"{MODEL}/data-000000.tar", "--preprocess", f"{MODEL}/preprocessor_config.json")
        log = self.path("run.jsonl")
        training = () if "--evaluate" in flags else ("--steps-file", self.path("steps.jsonl"), "--lr", "1e-3")
        result = call("omnibal-run", program, "--weights", weights, *data, *training, "--log", log, *flags, check=check)
        if not check:
            return result
        with open(log) as file:
            return [[line.get(key) for key in ("loss", "gradient_norm")] for line in map(json.loads, file)]


class Training(HalfTest):
    def check(self, dtype, alternative=None):
        cache, source = self.publish(dtype, alternative=alternative)
        upcast = self.upcast(source)
        half = self.compile(cache.snapshot, "half", "--freeze", "vision")
        full = self.compile(upcast, "full", "--freeze", "vision")
        self.assertEqual(filecmp.cmpfiles(half, full, ("functions.json", "stages.json"), shallow=False)[0],
                         ["functions.json", "stages.json"])
        losses = self.run_tool(half, cache.snapshot, "--save", self.path("saved"))
        self.assertEqual(losses, self.run_tool(full, upcast, "--save", self.path("saved-full")))
        self.assertEqual(len(losses), 3)
        self.assertNotEqual(losses[0], losses[2])

        saved, exact = read_folder(self.path("saved")), read_folder(self.path("saved-full"))
        self.assertEqual(sorted(saved), sorted(source))
        changed = 0
        for name, (kind, shape, data) in source.items():
            self.assertEqual(saved[name][:2], (kind, shape))
            if kind in BYTES and encode(decode(exact[name][2], "F32"), kind) != data:
                changed += 1
            elif kind not in BYTES:
                self.assertEqual(exact[name][2], data)
            self.assertEqual(saved[name][2], encode(decode(exact[name][2], "F32"), kind) if kind in BYTES else data, name)
            if "vision_tower" in name or kind not in BYTES or name == "not.in.the.graph":
                self.assertEqual(saved[name][2], data, name)
        self.assertGreater(changed, 50, "training changed too little to tell")
        for companion in COMPANIONS:
            self.assertTrue(filecmp.cmp(os.path.join(MODEL, companion), self.path("saved/" + companion), shallow=False))
            self.assertFalse(os.path.islink(self.path("saved/" + companion)))

        self.run_tool(half, cache.snapshot, "--save", self.path("saved-float32"), "--save-dtype", "float32")
        self.assertTrue(filecmp.cmp(self.path("saved-float32/model.safetensors"),
                                    self.path("saved-full/model.safetensors"), shallow=False))
        return cache, half

    def test_bfloat16(self):
        cache, program = self.check("BF16")
        with open(os.path.join(MODEL, "config.json")) as file:
            self.assertNotIn("bfloat16", file.read())  # the copy in float32 names what it holds
        self.run_tool(program, cache.snapshot, "--save", self.path("sharded"), "--shard-bytes", 100000)
        self.assertEqual(read_folder(self.path("sharded")), read_folder(self.path("saved")))
        parts = [name for name in os.listdir(self.path("sharded")) if re.match(r"model-\d+-of-0000\d", name)]
        self.assertGreater(len(parts), 5)
        self.assertLess(max(os.path.getsize(self.path(f"sharded/{part}")) for part in parts), 110000)
        self.assertEqual(self.run_tool(program, self.path("sharded"), "--evaluate"),
                         self.run_tool(program, self.path("saved"), "--evaluate"))

    def test_float16_and_others(self):
        self.check("F16", alternative="F32")

    def test_a_graph_apart_from_its_checkpoint(self):
        cache, _ = self.publish("BF16")
        program = self.compile(cache.snapshot, "beside")
        os.makedirs(self.path("apart"))
        shutil.move(os.path.join(cache.snapshot, "model.onnx"), self.path("apart/model.onnx"))
        self.compile(self.path("apart"), "program", "--weights", cache.snapshot)
        self.assertEqual(filecmp.cmpfiles(program, self.path("program"), ("functions.json", "stages.json", "manifest.json"),
                                          shallow=False)[1], [])


class Folders(HalfTest):
    def test_links_out_of_the_cache_are_refused(self):
        cache, _ = self.publish("BF16")
        program = self.compile(cache.snapshot, "program")
        part = os.path.join(cache.snapshot, "model-00002-of-00003.safetensors")
        blob = os.path.realpath(part)
        shutil.move(blob, self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), blob)
        compiled = call("omnibal-compile", os.path.join(cache.snapshot, "model.onnx"), "--tiles", 4, "--tokens", 64,
                        "--dry-run", check=False)
        ran = self.run_tool(program, cache.snapshot, check=False)
        for result in (compiled, ran):
            self.assertEqual(result.returncode, 1)
            errors = [line for line in result.stderr.splitlines() if "error" in line]
            self.assertEqual(len(errors), 1, result.stderr)
            self.assertRegex(errors[0], "model-00002-of-00003.safetensors.* leads to .*elsewhere.*, outside the model's cache")
        self.run_tool(program, cache.snapshot, "--allow-links-within", self.work)

    def test_the_source_is_not_replaced_unasked(self):
        cache, source = self.publish("BF16")
        program = self.compile(cache.snapshot, "program")
        os.symlink(cache.snapshot, self.path("same"))
        for weights in (cache.snapshot, self.path("same"), os.path.join(cache.snapshot, "model.safetensors.index.json")):
            result = self.run_tool(program, weights, "--save", cache.snapshot, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, "is the folder of --weights.*--overwrite")
        self.assertEqual(read_folder(cache.snapshot), source)
        self.run_tool(program, cache.snapshot, "--save", self.path("saved"))
        self.run_tool(program, cache.snapshot, "--save", cache.snapshot, "--overwrite")
        self.assertEqual(read_folder(cache.snapshot), read_folder(self.path("saved")))
        left = sorted(name for name in os.listdir(cache.snapshot) if "safetensors" in name)
        self.assertEqual(left, ["model.safetensors"])


class Memory(HalfTest):
    VOCABULARY = 200_000_000

    def publish_headers(self):
        """A model of 26 billion parameters, nearly all in two tensors, whose files end after the header but for holes."""
        tensors, names = read_safetensors(os.path.join(MODEL, "model.safetensors"))
        with open(os.path.join(MODEL, "model.onnx"), "rb") as file:
            model = file.read()
        wide = [name for name, entries in graph_file.initializers(model)
                if tensors[names[int(entries["offset"])]][1][0] == 128]
        self.assertEqual(len(wide), 2)
        cache = Cache(self.work)
        shapes, places, index = {}, {}, {}
        for i, (name, (_, shape, _)) in enumerate(sorted(tensors.items())):
            shapes[name] = [self.VOCABULARY, *shape[1:]] if shape[0] == 128 else shape
        parts = [[n for n in shapes if shapes[n][0] != self.VOCABULARY]]
        parts += [[n] for n in shapes if shapes[n][0] == self.VOCABULARY]
        total = 0
        for s, part in enumerate(parts):
            header, at = {}, 0
            for name in part:
                length = 2 * int(np.prod(shapes[name], dtype=np.int64))
                header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [at, at + length]}
                at += length
            text = json.dumps(header).encode()
            file = f"model-{s + 1:05}-of-{len(parts):05}.safetensors"
            blob = cache.blob(file)
            with open(blob, "wb") as out:
                out.write(struct.pack("<Q", len(text)) + text)
                out.truncate(8 + len(text) + at)
            self.assertLess(512 * os.stat(blob).st_blocks, 1 << 20, "the file system keeps no holes")
            total += at
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                places[name] = file, 8 + len(text) + begin, end - begin
                index[name] = file
        with open(cache.blob("model.safetensors.index.json"), "w") as out:
            json.dump({"weight_map": index}, out)
        self.assertGreater(total, 2 * 25_000_000_000)
        model = graph_file.point(model, lambda _, old: places[names[int(old["offset"])]])
        model = graph_file.reshape(model, {name: [self.VOCABULARY, 64] for name in wide}, 128, self.VOCABULARY)
        with open(os.path.join(cache.snapshot, "model.onnx"), "wb") as out:
            out.write(model)
        return cache

    def peak(self, *arguments):
        """Bytes of the largest resident set of a run, the pages of mapped files included."""
        command = [os.path.join(BIN, "omnibal-compile"), *map(str, arguments)]
        with open(self.path("output"), "w+") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            self.assertEqual(process.returncode, 0, output.read())
        return 1024 * usage.ru_maxrss

    def test_values_are_not_read(self):
        cache = self.publish_headers()
        graph = os.path.join(cache.snapshot, "model.onnx")
        caps = "--tiles", 4, "--tokens", 64, "--stages", 2
        small = self.peak(os.path.join(MODEL, "model.onnx"), *caps, "-o", self.path("small"))
        for flags in (("--dry-run",), ("-o", self.path("program")),
                      ("--weights", cache.snapshot, "-o", self.path("again"))):
            peak = self.peak(graph, *caps, *flags)
            print(f"{' '.join(flags[:1])}: {peak >> 20} MB, the small model {small >> 20} MB")
            self.assertLess(peak, small + (64 << 20), flags)
            self.assertLess(peak, 4 << 30)
        self.assertEqual(filecmp.cmpfiles(self.path("program"), self.path("again"), ("manifest.json", "stages.json"),
                                          shallow=False)[1], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
