#!/usr/bin/env python3
"""Fine-tuning with adapters that have magnitudes (DoRA): dora_test.py BIN_FOLDER DATA_FOLDER CLASS

Ten steps are those of PEFT (test/scripts/dora_reference.py), on every layout of ranks and over quantized weights; first
values, merged weights and bytes are computed again here.
"""
import json
import math
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from adapters_test import ADAPTERS, LORA, REPLICAS, TWO_STAGES, AdapterCase, compile_model, judge, optimizer, scale_of, shapes_of, stages_of  # noqa: E402
from judgement import Float32  # noqa: E402
from mode_batches import Mode, ModeCase, write_folder  # noqa: E402
from reference_losses import read_safetensors  # noqa: E402
from run_case import BIN, DATA, MODEL  # noqa: E402

with open(f"{ADAPTERS}/dora.json", encoding="utf-8") as _file:
    REFERENCE = json.load(_file)
DORA, STABILIZED = (tuple(REFERENCE["variants"][name]["flags"]) for name in ("dora", "dora-rslora"))
INT8, NF4 = (tuple(REFERENCE["quantized"][name]["flags"]) for name in ("dora-int8", "dora-nf4"))
SHARES = (*TWO_STAGES, *REPLICAS, "--zero", "1")
MAGNITUDE = ".lora_magnitude_vector"


def heads(k, name):
    return ("--model-parallel", str(k), "--layouts", os.path.join(DATA, "layouts", f"tiny-internvl-{name}.json"))


WAYS = {"one": (), "two": TWO_STAGES, "replicas": REPLICAS, "shares": SHARES, "recomputed": ("--remat", "full"),
        "halves": (*TWO_STAGES, "--schedule", "zb-h1"), "planned": (*TWO_STAGES, "--schedule", "per-step"),
        "together": ("--model-parallel", "2", "--layouts", "none"), "heads": heads(2, "key-heads"),
        "thirds": (*TWO_STAGES, *heads(3, "query-heads")), "searched": ("--model-parallel", "2", "--layout-price", "1")}
CASES = {"dora": (DORA, ("one", "two", "shares", "recomputed", "planned", "heads", "searched")),
         "dora-rslora": (STABILIZED, ("one", "replicas", "halves", "together", "thirds")),
         "dora-int8": (INT8, ("one", "shares", "halves")), "dora-nf4": (NF4, ("two", "planned", "recomputed", "together"))}


class Training(AdapterCase):
    layouts = {f"{name} {way}": flags + WAYS[way] for name, (flags, these) in CASES.items() for way in these}

    def check(self, name):
        for way in CASES[name][1]:
            with self.subTest(way=way):
                expected = REFERENCE["quantized"].get(name) or REFERENCE["variants"][name]
                start = expected.get("start", name)
                self.run_tool(*optimizer(), "--adapter", f"{ADAPTERS}/{start}", "--save", self.path("saved"), "--log", self.path("log.jsonl"),
                              program=f"{name} {way}")
                judge(self, start, self.path("log.jsonl"), self.path("saved"), f"{name} {way}", expected)

    def test_ten_steps_are_those_of_peft(self):
        self.check("dora")

    def test_other_scale_and_modules_that_are_saved(self):
        self.check("dora-rslora")

    def test_frozen_weights_in_8_bits(self):
        self.check("dora-int8")

    def test_frozen_weights_in_4_bits(self):
        self.check("dora-nf4")


class Modes(ModeCase):
    MODEL = MODEL

    def test_training_modes_share_their_magnitudes(self):
        modes = [Mode(kind, count, self.samples, 1) for kind, count in (("short", 4), ("long", 2))]
        write_folder(self.path("batches"), self.samples, modes, [0, 1] * 5, stages=2)
        flags = ["--stages", "2", *STABILIZED, "--batches", self.path("batches"), "-o", self.path("program")]
        subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", *flags], check=True, stdout=subprocess.DEVNULL)
        flags = ["--weights", f"{MODEL}/model.safetensors", "--data", self.shard, "--preprocess", f"{MODEL}/preprocessor_config.json",
                 "--batches", self.path("batches"), *map(str, optimizer()), "--adapter", f"{ADAPTERS}/dora-rslora",
                 "--log", self.path("log.jsonl"), "--save", self.path("saved")]
        subprocess.run([f"{BIN}/omnibal-run", self.path("program"), *flags], check=True, stderr=subprocess.DEVNULL)
        judge(self, "dora-rslora", self.path("log.jsonl"), self.path("saved"), "two training modes", REFERENCE["variants"]["dora-rslora"])


class Values(AdapterCase):
    layouts = {"one": DORA, "two": (*DORA, *TWO_STAGES), "shares": (*DORA, *SHARES), "heads": DORA + heads(2, "key-heads"),
               "searched": DORA + WAYS["searched"], "searched-lora": LORA + WAYS["searched"], "nf4": NF4, "stabilized": STABILIZED,
               "lora": LORA, "plain": ()}

    def fresh(self, program, *flags):
        """What a run begins with: a step of a rate of nothing leaves it."""
        self.run_tool("--steps", 1, "--lr", 0, "--save", self.path("still"), "--log", self.path("log.jsonl"), *flags, program=program)
        with open(self.path("log.jsonl")) as file:
            return read_safetensors(self.path("still/adapter_model.safetensors")), json.loads(file.readline())

    def test_magnitudes_begin_with_the_norms_of_rows(self):
        base, shapes = read_safetensors(f"{MODEL}/model.safetensors"), shapes_of(f"{MODEL}/model.safetensors")
        with open(f"{MODEL}/reference.json") as file:
            loss = json.load(file)["variants"]["train_all"]["steps"][0]
        first, _ = self.fresh("one")
        for program in ("one", "two", "shares", "heads"):
            values, line = self.fresh(program)
            self.assertEqual(values, first, program)
            self.assertLessEqual(Float32.of_number(line["loss"], loss, "loss"), 1)  # the model itself
        magnitudes = {name: row for name, row in first.items() if name.endswith(MAGNITUDE)}
        self.assertEqual(len(magnitudes), 42)
        for name, row in magnitudes.items():
            weight = name.removeprefix("base_model.model.").removesuffix(MAGNITUDE) + ".weight"
            columns = shapes[weight][1]
            self.assertEqual(shapes_of(self.path("still/adapter_model.safetensors"))[name], [shapes[weight][0]])
            for o, value in enumerate(row):
                norm = math.sqrt(sum(v * v for v in base[weight][o * columns:(o + 1) * columns]))
                self.assertAlmostEqual(value / norm, 1, delta=2e-7, msg=f"{name} {o}")
        # Those of what codes stand for are others, but near.
        coded, _ = self.fresh("nf4")
        for name, row in magnitudes.items():
            self.assertNotEqual(coded[name], row)
            for a, b in zip(coded[name], row, strict=True):
                self.assertAlmostEqual(a / b, 1, delta=0.1)

    def test_adapters_in_the_weights_count_in_the_norms(self):
        """As where a checkpoint has adapters without magnitudes."""
        weights = self.path("weights")
        os.mkdir(weights)
        start = read_safetensors(f"{ADAPTERS}/rslora/adapter_model.safetensors")
        shapes = shapes_of(f"{ADAPTERS}/rslora/adapter_model.safetensors")
        own = {name.removeprefix("base_model.model."): name for name in start if ".lora_" in name}
        self.write_with_more(f"{weights}/model.safetensors", {name: (shapes[key], start[key]) for name, key in own.items()})
        values, _ = self.fresh("one", "--weights", weights)
        base, shapes = read_safetensors(f"{MODEL}/model.safetensors"), shapes_of(f"{MODEL}/model.safetensors")
        for name in values:
            if not name.endswith(MAGNITUDE):
                continue
            module = name.removesuffix(MAGNITUDE)
            a, b = (start[f"{module}.lora_{which}.weight"] for which in "AB")
            weight = module.removeprefix("base_model.model.") + ".weight"
            rows, columns = shapes[weight]
            for o in range(0, rows, 5):
                row = [base[weight][o * columns + i] + 2 * sum(b[o * 4 + r] * a[r * columns + i] for r in range(4)) for i in range(columns)]
                self.assertAlmostEqual(values[name][o] / math.sqrt(sum(v * v for v in row)), 1, delta=1e-6, msg=name)

    def write_with_more(self, path, more):
        """The model's weights, and more tensors of float32 behind them."""
        import struct
        with open(f"{MODEL}/model.safetensors", "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(length)), file.read()
        for name, (shape, values) in more.items():
            header[name] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + 4 * len(values)])
            data += struct.pack(f"<{len(values)}f", *values)
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    def test_what_is_saved_is_what_a_run_begins_with(self):
        for program in ("one", "stabilized"):
            trained = self.saved("--steps", 3, program=program)
            self.run_tool("--steps", 1, "--lr", 0, "--adapter", self.path("saved"), "--save", self.path("again"), program=program)
            self.assertEqual(trained, self.bytes("again/adapter_model.safetensors"))
            self.assertEqual(self.bytes("saved/adapter_config.json"), self.bytes("again/adapter_config.json"))
            with open(self.path("saved/adapter_config.json")) as file:
                config = json.load(file)
            self.assertEqual((config["use_dora"], config["use_rslora"]), (True, program == "stabilized"))

    def test_a_run_goes_on_from_its_checkpoint(self):
        whole = self.saved("--steps", 6, "--checkpoint", self.path("a"), "--checkpoint-every", 3, "--keep-every", 3)
        for program in ("one", "two"):
            self.assertEqual(whole, self.saved("--steps", 6, "--resume", self.path("a/step-00000003"), program=program))
        shapes = shapes_of(self.path("saved/adapter_model.safetensors"))
        self.saved("--steps", 6, "--resume", self.path("a/step-00000003"), program="shares")
        self.assertEqual(shapes, shapes_of(self.path("saved/adapter_model.safetensors")))
        self.run_tool(*optimizer(), "--steps", 7, "--resume", self.path("a"), program="lora", code=1, says="which this program does not train")
        self.run_tool(*optimizer(), "--steps", 2, "--checkpoint", self.path("b"), program="lora")
        self.run_tool(*optimizer(), "--steps", 3, "--resume", self.path("b"), code=1, says="lora_magnitude_vector")

    def test_groups_of_parameters_find_magnitudes(self):
        first, _ = self.fresh("one")
        self.saved("--steps", 2, "--lr-of", "lora_magnitude_vector=0")
        for name, values in read_safetensors(self.path("saved/adapter_model.safetensors")).items():
            if name.endswith(MAGNITUDE):
                self.assertEqual(values, first[name])
            elif ".lora_B" in name:
                self.assertNotEqual(values, first[name])
        self.run_tool("--steps", 2, "--weight-decay-of", "lora_magnitude_vector=0.9", code=1, says="no parameter that trains and has two dimensions")

    def test_parts_that_divide_adapters_are_merged_from_their_checkpoint(self):
        flags = (*optimizer(), "--steps", 3, "--adapter", f"{ADAPTERS}/dora")
        merged = {}
        for program in ("one", "searched"):
            self.run_tool(*flags, "--checkpoint", self.path(f"{program}.ck"), program=program)
            subprocess.run([f"{BIN}/omnibal-run", "--export-checkpoint", self.path(f"{program}.ck"), "--weights", f"{MODEL}/model.safetensors",
                            "--save", self.path(f"{program}.merged"), "--merge-adapters"], check=True, stderr=subprocess.DEVNULL)
            merged[program] = read_safetensors(self.path(f"{program}.merged/model.safetensors"))
        for name, values in merged["one"].items():
            for a, b in zip(values, merged["searched"][name], strict=True):
                self.assertAlmostEqual(a, b, delta=2e-5, msg=name)
        for program in ("searched", "searched-lora"):
            self.run_tool("--save", self.path("no"), "--merge-adapters", program=program, code=1,
                          says='leave the flag out, and give it to --export-checkpoint')
            self.assertEqual(os.listdir(self.path("no")), [])

    def test_merged_weights_have_the_magnitudes_as_norms(self):
        for program, start in (("two", "dora"), ("stabilized", "dora-rslora"), ("heads", "dora"), ("nf4", "dora")):
            flags = (*optimizer(), "--steps", 3, "--adapter", f"{ADAPTERS}/{start}")
            self.run_tool(*flags, "--save", self.path("saved"), "--checkpoint", self.path(f"{program}.ck"), program=program)
            self.run_tool(*flags, "--save", self.path("merged"), "--merge-adapters", program=program)
            base, merged = read_safetensors(f"{MODEL}/model.safetensors"), read_safetensors(self.path("merged/model.safetensors"))
            adapters, shapes = read_safetensors(self.path("saved/adapter_model.safetensors")), shapes_of(f"{MODEL}/model.safetensors")
            scale = scale_of(self.path("saved"))
            for name, magnitudes in adapters.items():
                if not name.endswith(MAGNITUDE):
                    continue
                module = name.removesuffix(MAGNITUDE)
                a, b = (adapters[f"{module}.lora_{which}.weight"] for which in "AB")
                weight = module.removeprefix("base_model.model.") + ".weight"
                rows, columns = shapes[weight]
                rank = len(a) // columns
                for o in range(0, rows, 11):
                    row = [base[weight][o * columns + i] + scale * sum(b[o * rank + r] * a[r * columns + i] for r in range(rank))
                           for i in range(columns)]
                    factor = magnitudes[o] / math.sqrt(sum(v * v for v in row))
                    for i in range(columns):
                        self.assertAlmostEqual(merged[weight][o * columns + i], factor * row[i], delta=1e-6)
            for flag, folder, name in (((), "saved", "adapter_model.safetensors"), (("--merge-adapters",), "merged", "model.safetensors")):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                subprocess.run([f"{BIN}/omnibal-run", "--export-checkpoint", self.path(f"{program}.ck"), "--weights", f"{MODEL}/model.safetensors",
                                "--save", self.path("out"), *flag], check=True, stderr=subprocess.DEVNULL)
                self.assertEqual(self.bytes(f"out/{name}"), self.bytes(f"{folder}/{name}"), name)
            if program == "nf4":
                continue  # merged into the weights as they are, so losses differ
            losses = []
            for options in (dict(program=program), dict(program="plain", weights=self.path("merged"))):
                more = ("--adapter", self.path("saved")) if options["program"] == program else ()
                command = self.command("--evaluate", "--log", self.path("eval.json"), *more, **options)
                at = command.index("--steps-file")
                subprocess.run(command[:at] + command[at + 2:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                with open(self.path("eval.json")) as file:
                    losses.append(json.load(file)["loss"])
            self.assertAlmostEqual(losses[0], losses[1], delta=2e-6)


class Memory(AdapterCase):
    layouts = {"kept": DORA, "recomputed": (*DORA, "--remat", "full")}

    def test_norms_are_computed_once_and_their_sums_are_in_memory_nowhere(self):
        for program in self.layouts:
            with open(f"{self.programs}/{program}/functions.json") as file:
                functions = json.load(file)
            for function in functions:
                norms = [dict(call["operands"]) for call in function["calls"] if call["kernel"] == "row_squares"]
                if function["name"].split("_")[0] != "language" or function["name"].startswith("language_0"):  # the embedding
                    self.assertEqual(norms, [])
                    continue
                backward = function["name"].endswith("backward")
                self.assertEqual(len(norms), 7 if program == "recomputed" or not backward else 0, function["name"])
                for operands in norms:
                    self.assertEqual(operands.keys(), {"weight", "a", "b", "result"})
                # Beside what grows with tokens there are vectors, and some rows of sums; the smallest weight is 32 x 64.
                for buffer in function["buffers"]:
                    if buffer["role"] == "temporary" and all(isinstance(size, int) for size in buffer["shape"]):
                        self.assertLess(math.prod(buffer["shape"]), 32 * 64, buffer)


class Graphs(AdapterCase):
    layouts = {}

    def test_weights_that_an_exporter_has_transposed(self):
        for flags in (DORA, NF4):
            saved = {}
            for graph in ("model.onnx", "model-optimized.onnx"):
                shutil.rmtree(f"{self.programs}/{graph}", ignore_errors=True)
                done = compile_model(*flags, "--weights", MODEL, graph=graph, output=f"{self.programs}/{graph}")
                self.assertEqual(done.returncode, 0, done.stderr)
                for start in ((), ("--adapter", f"{ADAPTERS}/dora")):
                    self.saved("--steps", 2, *start, program=graph)
                    self.run_tool(*optimizer(), "--steps", 2, *start, "--save", self.path("merged"), "--merge-adapters", program=graph)
                    saved[graph, bool(start)] = (read_safetensors(self.path("saved/adapter_model.safetensors"))
                                                 | read_safetensors(self.path("merged/model.safetensors")))
            for start in (False, True):
                one, other = saved["model.onnx", start], saved["model-optimized.onnx", start]
                self.assertEqual(one.keys(), other.keys())
                for name, values in one.items():
                    for a, b in zip(values, other[name], strict=True):
                        self.assertAlmostEqual(a, b, delta=2e-5, msg=name)

    def test_what_the_compiler_says(self):
        done = compile_model(*DORA)
        self.assertEqual(done.returncode, 0, done.stderr)
        # The magnitudes are 42 vectors of 2,856 numbers together.
        outputs = sum(row[0] for name, row in shapes_of(f"{ADAPTERS}/dora/adapter_model.safetensors").items() if name.endswith(MAGNITUDE))
        self.assertIn(f"adapters: 42 linear layers of rank 4, alpha 8, scale 2, with magnitudes (DoRA); {23712 + outputs:,} of ", done.stdout)


class Emulated(AdapterCase):
    """Programs of target cuda on the emulated device, whose generated kernels compute the norms."""
    ways = {"dora": DORA, "dora-rslora": STABILIZED}
    layouts = {name: (*flags, "--target", "cuda", "--dtype", "float32", "--gpu-code", "emulated") for name, flags in ways.items()}

    def test_first_steps_are_those_of_peft(self):
        for name in self.layouts:
            with self.subTest(program=name):
                self.run_tool(*optimizer(), "--steps", 2, "--adapter", f"{ADAPTERS}/{name}", "--log", self.path("log.jsonl"), program=name)
                with open(self.path("log.jsonl")) as file:
                    for entry, step in zip(map(json.loads, file), REFERENCE["variants"][name]["steps"][:2], strict=True):
                        for what in ("loss", "grad_norm"):
                            self.assertLessEqual(Float32.of_number(entry[what], step, what), 1, f"{name}: {what} {entry[what]}, PEFT {step}")


class Errors(AdapterCase):
    layouts = {"one": DORA, "lora": LORA}

    def test_flags_of_the_compiler(self):
        done = compile_model("--dora")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--dora needs --lora", done.stderr)

    def test_folders_of_other_adapters(self):
        self.run_tool("--adapter", f"{ADAPTERS}/dora", program="lora", code=1,
                      says="use_dora is true, but the program's adapters have no magnitudes; compile it with --dora")
        self.run_tool("--adapter", f"{ADAPTERS}/lora", code=1,
                      says="use_dora is false, but the program's adapters have magnitudes; compile it without --dora")
        folder = self.path("old")
        shutil.copytree(f"{ADAPTERS}/lora", folder)
        shutil.copy(f"{ADAPTERS}/dora/adapter_config.json", folder)
        self.run_tool("--adapter", folder, code=1, says='lora_magnitude_vector" is missing, which the program trains')

    def test_a_row_of_zeros_has_no_direction(self):
        import struct
        name = "model.language_model.layers.1.mlp.up_proj.weight"
        weights = self.path("model.safetensors")
        shutil.copy(f"{MODEL}/model.safetensors", weights)
        with open(weights, "r+b") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            begin = json.loads(file.read(length))[name]["data_offsets"][0]
            file.seek(8 + length + begin + 4 * 5 * 64)
            file.write(bytes(4 * 64))
        self.run_tool("--steps", 1, weights=weights, code=1, says=f'parameter "{name}": the norm of row 5 is 0.0')
        self.run_tool("--steps", 1, weights=weights, program="lora")

    def test_a_damaged_manifest(self):
        for number, (change, says) in enumerate((
                (lambda a: a["linears"][0].update(magnitude="no.such"), 'no stage has the parameter "no.such"'),
                (lambda a: a["linears"][0].update(magnitude=a["linears"][0]["a"]), "is not [out]"),
                (lambda a: a["linears"][0].pop("magnitude"), 'the field "magnitude" is missing'),
                (lambda a: a.pop("dora"), 'the field "magnitude" is unknown'),
                (lambda a: a["linears"][0].update(magnitude=a["linears"][3]["magnitude"]), "named twice"))):
            program = self.path(f"program-{number}")
            shutil.copytree(f"{self.programs}/one", program)
            with open(f"{program}/manifest.json") as file:
                manifest = json.load(file)
            change(manifest["adapters"])
            with open(f"{program}/manifest.json", "w") as file:
                json.dump(manifest, file)
            done = subprocess.run([f"{BIN}/omnibal-run", program, "--print"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
