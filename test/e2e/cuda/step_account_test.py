#!/usr/bin/env python3
"""test/gpu/step_account.py and step_measured.py on a program made by hand, against counts by hand: step_account_test.py"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

GPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu")
sys.path.insert(0, GPU)
import step_account  # noqa: E402
import step_measured  # noqa: E402

N, V = [0, 0, 1], [0, 1, 0]


def buffer(dtype):
    return {"name": "b", "role": "temporary", "dtype": dtype, "shape": [N]}


def call(kernel, attributes, **operands):
    return {"kernel": kernel, "attributes": attributes, "label": "node", "operands": [[name, view] for name, view in operands.items()]}


def view(number, shape, strides):
    return [number, 0, shape, strides]


BF16, F32, I32 = 0, 1, 2
FORWARD = [
    call("gemm", {}, a=view(BF16, [N, 32], [32, 1]), b=view(BF16, [32, 64], [1, 32]), c=view(BF16, [N, 64], [64, 1]),
         bias=view(BF16, [64], [1])),
    call("fused", {}, in0=view(BF16, [N, 64], [64, 1]), in1=view(BF16, [1, 64], [0, 1]), out0=view(BF16, [N, 64], [64, 1])),
    call("attention", {"mask": "causal"}, q=view(BF16, [N, 4, 16], [64, 16, 1]), k=view(BF16, [N, 2, 16], [32, 16, 1]),
         v=view(BF16, [N, 2, 16], [32, 16, 1]), out=view(BF16, [N, 4, 16], [64, 16, 1]), lse=view(F32, [N, 4], [4, 1])),
    call("attention", {"mask": "full", "segment_rows": 10}, q=view(BF16, [[0, 10, 0], 1, 8], [8, 8, 1]), k=view(BF16, [[0, 10, 0], 1, 8], [8, 8, 1]),
         v=view(BF16, [[0, 10, 0], 1, 8], [8, 8, 1]), out=view(BF16, [[0, 10, 0], 1, 8], [8, 8, 1])),
]
BACKWARD = [
    call("gemm", {"accumulate": True}, a=view(BF16, [64, N], [1, 64]), b=view(BF16, [N, 36], [36, 1]), c=view(F32, [64, 36], [36, 1])),
    call("reduce", {"kind": "sum", "accumulate": True}, src=view(F32, [132, 64], [64, 1]), dst=view(F32, [132, 64], [0, 1])),
    call("linear_cross_entropy", {}, hidden=view(BF16, [N, 64], [64, 1]), weight=view(BF16, [1000, 64], [64, 1]), targets=view(I32, [N], [1]),
         loss=view(F32, [N], [1]), scratch=view(F32, [500, 1000], [1000, 1]), dhidden=view(BF16, [N, 64], [64, 1]),
         dweight=view(F32, [1000, 64], [64, 1])),
]


REGIONS = [{"name": "kept by 0", "bytes": 1000, "offsets": [10000, 11000, 10000]}, {"name": "workspace", "bytes": 500, "offsets": [12000, 12000]}]


def parameter(shape, trainable, master):
    offsets = [0, 0, 0, 0, 0 if master else -1] if trainable else [0, -1, -1, -1, -1]
    return {"shape": shape, "trainable": trainable, "dtype": "bf16" if master else "f32", "offsets": offsets}


def write_program(folder):
    buffers = [buffer("bf16"), buffer("f32"), buffer("i32")]
    layers = {"forward": [{"function": 0}, {"function": 0}], "backward": [{"function": 1}], "input_grad": [], "weight_grad": []}
    files = {
        "manifest.json": {"row_bucket": 64, "tiles_cap": 3, "tokens_cap": 128},
        "functions.json": [{"name": "block.forward", "buffers": buffers, "calls": FORWARD}, {"name": "block.backward", "buffers": buffers, "calls": BACKWARD}],
        "stages.json": [{"id": 0, "arena_bytes": 20000, "persistent_bytes": 10000, "parameters": [parameter([10, 20], True, True), parameter([7], True, False), parameter([1000], False, False)],
                         "modes": {"train": {"regions": REGIONS, "chunks": [layers], "actions": [["forward", 0, 0], ["backward", 0, 0], ["forward", 1, 0], ["backward", 1, 0],
                                                                            ["update", 0, 0]]}}}]}
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)


class StepAccount(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        write_program(self.folder.name)
        # 100 tokens are rounded up to 128 rows.
        self.device = step_account.Device(1, 0.1, 2, 4)  # TFLOP/s, TB/s, us, multiprocessors
        self.account = step_account.Account(self.folder.name, step_account.Load(3, 100, 3, 70), self.device)

    def test_operations_and_bytes(self):
        product, fused, causal, full = self.account.calls[0]
        self.assertEqual(product.flops, 2 * 128 * 64 * 32)
        self.assertEqual(product.bytes, 2 * (128 * 32 + 32 * 64 + 128 * 64 + 64))
        self.assertEqual(fused.bytes, 2 * (2 * 128 * 64 + 64))
        pairs = 34 * 35 // 2 + 2 * (33 * 34 // 2)  # samples of 34, 33 and 33 tokens; the rounding has none
        self.assertEqual(causal.flops, 2 * 4 * pairs * 32)
        self.assertEqual(causal.bytes, 2 * 128 * (64 + 32 + 32 + 64) + 4 * 128 * 4)
        self.assertEqual(full.flops, 2 * 3 * 100 * 16)
        gradient, sums, loss = self.account.calls[1]
        self.assertEqual(gradient.bytes, 2 * 128 * (64 + 36) + 2 * 4 * 64 * 36)
        self.assertEqual(sums.bytes, 4 * 132 * 64 + 2 * 4 * 64)
        self.assertEqual(loss.flops, 3 * 2 * 128 * 1000 * 64)  # 70 labels are rounded up to 128 rows
        # Logits: written, read twice; their gradient: written, read twice. The weight: read twice; its gradient: read and written.
        self.assertEqual(loss.bytes, 128 * 1000 * (3 * 4 + 3 * 2) + 2 * 2 * 64000 + 2 * 4 * 64000 + 8 * 2 * 128 * 64)

    def test_rows_that_begin_anywhere_are_told(self):
        self.assertTrue(self.account.calls[0][0].aligned)
        self.assertFalse(self.account.calls[1][0].aligned)  # 36 elements of 2 bytes

    def test_times(self):
        device = self.device
        fused = self.account.calls[0][1]
        self.assertAlmostEqual(device.seconds(fused), max(2e-6, fused.bytes / 1e11))
        self.assertEqual(device.seconds(self.account.calls[0][3]), 2e-6)  # a launch takes longer
        # One tile of 128 x 128 where 64 x 64 fits: half a wave of four, at 0.55 of the rate, is not better than 2 tiles.
        best = min(waves * 4 * 2 * rows * cols * 32 / (1e12 * rate) for rows, cols, rate, waves in ((64, 64, 0.55, 1), (128, 128, 0.92, 1)))
        self.assertAlmostEqual(step_account.product_seconds(128, 64, 32, 1, device), best)

    def test_sums(self):
        kinds = self.account.kinds
        self.assertEqual(kinds["gemm"].launches, 2 * (2 + 1))
        self.assertEqual(kinds["gemm"].flops, 4 * self.account.calls[0][0].flops + 2 * self.account.calls[1][0].flops)
        self.assertEqual(kinds["fused"].bytes, 4 * self.account.calls[0][1].bytes)
        # Gradients for the norm; values, gradient and moments in and out (zeros for the next step); the bfloat16 copy.
        self.assertEqual(kinds["optimizer"].bytes, 200 * (4 + 32 + 2) + 7 * (4 + 32))
        self.assertAlmostEqual(self.account.seconds, sum(kind.seconds for kind in kinds.values()))
        self.assertAlmostEqual(sum(kind.seconds for layer in self.account.layers.values() for kind in layer.values()), self.account.seconds)

    def test_memory(self):
        self.assertEqual(self.account.memory(self.account.stages[0]), {
            "parameters": 2 * 200 + 4 * 1007, "gradients": 4 * 207, "moments": 8 * 207, "float32 values": 4 * 200,
            "constants, gaps": 10000 - 2 * 200 - 4 * 1007 - 12 * 207 - 4 * 200, "kept": 2000, "workspace": 500})

    def write_trace(self, change=None):
        """Every call takes ten times as long as it must."""
        events, now = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "stage 0"}}], 0
        for name, function in (("F", 0), ("B", 1)) * 2:
            begin = now
            for calls in [self.account.calls[function]] * (2 if name == "F" else 1):
                for call in calls:
                    took = 10e6 * self.device.seconds(call)
                    events.append({"ph": "X", "name": call.kernel, "pid": 0, "tid": 4, "ts": now, "dur": took, "args": {}})
                    now += took
            events.append({"ph": "X", "name": name, "pid": 0, "tid": 0, "ts": begin, "dur": now - begin, "args": {"tiles": 3, "tokens": 100}})
        if change:
            change(events)
        path = os.path.join(self.folder.name, "trace.json")
        with open(path, "w") as file:
            json.dump(events[::-1], file)  # in any order
        return path

    def test_a_trace_beside_it(self):
        measured = step_measured.Measured(self.folder.name, self.write_trace(), 0, 3, 70, self.device)
        for kind, (count, least, found) in measured.by(lambda row: row[1].kind).items():
            self.assertEqual(count, self.account.kinds[kind].launches if kind != "loss" else 2)
            self.assertAlmostEqual(least, self.account.kinds[kind].seconds)
            self.assertAlmostEqual(found, 10 * least)

    def test_a_trace_of_another_program(self):
        def other(events):
            events[2]["name"] = "copy"
        with self.assertRaises(SystemExit):
            step_measured.Measured(self.folder.name, self.write_trace(other), 0, 3, 70, self.device)

    def test_tool_prints_all_of_it(self):
        tool = [sys.executable, os.path.join(GPU, "step_account.py"), self.folder.name, "--layers", "--calls"]
        lines = subprocess.run(tool, capture_output=True, text=True, check=True).stdout.splitlines()
        for start in ("gemm", "attention", "loss", "fused", "reduce", "optimizer", "block.forward: gemm", "step", "predicted step"):
            self.assertTrue(any(line.startswith(start) for line in lines), start)
        self.assertEqual(sum(" x " in line and " us " in line for line in lines), len(FORWARD) + len(BACKWARD))


if __name__ == "__main__":
    unittest.main()
