#!/usr/bin/env python3
"""Fine-tuning with low-rank adapters: adapters_test.py BIN_FOLDER DATA_FOLDER

Ten steps are those of PEFT (test/scripts/lora_reference.py), on every layout of ranks; what is saved, merged and continued
from is compared byte by byte or computed again here.
"""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from judgement import FLOOR, Float32  # noqa: E402
from mode_batches import Mode, ModeCase, write_folder  # noqa: E402
from projections import RMS, projections  # noqa: E402
from reference_losses import read_safetensors  # noqa: E402
from run_case import BIN, MODEL, RunCase  # noqa: E402

ADAPTERS = os.path.join(MODEL, "adapters")
with open(f"{ADAPTERS}/reference.json", encoding="utf-8") as _file:
    REFERENCE = json.load(_file)
LORA, RSLORA = (tuple(REFERENCE["variants"][name]["flags"]) for name in ("lora", "rslora"))
# The largest of some 250 projections of differences that are rounding alone, of their RMS.
LARGEST = 3
TWO_STAGES = ("--stages", "2")
REPLICAS = ("--data-parallel", "2", "--microbatches", "2")


def compile_model(*flags, graph="model.onnx", output=None):
    target = ["-o", output] if output else ["--dry-run"]
    return subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/{graph}", "--tiles", "24", "--tokens", "420", *flags, *target],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def stages_of(program):
    with open(f"{program}/stages.json") as file:
        return json.load(file)


def shapes_of(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: entry["shape"] for name, entry in header.items()}


def scale_of(folder):
    with open(f"{folder}/adapter_config.json") as file:
        config = json.load(file)
    return config["lora_alpha"] / (config["r"] ** 0.5 if config["use_rslora"] else config["r"])


def judge(test, variant, log_file, saved, name, expected=None):
    """Ten steps from the adapters `variant` and what they leave, against PEFT's."""
    expected, start = expected or REFERENCE["variants"][variant], f"{ADAPTERS}/{variant}"
    with open(log_file) as file:
        log = [json.loads(line) for line in file]
    used = {"loss": 0.0, "grad_norm": 0.0, "moved": 0.0}
    for entry, step in zip(log, expected["steps"], strict=True):
        test.assertEqual(entry["label_tokens"], step["label_tokens"])
        for what in ("loss", "grad_norm"):
            share = Float32.of_number(entry[what], step, what)
            test.assertLessEqual(share, 1, f"step {step['step']}: {what} {entry[what]}, PEFT {step[what + '_float64']}")
            used[what] = max(used[what], share)
    first, last = (read_safetensors(f"{folder}/adapter_model.safetensors") for folder in (start, saved))
    test.assertEqual(last.keys(), expected["moved"].keys())
    test.assertEqual(shapes_of(f"{start}/adapter_model.safetensors"), shapes_of(f"{saved}/adapter_model.safetensors"))
    for parameter, row in expected["moved"].items():
        moved = projections(parameter, [a - b for a, b in zip(last[parameter], first[parameter], strict=True)])
        deviation = max(abs(a - float(b)) for a, b in zip(moved, row["projections"], strict=True))
        share = deviation / (LARGEST * RMS * max(4 * float(row["float32_deviation"]), FLOOR * float(row["norm"])))
        used["moved"] = max(used["moved"], share)
    print(f"{variant}, {name}: share of the tolerance used: {', '.join(f'{what} {share:.3f}' for what, share in used.items())}")
    test.assertLessEqual(used["moved"], 1)


def optimizer():
    settings = REFERENCE["optimizer"]
    return ("--lr", settings["lr"], "--beta1", settings["betas"][0], "--beta2", settings["betas"][1], "--eps", settings["eps"],
            "--weight-decay", settings["weight_decay"], "--clip", settings["clip_grad_norm"])


class AdapterCase(RunCase):
    def bytes(self, path):
        with open(self.path(path), "rb") as file:
            return file.read()

    def saved(self, *flags, name="saved", **options):
        """The bytes of the adapters that a run of a few steps leaves."""
        self.run_tool(*optimizer(), "--save", self.path(name), *flags, **options)
        return self.bytes(f"{name}/adapter_model.safetensors")


class Training(AdapterCase):
    layouts = {f"{variant}-{name}": flags + more for variant, flags in (("lora", LORA), ("rslora", RSLORA))
               for name, more in (("one", ()), ("two", TWO_STAGES), ("replicas", REPLICAS),
                                  ("shares", ("--stages", "2", *REPLICAS, "--zero", "1")))} | {
        "lora-halves": (*LORA, *TWO_STAGES, "--schedule", "zb-h1"), "rslora-planned": (*RSLORA, *TWO_STAGES, "--schedule", "per-step"),
        "lora-recomputed": (*LORA, "--remat", "full"), "whole": ()}

    def check(self, variant, layout):
        self.run_tool(*optimizer(), "--adapter", f"{ADAPTERS}/{variant}", "--save", self.path("saved"), "--log", self.path("log.jsonl"),
                      program=f"{variant}-{layout}")
        judge(self, variant, self.path("log.jsonl"), self.path("saved"), layout)

    def test_ten_steps_are_those_of_peft(self):
        for variant in ("lora", "rslora"):
            for layout in ("one", "two", "replicas", "shares"):
                with self.subTest(variant=variant, layout=layout):
                    self.check(variant, layout)

    def test_other_schedules(self):
        for name in ("lora-halves", "lora-recomputed", "rslora-planned"):
            with self.subTest(program=name):
                self.check(*name.split("-"))

    def test_frozen_weights_have_neither_gradients_nor_moments(self):
        whole, adapted = (stages_of(f"{self.programs}/{name}")[0] for name in ("whole", "lora-one"))
        size = lambda q: 4 * math.prod(q["shape"])
        trained = 0
        for parameter in adapted["parameters"]:
            adapter = ".lora_" in parameter["name"]
            self.assertEqual(parameter["trainable"], adapter, parameter["name"])
            self.assertEqual([offset >= 0 for offset in parameter["offsets"]], [True] + [adapter] * 3 + [False])
            trained += size(parameter) if adapter else 0
        model = sum(size(parameter) for parameter in whole["parameters"])
        padding = 64 * 8 * len(whole["parameters"]) + sum(size(c) for c in adapted["constants"])
        self.assertLessEqual(adapted["persistent_bytes"], model + 4 * trained + padding)
        self.assertGreaterEqual(whole["persistent_bytes"], 4 * model)
        self.assertLess(adapted["arena_bytes"], whole["arena_bytes"] - 2 * model)


class Modes(ModeCase):
    MODEL = MODEL

    def test_training_modes_share_their_adapters(self):
        modes = [Mode(kind, count, self.samples, 1) for kind, count in (("short", 4), ("long", 2))]
        write_folder(self.path("batches"), self.samples, modes, [0, 1] * 5, stages=2)
        flags = ["--stages", "2", *RSLORA, "--batches", self.path("batches"), "-o", self.path("program")]
        subprocess.run([f"{BIN}/omnibal-compile", f"{MODEL}/model.onnx", *flags], check=True, stdout=subprocess.DEVNULL)
        flags = ["--weights", f"{MODEL}/model.safetensors", "--data", self.shard, "--preprocess", f"{MODEL}/preprocessor_config.json",
                 "--batches", self.path("batches"), *map(str, optimizer()), "--adapter", f"{ADAPTERS}/rslora",
                 "--log", self.path("log.jsonl"), "--save", self.path("saved")]
        subprocess.run([f"{BIN}/omnibal-run", self.path("program"), *flags], check=True, stderr=subprocess.DEVNULL)
        judge(self, "rslora", self.path("log.jsonl"), self.path("saved"), "two training modes")


class Values(AdapterCase):
    layouts = {"one": LORA, "two": (*LORA, *TWO_STAGES), "replicas": (*LORA, *REPLICAS), "saved": RSLORA, "plain": ()}

    def test_fresh_adapters_follow_from_the_seed(self):
        steps = ("--steps", 1, "--log", self.path("log.jsonl"))
        one = self.saved(*steps)
        with open(self.path("log.jsonl")) as file:
            loss = json.loads(file.readline())["loss"]
        with open(f"{MODEL}/reference.json") as file:  # B is zero: the model itself
            base = json.load(file)["variants"]["train_all"]["steps"][0]
        self.assertLessEqual(Float32.of_number(loss, base, "loss"), 1)
        self.assertEqual(one, self.saved(*steps, program="two"))
        self.assertEqual(one, self.saved(*steps, "--seed", 0, "--threads", 2))
        self.assertNotEqual(one, self.saved(*steps, "--seed", 1))
        # A step of a rate of nothing leaves what the run began with.
        still = ("--steps", 1, "--lr", 0, "--save", self.path("still"))
        self.run_tool(*still)
        first = self.bytes("still/adapter_model.safetensors")
        for program in ("two", "replicas"):
            self.run_tool(*still, program=program)
            self.assertEqual(first, self.bytes("still/adapter_model.safetensors"), program)
        seen = set()
        for name, values in read_safetensors(self.path("still/adapter_model.safetensors")).items():
            if "lora_B" in name:
                self.assertFalse(any(values), name)
                continue
            bound = shapes_of(self.path("still/adapter_model.safetensors"))[name][1] ** -0.5
            self.assertLess(max(map(abs, values)), bound * (1 + 1e-6))
            self.assertGreater(max(map(abs, values)), 0.97 * bound)
            self.assertLess(abs(sum(values)) / len(values), 0.15 * bound)
            self.assertAlmostEqual(sum(v * v for v in values) / len(values) / bound ** 2, 1 / 3, delta=0.1)
            seen.add(values[:8])
        self.assertEqual(len(seen), 42)

    def test_a_run_goes_on_from_its_checkpoint(self):
        whole = self.saved("--steps", 6, "--checkpoint", self.path("a"), "--checkpoint-every", 3, "--keep-every", 3)
        for program in ("one", "two"):
            shutil.rmtree(self.path("b"), ignore_errors=True)
            self.run_tool(*optimizer(), "--steps", 3, "--checkpoint", self.path("b"))
            self.assertEqual(whole, self.saved("--steps", 6, "--checkpoint", self.path("b"), "--resume", "auto", program=program))
        # The values of a checkpoint count, whatever a run would have begun with.
        self.assertEqual(whole, self.saved("--steps", 6, "--resume", self.path("a/step-00000003"), "--seed", 5, "--adapter", f"{ADAPTERS}/lora"))
        self.run_tool(*optimizer(), "--steps", 7, "--resume", self.path("a"), program="saved", code=1, says="which this program trains")
        self.run_tool(*optimizer(), "--steps", 7, "--resume", self.path("a"), program="plain", code=1, says="which this program does not train")

    def test_what_is_saved_is_what_a_run_begins_with(self):
        for program in ("one", "saved"):
            trained = self.saved("--steps", 3, program=program)
            self.run_tool("--steps", 1, "--lr", 0, "--adapter", self.path("saved"), "--save", self.path("again"), program=program)
            self.assertEqual(trained, self.bytes("again/adapter_model.safetensors"))
            self.assertEqual(self.bytes("saved/adapter_config.json"), self.bytes("again/adapter_config.json"))
            self.assertEqual(sorted(os.listdir(self.path("saved"))), ["adapter_config.json", "adapter_model.safetensors"])
        with open(self.path("saved/adapter_config.json")) as file:
            config = json.load(file)
        self.assertEqual({name: config[name] for name in ("peft_type", "task_type", "r", "lora_alpha", "use_rslora", "lora_dropout",
                                                          "bias", "fan_in_fan_out", "base_model_name_or_path", "modules_to_save")},
                         dict(peft_type="LORA", task_type="CAUSAL_LM", r=4, lora_alpha=8, use_rslora=True, lora_dropout=0.0, bias="none",
                              fan_in_fan_out=False, base_model_name_or_path=os.path.realpath(MODEL),
                              modules_to_save=["model.language_model.norm", "model.multi_modal_projector.linear_1"]))
        self.assertEqual(len(config["target_modules"]), 42)
        self.assertIn("model.language_model.layers.5.mlp.down_proj", config["target_modules"])

    def test_a_checkpoint_is_exported_as_a_run_saves(self):
        for program in ("two", "saved"):
            checkpoint = self.path(f"{program}.ck")
            flags = (*optimizer(), "--steps", 2, "--checkpoint", checkpoint)
            self.run_tool(*flags, "--save", self.path("saved"), program=program)
            self.run_tool(*flags, "--overwrite", "--save", self.path("merged"), "--merge-adapters", program=program)
            for flag, folder, name in (((), "saved", "adapter_model.safetensors"), (("--merge-adapters",), "merged", "model.safetensors")):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                subprocess.run([f"{BIN}/omnibal-run", "--export-checkpoint", checkpoint, "--weights", f"{MODEL}/model.safetensors",
                                "--save", self.path("out"), *flag], check=True, stderr=subprocess.DEVNULL)
                self.assertEqual(sorted(os.listdir(self.path("out"))), sorted(os.listdir(self.path(folder))))
                for each in os.listdir(self.path("out")):
                    self.assertEqual(self.bytes(f"out/{each}"), self.bytes(f"{folder}/{each}"), each)

    def test_merged_weights_are_the_weights_and_their_adapters(self):
        for program, start in (("two", "lora"), ("saved", "rslora")):
            flags = (*optimizer(), "--steps", 3, "--adapter", f"{ADAPTERS}/{start}")
            self.run_tool(*flags, "--save", self.path("saved"), program=program)
            self.run_tool(*flags, "--save", self.path("merged"), "--merge-adapters", program=program)
            base, merged = read_safetensors(f"{MODEL}/model.safetensors"), read_safetensors(self.path("merged/model.safetensors"))
            adapters, shapes = read_safetensors(self.path("saved/adapter_model.safetensors")), shapes_of(f"{MODEL}/model.safetensors")
            scale, changed = scale_of(self.path("saved")), set()
            for name, values in adapters.items():
                name = name.removeprefix("base_model.model.")
                if not name.endswith(".lora_A.weight"):
                    if ".lora_" not in name:
                        self.assertEqual(merged[name], values)
                        changed.add(name)
                    continue
                weight = name.replace(".lora_A", "")
                rows, columns = shapes[weight]
                a, b = values, adapters["base_model.model." + name.replace("lora_A", "lora_B")]
                rank = len(a) // columns
                changed.add(weight)
                for row in range(0, rows, 7):
                    for column in range(0, columns, 5):
                        sum_ = sum(b[row * rank + r] * a[r * columns + column] for r in range(rank))
                        self.assertAlmostEqual(merged[weight][row * columns + column], base[weight][row * columns + column] + scale * sum_, delta=1e-6)
            self.assertEqual(base.keys(), merged.keys())
            self.assertEqual({name for name in base if base[name] != merged[name]}, changed)
            for each in ("config.json", "preprocessor_config.json"):
                self.assertEqual(self.bytes(f"merged/{each}"), self.bytes(f"{MODEL}/{each}"))
            losses = []
            for flags in (dict(program=program), dict(program="plain", weights=self.path("merged"))):
                more = ("--adapter", self.path("saved")) if flags["program"] == program else ()
                command = [c for c in self.command("--evaluate", "--log", self.path("eval.json"), *more, **flags)]
                at = command.index("--steps-file")
                subprocess.run(command[:at] + command[at + 2:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                with open(self.path("eval.json")) as file:
                    losses.append(json.load(file)["loss"])
            self.assertAlmostEqual(losses[0], losses[1], delta=1e-6)

    def test_types_of_saved_adapters(self):
        self.saved("--steps", 2)
        exact = read_safetensors(self.path("saved/adapter_model.safetensors"))
        for dtype, name_of_type, form in (("bfloat16", "BF16", None), ("float16", "F16", "e")):
            self.saved("--steps", 2, "--save-dtype", dtype)
            with open(self.path("saved/adapter_model.safetensors"), "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
                for name, values in exact.items():
                    begin, end = header[name]["data_offsets"]
                    self.assertEqual((end - begin, header[name]["dtype"]), (2 * len(values), name_of_type))
                    file.seek(8 + length + begin)
                    stored = file.read(end - begin)
                    if form:
                        rounded = struct.unpack(f"<{len(values)}{form}", stored)
                        self.assertTrue(all(abs(a - b) <= 2 ** -11 * abs(b) + 2 ** -25 for a, b in zip(rounded, values)), name)


class Graphs(AdapterCase):
    """The same model exported in other ways."""
    layouts = {}

    def test_weights_that_an_exporter_has_transposed(self):
        saved = {}
        for graph in ("model.onnx", "model-optimized.onnx"):
            done = compile_model(*LORA, "--weights", MODEL, graph=graph, output=f"{self.programs}/{graph}")
            self.assertEqual(done.returncode, 0, done.stderr)
            steps = ("--steps", 2, "--adapter", f"{ADAPTERS}/lora")
            self.saved(*steps, program=graph)
            self.run_tool(*optimizer(), *steps, "--save", self.path("merged"), "--merge-adapters", program=graph)
            saved[graph] = read_safetensors(self.path("saved/adapter_model.safetensors")) | read_safetensors(self.path("merged/model.safetensors"))
        one, other = saved.values()
        self.assertEqual(one.keys(), other.keys())
        for name, values in one.items():
            for a, b in zip(values, other[name], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=name)

    def test_what_the_compiler_says(self):
        done = compile_model(*LORA)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("adapters: 42 linear layers of rank 4, alpha 8, scale 2; 23,712 of ", done.stdout)
        self.assertRegex(done.stdout, r"parameters train \(\d+\.?\d* %\)")
        self.assertIn("3 parameters train as they are", compile_model(*RSLORA).stdout)


class Errors(AdapterCase):
    layouts = {"one": LORA, "plain": ()}

    def test_flags_of_the_compiler(self):
        pattern = ("--lora", "q_proj")
        for flags, code, says in (
                ((*pattern, "--freeze", "vision"), 2, "--freeze goes without --lora"),
                ((*pattern, "--freeze-match", "x"), 2, "--freeze-match goes without --lora"),
                ((*pattern, "--lora-dropout", "1"), 2, "--lora-dropout"),
                ((*pattern, "--lora-dropout", "some"), 2, "--lora-dropout"),
                (("--lora-dropout", "0.1"), 2, "--lora-dropout needs --lora"),
                ((*pattern, "--lora-rank", "0"), 2, "--lora-rank"),
                ((*pattern, "--lora-alpha", "-1"), 2, "--lora-alpha"),
                (("--lora", ""), 2, "--lora is empty"),
                (("--lora-rank", "4"), 2, "--lora-rank needs --lora"),
                (("--rslora",), 2, "--rslora needs --lora"),
                (("--modules-to-save", "norm"), 2, "--modules-to-save needs --lora"),
                (("--lora", "languge.*q_prj"), 1, "linear layers with names near it: model.language_model.layers.0.self_attn.q_proj, "),
                (("--lora", "("), 1, "is not a regular expression"),
                ((*pattern, "--modules-to-save", "resampler"), 1, "no parameter's name matches 'resampler'")):
            with self.subTest(flags=flags):
                done = compile_model(*flags)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)
        self.assertEqual(compile_model(*pattern, "--lora-dropout", "0").returncode, 0)
        self.assertIn("get no adapter, as they are not the weights of linear layers alone", compile_model("--lora", "language").stderr)

    def changed(self, name, change):
        """A copy of a folder of adapters with another configuration."""
        shutil.copytree(f"{ADAPTERS}/lora", self.path(name))
        with open(self.path(f"{name}/adapter_config.json")) as file:
            config = json.load(file)
        change(config)
        with open(self.path(f"{name}/adapter_config.json"), "w") as file:
            json.dump(config, file)
        return self.path(name)

    def test_folders_of_other_adapters(self):
        for number, (change, says) in enumerate((
                (dict(r=8), "r is 8, but the program's adapters have rank 4; compile it with --lora-rank 8"),
                (dict(lora_alpha=16), "the scale 4.0, but the program's adapters have the scale 2.0; compile it with --lora-alpha 16.0"),
                (dict(use_rslora=True), "compile it with --lora-alpha 8.0 --rslora"),
                (dict(peft_type="IA3"), 'peft_type is not "LORA"'),
                (dict(use_dora=True), "use_dora is true, but the program's adapters have no magnitudes; compile it with --dora"),
                (dict(use_qalora=True), "use_qalora is true; adapters of this kind are not supported"),
                (dict(rank_pattern={"q_proj": 8}), "rank_pattern is"),
                (dict(bias="all"), 'bias is "all"'),
                (dict(r="4"), "r is missing or not a number"))):
            with self.subTest(change=change):
                folder = self.changed(f"changed-{number}", lambda config: config.update(change))
                self.run_tool("--adapter", folder, code=1, says=says)
        self.run_tool("--adapter", f"{ADAPTERS}/rslora", code=1, says="--rslora")
        same = self.changed("same", lambda config: config.update(lora_alpha=4, use_rslora=True))  # 4 / sqrt(4)
        self.run_tool("--adapter", same, "--steps", 1)
        surplus = self.changed("surplus", lambda config: None)
        shutil.copy(f"{ADAPTERS}/rslora/adapter_model.safetensors", surplus)
        self.run_tool("--adapter", surplus, code=1, says="is not of the program's adapters and would be lost")
        os.remove(f"{surplus}/adapter_model.safetensors")
        self.run_tool("--adapter", surplus, code=1, says="adapter_model.safetensors")
        self.run_tool("--adapter", self.path("nowhere"), code=1, says="adapter_config.json")

    def test_flags_of_a_run(self):
        self.run_tool("--merge-adapters", code=2, says="--merge-adapters needs --save")
        self.run_tool("--merge-adapters", "--save", self.path("s"), program="plain", code=1, says="has no adapters")
        self.run_tool("--adapter", f"{ADAPTERS}/lora", program="plain", code=1, says="--adapter: ")
        self.run_tool("--seed", "x", code=2, says="--seed")

    def test_a_damaged_manifest(self):
        for number, (change, says) in enumerate((
                (lambda a: a.update(rank=3), "p19: manifest, adapters: the adapter of"),
                (lambda a: a.update(alpha=-1), "alpha must be a number above 0"),
                (lambda a: a["linears"][0].update(weight="no.such"), 'no stage has the parameter "no.such"'),
                (lambda a: a["linears"].append(a["linears"][0]), "is named twice"),
                (lambda a: a["saved"].append(dict(parameter="model.language_model.norm.weight", module="x")), "no gradient reaches"),
                (lambda a: a["saved"].append(dict(parameter="norm", module="x")), "the name of a parameter in a module is expected"),
                (lambda a: a.update(drop=0), 'the field "drop" is unknown'),
                (lambda a: a.update(dropout=1.5), "dropout: a number from 0.0 to 1.0 is expected"),
                (lambda a: a.pop("alpha"), 'the field "alpha" is missing'))):
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
