#!/usr/bin/env python3
"""export.py: the graph's initialisers lie inside the checkpoint under the checkpoint's names, tied ones once, and ONNX
Runtime computes PyTorch's logits (export.py checks that itself and fails otherwise)."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
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
            config["text_config"].update(num_hidden_layers=2, layer_types=["full_attention"] * 2)
            with open(f"{folder}/config-in.json", "w") as file:
                json.dump(config, file)
            self.export(f"{folder}/config-in.json", "--out", f"{folder}/model", "--seed", "4")
            self.check(f"{folder}/model", tied=True)

    def test_graph_alone_is_the_graph_of_a_model_with_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            config = f"{ROOT}/examples/quickstart/model/config.json"
            run = subprocess.run([sys.executable, EXPORT, config, "--out", folder, "--no-weights"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(os.listdir(folder), ["model.onnx"])
            alone = onnx.load(f"{folder}/model.onnx", load_external_data=False).graph
            full = onnx.load(f"{ROOT}/examples/quickstart/model/model.onnx", load_external_data=False).graph
            self.assertEqual([(n.op_type, n.input, n.output) for n in alone.node], [(n.op_type, n.input, n.output) for n in full.node])
            shapes, values = ({t.name: (list(t.dims), bool(t.external_data)) for t in g.initializer} for g in (alone, full))
            self.assertEqual(shapes, values)
            inline = lambda graph: {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in graph.initializer if not t.external_data}
            self.assertEqual(inline(alone), inline(full))  # rotary frequencies and the like keep their values
            places = sorted((int(e["offset"]), int(e["length"])) for t in alone.initializer if t.external_data
                            for e in [{x.key: x.value for x in t.external_data}])
            for (begin, length), (following, _) in zip(places, places[1:]):
                self.assertEqual(begin + length, following)

    def test_bfloat16_folder_gets_a_float32_copy(self):
        import torch
        from safetensors.torch import load_file, save_file
        with tempfile.TemporaryDirectory() as folder:
            source = f"{ROOT}/examples/quickstart/model"
            state = load_file(f"{source}/model.safetensors")
            save_file({k: v.bfloat16() for k, v in state.items()}, f"{folder}/model.safetensors",
                      metadata={"format": "pt"})
            with open(f"{source}/config.json") as a, open(f"{folder}/config.json", "w") as b:
                b.write(a.read())
            refused = subprocess.run([sys.executable, EXPORT, folder], capture_output=True, text=True)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--out", refused.stderr)
            self.export(folder, "--out", f"{folder}/copy", "--opset", "23")
            self.check(f"{folder}/copy", tied=False)
            copy = load_file(f"{folder}/copy/model.safetensors")
            self.assertEqual(set(copy), set(state))
            for name, value in copy.items():
                self.assertTrue(torch.equal(value, state[name].bfloat16().float()), name)


if __name__ == "__main__":
    unittest.main()
