#!/usr/bin/env python3
"""omnibal-compile is one pipeline: it runs the passes that docs/passes.md lists, in that order, and omnibal-opt makes the
same program of the pipeline's name and of its text.

    pass_order_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from mode_batches import write_json, write_npy  # noqa: E402

BIN, DATA = sys.argv[1:3]
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "passes.md")
MODEL = os.path.join(DATA, "tiny-internvl", "model.onnx")
# Passes that run with flags of their own.
ASKED_FOR = ("omnibal-add-embedding-noise", "omnibal-add-adapters", "omnibal-freeze", "omnibal-quantize-frozen")


def call(tool, *arguments):
    command = [os.path.join(BIN, tool), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if result.returncode != 0:
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def passes_of(pipeline):
    """Names of passes in a pipeline's text, each where it comes first."""
    return list(dict.fromkeys(re.findall(r"[(,=\s](omnibal-[\w-]+)", pipeline)))


def listed():
    """Passes in the order of docs/passes.md, as five lists: the module's, the functions', those of training modes, of length groups and of ranks."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    sections = re.split(r"^## ", text, flags=re.M)
    rows = {section.splitlines()[0]: re.findall(r"^\| `(omnibal-[\w-]+)` \|", section, re.M) for section in sections}
    rows.pop("Pipelines")
    functions = [name for title, names in rows.items() if title.startswith("Lower:") for name in names]
    modes = [name for title, names in rows.items() if title.startswith("Training modes:") for name in names]
    groups = [name for title, names in rows.items() if title.startswith("Length groups:") for name in names]
    ranks = [name for title, names in rows.items() if title.startswith("Ranks:") for name in names]
    apart = ("Lower:", "Training modes:", "Length groups:", "Ranks:", "Shard:")  # where stages have parts
    return [name for title, names in rows.items() if not title.startswith(apart) for name in names], functions, modes, groups, ranks


class PassOrder(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-passes-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def dump(self, *flags):
        return call("omnibal-compile", MODEL, "--tiles", 24, "--tokens", 420, *flags, "--dump-pass-pipeline").strip()

    def test_the_page_lists_what_runs_in_its_order(self):
        of_modules, of_functions, *_ = listed()
        self.assertGreater(len(of_modules), 30)
        for flags, absent in ((("--freeze", "vision"), [name for name in ASKED_FOR if name != "omnibal-freeze"]),
                              (("--lora", "q_proj", "--quantize-frozen", "nf4", "--neftune", 5), ["omnibal-freeze"])):
            self.assertEqual(passes_of(self.dump(*flags, "-o", self.path("program"))), [name for name in of_modules if name not in absent])
        empty = self.path("empty.mlir")
        with open(empty, "w"):
            pass
        dumped = subprocess.run([os.path.join(BIN, "omnibal-opt"), empty, "--omnibal-lower", "--dump-pass-pipeline"],
                                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, timeout=60, check=True).stderr
        self.assertEqual(passes_of(dumped), of_functions)

    def write_length_groups(self):
        cost = {"tile_ns": 1, "token_ns": 1, "square_ns": 0, "microbatch_ns": 0, "step_ns": 0}
        groups = [{"name": name, "tiles_cap": tiles, "tokens_cap": tokens, "degree": 1, "ranks": 1, "microbatches": count, "steps": 1, "cost": cost}
                  for name, tiles, tokens, count in (("short", 8, 160, 2), ("long", 24, 420, 1))]
        os.makedirs(self.path("b"))
        write_json(self.path("b"), "groups", {"schema": "omnibal.length-groups/1", "replicas": 1, "stages": 2, "tokens_per_step": 400, "groups": groups})
        write_json(self.path("b"), "batches", {"method": "plan", "seed": 0, "epoch": 0, "length_groups": 2, "samples": 3})
        write_npy(os.path.join(self.path("b"), "samples.npy"), "<i8", [3], [0, 1, 2])
        write_npy(os.path.join(self.path("b"), "groups.npy"), "<i8", [4], [0, 1, 2, 3])
        write_npy(os.path.join(self.path("b"), "lengths.npy"), "<i4", [3, 2], [4, 100, 5, 130, 20, 400])
        write_npy(os.path.join(self.path("b"), "rows.npy"), "<i4", [3, 2], [0, 0, 0, 0, 1, 1])

    def test_training_modes_have_passes_of_their_own(self):
        self.write_length_groups()
        of_modules, _, of_modes, *_ = listed()
        expected = [name for name in of_modules if name not in ASKED_FOR]
        at = expected.index("omnibal-attach-cluster") + 1
        expected[at:at] = [of_modes[0], "omnibal-search-layouts", "omnibal-verify-layouts"]
        expected[expected.index("omnibal-search-plan")] = of_modes[1]
        flags = ("--stages", 2, "--batches", self.path("b"))
        dumped = call("omnibal-compile", MODEL, *flags, "-o", self.path("text"), "--dump-pass-pipeline").strip()
        self.assertEqual(passes_of(dumped), expected)
        call("omnibal-compile", MODEL, *flags, "-o", self.path("tool"))
        call("omnibal-opt", MODEL, "--omnibal-compile=train-modes tiles=24 tokens=420 model=model.onnx stages=2 "
             f"batches={self.path('b')} output={self.path('name')}", "-o", os.devnull)
        self.same("tool", "name")
        call("omnibal-opt", MODEL, "--pass-pipeline=" + dumped, "-o", os.devnull)
        self.same("tool", "text")

    def test_length_groups_have_a_pass_of_their_own(self):
        self.write_length_groups()
        of_modules, _, of_modes, of_groups, _ = listed()
        lengths = self.path("lengths.csv")
        with open(lengths, "w") as file:
            file.write("vit_num,token_num\n24,420\n2,100\n")
        flags = ("--stages", 2, "--device", "cpu", "--lengths", lengths, "--emit-length-groups")
        dumped = call("omnibal-compile", MODEL, *flags, self.path("text.json"), "--dump-pass-pipeline").strip()
        end = of_modules.index("omnibal-attach-cluster") + 1
        self.assertEqual(passes_of(dumped), [name for name in of_modules[:end] if name not in ASKED_FOR] + of_groups)
        call("omnibal-opt", MODEL, "--pass-pipeline=" + dumped, "-o", os.devnull)
        call("omnibal-compile", MODEL, *flags, self.path("tool.json"))
        call("omnibal-opt", MODEL, f"--omnibal-compile=tiles=24 tokens=420 stages=2 device=cpu lengths={lengths} length-groups={self.path('name.json')}",
             "-o", os.devnull)
        for name in ("text.json", "name.json"):
            self.assertTrue(filecmp.cmp(self.path("tool.json"), self.path(name), shallow=False))
        both = call("omnibal-compile", MODEL, *flags, self.path("both.json"), "--batches", self.path("b"), "-o", self.path("program"),
                    "--dump-pass-pipeline").strip()
        self.assertEqual([name for name in passes_of(both) if name in of_groups + of_modes], of_groups + of_modes)
        self.assertEqual(passes_of(both)[-1], "omnibal-export-program")

    def test_ranks_have_a_pass_of_their_own(self):
        of_modules, *_, of_ranks = listed()
        expected = [name for name in of_modules if name not in ASKED_FOR]
        expected[expected.index("omnibal-search-plan")] = of_ranks[0]
        dumped = self.dump("--ranks", 4, "--groups", 4, "-o", self.path("text"))
        self.assertEqual(passes_of(dumped), expected)
        call("omnibal-compile", MODEL, "--tiles", 24, "--tokens", 420, "--ranks", 4, "--groups", 4, "-o", self.path("tool"))
        call("omnibal-opt", MODEL, "--pass-pipeline=" + dumped, "-o", os.devnull)
        self.same("tool", "text")
        call("omnibal-opt", MODEL, f"--omnibal-compile=ranks=4 groups=4 stages=0 data-parallel=0 zero=-1 tiles=24 tokens=420 model=model.onnx output={self.path('name')}",
             "-o", os.devnull)
        self.same("tool", "name")

    def test_a_dry_run_only_leaves_the_export_out(self):
        whole, dry = self.dump("-o", self.path("program")), self.dump("--dry-run")
        self.assertEqual(passes_of(whole), passes_of(dry) + ["omnibal-export-program"])

    def same(self, one, other):
        names = sorted(os.listdir(self.path(one)))
        self.assertEqual(names, sorted(os.listdir(self.path(other))))
        _, different, errors = filecmp.cmpfiles(self.path(one), self.path(other), names, shallow=False)
        self.assertEqual((different, errors), ([], []))

    def test_omnibal_opt_makes_the_same_program(self):
        for number, (flags, options) in enumerate((
                (["--stages", 2, "--freeze", "vision"], "stages=2 freeze=vision"),
                (["--stages", 2, "--schedule", "zb-h1", "--remat", "full"], "stages=2 schedule=zb-h1 remat=full"),
                # So little that the search recomputes: the loop around it has limits to compare with.
                (["--stages", 2, "--memory-limit-bytes", 30000000], "stages=2 memory-limit-bytes=30000000"),
                (["--target", "cuda", "--gpu-code", "emulated", "--dtype", "float32", "--memory-limit-bytes", 200000000],
                 "target=cuda gpu-code=emulated compute=float32 memory-limit-bytes=200000000"))):
            with self.subTest(flags=flags):
                tool, name, text = (self.path(f"{kind}{number}") for kind in ("tool", "name", "text"))
                call("omnibal-compile", MODEL, "--tiles", 24, "--tokens", 420, *flags, "-o", tool)
                call("omnibal-opt", MODEL, f"--omnibal-compile=tiles=24 tokens=420 model=model.onnx output={name} {options}",
                     "-o", os.devnull)
                self.same(tool, name)
                call("omnibal-opt", MODEL, "--pass-pipeline=" + self.dump(*flags, "-o", text), "-o", os.devnull)
                self.same(tool, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
