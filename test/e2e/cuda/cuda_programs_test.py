#!/usr/bin/env python3
"""Programs for cuda without a GPU: cuda_programs_test.py BIN_FOLDER DATA_FOLDER [unittest options]

Where there is no ptxas (CUDA_HOME, PATH, /usr/local/cuda), what it would assemble is only generated, and a notice says so."""
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
MODELS = ("tiny-internvl", "tiny-llava")


class CudaPrograms(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-cuda-")
        self.addCleanup(shutil.rmtree, self.work)

    def compile(self, name, model, *flags, code=0, **environment):
        command = [os.path.join(BIN, "omnibal-compile"), os.path.join(DATA, model, "model.onnx"), "--tiles", "4", "--tokens",
                   "128", "--stages", "2", "--target", "cuda", *flags, "-o", os.path.join(self.work, name)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100,
                                env={**os.environ, **environment})
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def generated(self, name):
        return sorted(file for file in os.listdir(os.path.join(self.work, name)) if file.startswith("kernels."))

    def read(self, name, file):
        with open(os.path.join(self.work, name, file)) as text:
            return text.read()

    def test_assembled_for_every_device(self):
        for model in MODELS:
            self.compile("once", model, "--dtype", "float32")
            self.compile("again", model, "--dtype", "float32")
            files = os.listdir(os.path.join(self.work, "once"))
            self.assertEqual(filecmp.cmpfiles(*(os.path.join(self.work, n) for n in ("once", "again")), files, shallow=False),
                             (files, [], []))
            if self.generated("once") == ["kernels.ptx"]:
                print(f"notice: no ptxas: kernels of {model} are not assembled", file=sys.stderr)
            else:
                self.assertEqual(self.generated("once"), ["kernels.fatbin"])
            shutil.rmtree(os.path.join(self.work, "once"))
        self.compile("bfloat16", "tiny-internvl")
        self.assertEqual(json.loads(self.read("bfloat16", "manifest.json"))["compute"], "bfloat16")

    def test_without_a_toolkit(self):
        for model in MODELS:
            said = self.compile("p", model, "--dtype", "float32", CUDA_HOME=self.work)
            self.assertIn("no ptxas and fatbinary found", said)
            self.assertEqual(self.generated("p"), ["kernels.ptx"])
            ptx, functions = self.read("p", "kernels.ptx"), self.read("p", "functions.json")
            symbols = set(re.findall(r'"symbol":"(\w+)"', functions))
            self.assertTrue(symbols)
            self.assertEqual(set(re.findall(r"\.entry (\w+)", ptx)), symbols)
            self.assertNotIn("__nv_", ptx)
            self.assertNotIn(".extern .func", ptx)

    def test_manifest_and_printed_program(self):
        self.compile("p", "tiny-internvl", "--dtype", "float32", "--gpu-code", "emulated")
        manifest = json.loads(self.read("p", "manifest.json"))
        self.assertEqual((manifest["target"], manifest["compute"]), ("cuda", "float32"))
        self.assertEqual(self.generated("p"), ["kernels.so"])
        printed = subprocess.run([os.path.join(BIN, "omnibal-run"), "--print", os.path.join(self.work, "p")],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("target cuda", printed)
        for kernel, operand in (("attention_backward", "workspace"), ("embedding_backward", "workspace"), ("fused", "threads")):
            lines = [line for line in printed.splitlines() if line.split()[:1] == [kernel]]
            self.assertTrue(lines, kernel)
            for line in lines:
                self.assertIn(operand, line)

    def test_a_memory_limit_leaves_room_for_the_backend(self):
        flags = ("--dtype", "float32", "--gpu-code", "emulated")
        own = (32 << 20) + (1 << 20)  # products and sums of columns, on every rank

        def arenas(name):
            return [stage["arena_bytes"] for stage in json.loads(self.read(name, "stages.json"))]
        self.compile("free", "tiny-internvl", *flags)
        largest = max(arenas("free"))
        limit = largest + own - 100_000
        self.compile("limited", "tiny-internvl", *flags, "--memory-limit-bytes", str(limit))
        self.assertLess(max(arenas("limited")) + own, limit)
        said = self.compile("small", "tiny-internvl", *flags, "--memory-limit-bytes", str(largest), code=1)
        self.assertIn("infeasible", said)

    def test_errors(self):
        self.assertIn("no bin/ptxas", self.compile("p", "tiny-internvl", "--dtype", "float32", "--cuda-toolkit", self.work, code=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
