#!/usr/bin/env python3
"""export.py: the graph's initializers lie inside the checkpoint under the checkpoint's names, tied ones once, and ONNX
Runtime computes PyTorch's logits (export.py checks that itself and fails otherwise)."""
import collections
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "test", "support", "python"))
import checkpoints

EXPORT = os.path.join(ROOT, "tools", "python", "export.py")


def header_of(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return 8 + length, json.loads(file.read(length))


class Export(unittest.TestCase):
    def export(self, source, *options):
        run = subprocess.run([sys.executable, EXPORT, source, *options], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("ONNX Runtime differs from PyTorch by", run.stdout)
        return run

    def check(self, folder, tied):
        base, header = header_of(f"{folder}/model.safetensors")
        where = {(base + e["data_offsets"][0], e["data_offsets"][1] - e["data_offsets"][0]): (name, e["shape"])
                 for name, e in header.items() if name != "__metadata__"}
        graph = onnx.load(f"{folder}/model.onnx", load_external_data=False).graph
        used = set()
        for tensor in graph.initializer:
            external = {e.key: e.value for e in tensor.external_data}
            if not external:
                self.assertFalse(tensor.name.endswith((".weight", ".bias")), f"{tensor.name} is inline")
                continue
            self.assertEqual(external["location"], "model.safetensors")
            name, shape = where[int(external["offset"]), int(external["length"])]
            self.assertEqual(list(tensor.dims), shape)
            # Both names end in the same module and parameter unless the matrix is tied.
            if "lm_head" not in tensor.name:
                self.assertEqual(tensor.name.split(".")[-2:], name.split(".")[-2:])
            self.assertNotIn(name, used)
            used.add(name)
        self.assertEqual(used, set(header) - {"__metadata__"})
        self.assertEqual(any("lm_head" in name for name in used), not tied)
        inputs = {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in graph.input}
        self.assertEqual(inputs, {"input_ids": ["batch", "sequence"], "attention_mask": ["batch", "sequence"],
                                  "pixel_values": ["images", 3, 28, 28]})

    def test_tied_model_from_a_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{ROOT}/examples/quickstart/model/config.json") as file:
                config = json.load(file)
            config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = True
            config["vision_config"]["num_hidden_layers"] = 1
            config["text_config"].update(num_hidden_layers=2, layer_types=["full_attention"] * 2, pad_token_id=3)
            with open(f"{folder}/config-in.json", "w") as file:
                json.dump(config, file)
            run = self.export(f"{folder}/config-in.json", "--out", f"{folder}/model", "--seed", "4")
            nodes = onnx.load(f"{folder}/model/model.onnx", load_external_data=False).graph.node
            padding = [(n.op_type, p.value) for n in nodes for p in n.metadata_props if p.key == "omnibal.padding_idx"]
            self.assertEqual(padding, [("Gather", "3")])
            self.check(f"{folder}/model", tied=True)

    def test_graph_alone_is_the_graph_of_a_model_with_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            config = f"{ROOT}/examples/quickstart/model/config.json"
            run = subprocess.run([sys.executable, EXPORT, config, "--out", folder, "--no-weights"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["config.json", "model.onnx", "omnibal.json"])
            alone = onnx.load(f"{folder}/model.onnx", load_external_data=False).graph
            full = onnx.load(f"{ROOT}/examples/quickstart/model/model.onnx", load_external_data=False).graph
            self.assertEqual(*(collections.Counter(n.op_type for n in g.node) for g in (alone, full)))
            shapes, values = ({t.name: (list(t.dims), bool(t.external_data)) for t in g.initializer} for g in (alone, full))
            self.assertEqual(shapes, values)
            inline = lambda graph: {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in graph.initializer if not t.external_data}
            self.assertEqual(inline(alone), inline(full))  # rotary frequencies and the like keep their values
            places = sorted((int(e["offset"]), int(e["length"])) for t in alone.initializer if t.external_data
                            for e in [{x.key: x.value for x in t.external_data}])
            for (begin, length), (following, _) in zip(places, places[1:]):
                self.assertEqual(begin + length, following)

    def external(self, path):
        """{initializer: (location, offset, length, shape)} of the parameters."""
        return {t.name: (e["location"], int(e["offset"]), int(e["length"]), list(t.dims))
                for t in onnx.load(path, load_external_data=False).graph.initializer if t.external_data
                for e in [{x.key: x.value for x in t.external_data}]}

    def places(self, folder):
        """The same of all tensors of a checkpoint, by its own headers."""
        result = {}
        for file in sorted(os.listdir(folder)):
            if file.endswith(".safetensors"):
                base, header = header_of(f"{folder}/{file}")
                result.update({n: (file, base + e["data_offsets"][0], e["data_offsets"][1] - e["data_offsets"][0], e["shape"])
                               for n, e in header.items() if n != "__metadata__"})
        return result

    def test_narrow_shards_in_the_cache_stay_as_they_are(self):
        import torch
        source = f"{ROOT}/examples/quickstart/model"
        for dtype, options in ((torch.bfloat16, ["--opset", "23"]), (torch.float16, [])):
            with tempfile.TemporaryDirectory() as folder:
                checkpoints.retype(source, f"{folder}/plain", dtype, shards=3)
                snapshot = checkpoints.cache_layout(f"{folder}/plain", f"{folder}/hub")
                before = {name: os.readlink(f"{snapshot}/{name}") for name in os.listdir(snapshot)}
                run = self.export(snapshot, *options)
                self.assertIn({torch.bfloat16: "BF16", torch.float16: "F16"}[dtype], run.stdout)
                self.assertEqual(set(os.listdir(snapshot)), set(before) | {"model.onnx", "omnibal.json"})
                for name, link in before.items():
                    self.assertEqual(os.readlink(f"{snapshot}/{name}"), link)
                places = self.places(snapshot)
                self.assertEqual(self.external(f"{snapshot}/model.onnx"), places)
                for _, _, length, shape in places.values():
                    self.assertEqual(length, 2 * math.prod(shape))
                graph = onnx.load(f"{snapshot}/model.onnx", load_external_data=False).graph
                self.assertEqual({t.data_type for t in graph.initializer if t.external_data}, {onnx.TensorProto.FLOAT})

    def test_graph_in_another_folder_leaves_the_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            source = f"{ROOT}/examples/quickstart/model"
            run = self.export(source, "--out", f"{folder}/graph")
            self.assertIn(f"--weights {source}", run.stdout)
            self.assertFalse([n for n in os.listdir(f"{folder}/graph") if "safetensors" in n])
            self.assertIn("preprocessor_config.json", os.listdir(f"{folder}/graph"))
            self.assertEqual(self.external(f"{folder}/graph/model.onnx"), self.places(source))

    def test_damaged_checkpoints_are_errors(self):
        import torch
        with tempfile.TemporaryDirectory() as folder:
            checkpoints.retype(f"{ROOT}/examples/quickstart/model", f"{folder}/m", torch.bfloat16, shards=2)
            shard = f"{folder}/m/model-00002-of-00002.safetensors"
            with open(shard, "rb") as file:
                data = file.read()
            base, header = header_of(shard)

            def damaged(content, message):
                with open(shard, "wb") as file:
                    file.write(content)
                run = subprocess.run([sys.executable, EXPORT, f"{folder}/m"], capture_output=True, text=True)
                self.assertEqual(run.returncode, 1, run.stdout)
                self.assertIn(message, run.stderr)
                self.assertNotIn("Traceback", run.stderr)
            damaged(data[:-2], "ends before the tensor")
            damaged(data[:5], "no safetensors file")
            name = next(n for n, e in header.items() if len(e.get("shape", [])) == 2)
            text = json.dumps({**{n: e for n, e in header.items() if n != name}, "another.name": header[name]}).encode()
            damaged(struct.pack("<Q", len(text)) + text + data[base:], "no tensor of the checkpoint is the parameter")
            text = json.dumps({**header, name: {**header[name], "shape": header[name]["shape"][::-1] + [1]}}).encode()
            damaged(struct.pack("<Q", len(text)) + text + data[base:], "of one model?")


if __name__ == "__main__":
    unittest.main()
