#!/usr/bin/env python3
"""Parameters made from a checkpoint's tensors: whatever Transformers' loader does on loading (parts, joins, stacks,
transposes), the recorded steps do to the same tensors, in PyTorch and in ONNX Runtime."""
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))

import numpy as np
import onnx_ir
import onnxruntime
import torch
from exporter import graph, model as models
from exporter.weights import checkpoint, conversion, joining
from exporter.errors import ExportError
from exporter.small_models import small_model


def saved(family, folder):
    model = small_model(family)
    model.save_pretrained(folder)
    return model, checkpoint.read_headers(folder)


class Conversion(unittest.TestCase):
    def check(self, family, *kinds):
        with tempfile.TemporaryDirectory() as folder:
            model, tensors = saved(family, folder)
            bare = models.without_weights(models.read_config(folder))
            found = joining.match(bare, folder, tensors)
            self.assertEqual(set(found) - {n for n, _ in model.named_buffers()}, set(models.distinct_parameters(model)))
            values, made = checkpoint.Values(folder), {}
            for name, parameter in models.distinct_parameters(model).items():
                self.assertTrue(torch.equal(joining.value_of(found[name], values), parameter), name)
                if isinstance(found[name], conversion.Step):
                    made[name] = found[name]
            self.assertTrue(made, "the checkpoint holds every parameter as it is, so nothing was tested")
            self.assertLessEqual(set(kinds), {kind for step in made.values() for kind in self.kinds(step)})
            self.in_onnx_runtime(folder, made, {n: p.detach().numpy() for n, p in model.named_parameters()}, tensors, values)

    def kinds(self, origin):
        if isinstance(origin, checkpoint.Tensor):
            return []
        return [origin.kind, *(kind for part in origin.inputs for kind in self.kinds(part))]

    def in_onnx_runtime(self, folder, made, wanted, tensors, values):
        """The nodes that the graph gets compute the parameters too."""
        ir = onnx_ir.Model(onnx_ir.Graph([], [], nodes=[], opset_imports={"": 18}), ir_version=10)
        pointer = graph.Pointer(ir, folder)
        names = list(made)
        ir.graph.outputs.extend(pointer.value(made[name]) for name in names)
        ir.graph.extend(pointer.nodes)
        for name, value in pointer.initializers.items():
            ir.graph.initializers[name] = value
        proto = graph.with_weights_as_inputs(onnx_ir.serde.serialize_model(ir))
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        feed = {name: values(tensors[name]).numpy() for name in pointer.initializers}
        for name, value in zip(names, session.run(None, feed)):
            np.testing.assert_array_equal(value, wanted[name], name)

    def test_stacked_experts(self):
        self.check("mixtral", "Concat", "Reshape")

    def test_every_operation(self):
        real = {"a": torch.randn(4, 6, 2), "b": torch.randn(4, 6, 2)}
        functions = [
            lambda a, b: a.transpose(-1, 0), lambda a, b: a.permute(2, 0, 1), lambda a, b: a[0].t(),
            lambda a, b: a.select(1, -2), lambda a, b: a[:, 1:-1], lambda a, b: torch.chunk(a, 3, dim=1)[1].contiguous(),
            lambda a, b: torch.split(a, [1, 3], dim=0)[1], lambda a, b: torch.cat([a, b], dim=-1),
            lambda a, b: torch.stack([a, b], dim=1), lambda a, b: a.reshape(4, 3, 2, 2).transpose(1, 2).reshape(4, 6, 2).squeeze(),
            lambda a, b: torch.unbind(b, 0)[2].unsqueeze(0).to(torch.float32)]
        for number, function in enumerate(functions):
            recorder = conversion.recorder_class()()
            with recorder:
                inputs = []
                for name, value in real.items():
                    inputs.append(torch.empty(value.shape, device="meta"))
                    recorder.know(inputs[-1], checkpoint.Tensor(name, "", "F32", list(value.shape), 0, 0))
                made = function(*inputs)
            got = joining.value_of(recorder.origin[id(made)], lambda tensor: real[tensor.name])
            self.assertTrue(torch.equal(got, function(*real.values())), f"function {number}")
        recorder = conversion.recorder_class()()
        with self.assertRaisesRegex(ExportError, "does not know"), recorder:
            value = torch.empty(4, device="meta")
            recorder.know(value, checkpoint.Tensor("a", "", "F32", [4], 0, 0))
            value + 1

    def test_parts_of_a_fused_projection(self):
        self.check("qianfan_ocr", "Slice")

    def test_a_tied_matrix_stored_twice_must_hold_one_value(self):
        from safetensors.torch import load_file, save_file
        with tempfile.TemporaryDirectory() as folder:
            _, tensors = saved("gemma3", folder)
            state = load_file(f"{folder}/model.safetensors")
            embedding = next(name for name in state if name.endswith("embed_tokens.weight"))
            head = embedding.replace("model.embed_tokens", "lm_head")
            bare = models.without_weights(models.read_config(folder))
            for change, fails in ((0.0, False), (1.0, True)):
                save_file({**state, head: state[embedding] + change}, f"{folder}/model.safetensors", metadata={"format": "pt"})
                tensors = checkpoint.read_headers(folder)
                if fails:
                    with self.assertRaisesRegex(ExportError, "tie_word_embeddings"):
                        joining.match(bare, folder, tensors)
                else:
                    joining.match(bare, folder, tensors)


if __name__ == "__main__":
    unittest.main()
