#!/usr/bin/env python3
"""One file of options for all tools: config_test.py BIN_FOLDER DATA_FOLDER [unittest options]"""
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = (os.path.abspath(path) for path in sys.argv[1:3])
EXAMPLE = os.path.join(DATA, "..", "..", "examples", "smolvlm")
MODEL = os.path.join(DATA, "tiny-internvl")
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
TOOLS = ("batch", "compile", "plan", "run")
BATCH = ("--tiles", "24", "--tokens", "420", "--seed", "3")
COMPILE = (f"{MODEL}/model.onnx", "--tiles", "24", "--tokens", "420", "--stages", "2", "--microbatches", "2", "--freeze", "vision")
RUN = ("program", "--weights", f"{MODEL}/model.safetensors", "--data", "shards", "--preprocess", f"{MODEL}/preprocessor_config.json",
       "--batches", "batches", "--steps", "3", "--lr", "1e-3", "--lr-of", "projector=2e-3", "--seed", "3")
FILE = f"""
tiles = 24
tokens = 420
seed = 3
weights = "{MODEL}/model.safetensors"  # of the tests' own model

[batch]
lengths = ["shards"]
output = "batches"

[compile]
model = "{MODEL}/model.onnx"
output = "program"
stages = 2
microbatches = 2
freeze = ["vision"]

[run]
program = "program"
data = ["shards"]
preprocess = "{MODEL}/preprocessor_config.json"
batches = "batches"
steps = 3
lr = 1e-3
lr-of = ["projector=2e-3"]
save = "trained"
log = "run.jsonl"
"""


class ConfigCase(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-config-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def lay_out(self, model):
        for folder in ("shards", "held-out"):
            os.makedirs(self.path(folder))
            shutil.copy(f"{model}/data-000000.tar", self.path(folder))

    def call(self, tool, *words, code=0, launcher=()):
        result = subprocess.run([*launcher, os.path.join(BIN, f"omnibal-{tool}"), *words], cwd=self.work, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(result.returncode, code, f"{tool} {words}\n{result.stdout}\n{result.stderr}")
        return result

    def effective(self, tool, *words):
        return self.call(tool, *words, "--print-config").stdout

    def check_same_folder(self, one, other):
        names = sorted(os.listdir(self.path(one)))
        self.assertEqual(names, sorted(os.listdir(self.path(other))))
        _, different, errors = filecmp.cmpfiles(self.path(one), self.path(other), names, shallow=False)
        self.assertEqual((different, errors), ([], []))


class OneFile(ConfigCase):
    def setUp(self):
        super().setUp()
        self.lay_out(MODEL)
        self.write("omnibal.toml", FILE)

    def by_file(self):
        for tool in ("batch", "compile", "run"):
            self.call(tool, "--config", "omnibal.toml")

    def test_does_what_the_flags_do(self):
        self.by_file()
        self.call("batch", "shards", *BATCH, "-o", "other/batches")
        self.call("compile", *COMPILE, "--weights", f"{MODEL}/model.safetensors", "-o", "other/program")
        self.call("run", *RUN, "--save", "other/trained")
        self.check_same_folder("program", "other/program")
        self.check_same_folder("trained", "other/trained")
        for name in ("samples.npy", "groups.npy"):
            self.assertTrue(filecmp.cmp(self.path(f"batches/{name}"), self.path(f"other/batches/{name}"), shallow=False))
        lines = [json.loads(line) for line in self.read("run.jsonl").splitlines()]
        self.assertEqual([(line["lr"], line["lr_of"]) for line in lines], 3 * [(1e-3, {"projector": 2e-3})])

    def test_the_command_line_goes_before_the_file(self):
        self.by_file()
        self.call("run", "--config", "omnibal.toml", "--steps", "1", "--lr", "2", "--lr-of", "language=3", "--log", "other.jsonl")
        line, = map(json.loads, self.read("other.jsonl").splitlines())
        self.assertEqual((line["lr"], line["lr_of"]), (2, {"language": 3}))

    def test_stands_beside_the_checkpoints(self):
        self.by_file()
        flags = ("--config", "omnibal.toml", "--checkpoint", "ck", "--save", "first")
        self.call("run", *flags, launcher=MPIRUN)
        mark, text = self.read("ck/omnibal.toml").split("\n", 1)
        self.assertTrue(mark.startswith("# Written by omnibal-run"), mark)
        self.assertEqual(text, self.effective("run", *flags))
        # It repeats the run.
        self.call("run", "--config", "ck/omnibal.toml", "--save", "second", "--overwrite")
        self.check_same_folder("first", "second")
        self.assertIn('\nsave = "second"\n', self.read("ck/omnibal.toml"))
        # A file that a user wrote stays.
        self.write("ck/omnibal.toml", FILE)
        said = self.call("run", *flags, "--overwrite").stderr
        self.assertEqual(self.read("ck/omnibal.toml"), FILE)
        self.assertIn("ck/omnibal.toml was not written by a run, so it stays", said)

    def test_a_run_that_is_refused_leaves_the_folder_as_it_is(self):
        self.by_file()
        flags = ("--config", "omnibal.toml", "--checkpoint", "ck")
        self.call("run", *flags)
        before = self.read("ck/omnibal.toml")
        self.call("run", *flags, "--lr", "1e-4", code=1)  # the folder holds another run's
        self.assertEqual(self.read("ck/omnibal.toml"), before)


class PrintConfig(ConfigCase):
    """What --print-config prints sets the same."""

    def check(self, tool, *words):
        text = self.effective(tool, *words)
        self.write("again.toml", text)
        self.assertEqual(self.effective(tool, "--config", "again.toml"), text)
        # A comment is a default: it may as well be said, as far as flags go together.
        return {line.split(" = ")[0]: line.split(" = ", 1)[1] for line in text.splitlines() if re.match(r"[a-z]", line)}

    def test_reads_back_the_same(self):
        found = self.check("batch", "a b.csv", *BATCH, "--ranks", "8", "--json", "--mix", "a.csv=3", "b.csv=1", "--oversize", "skip",
                           "--min-gain", "0.1")
        self.assertEqual(found, {"lengths": '["a b.csv"]', "tiles": "24", "tokens": "420", "seed": "3", "ranks": "8", "json": "true",
                                 "mix": '["a.csv=3", "b.csv=1"]', "oversize": '"skip"', "min-gain": "0.1"})
        found = self.check("compile", *COMPILE, "--data-parallel", "auto", "--z-loss", "1e-4", "--lora", r'a\.b"c', "--rslora",
                           "--memory-limit-bytes", "30000000000", "--router-loss-coefficient", "0.125")
        self.assertEqual(found, {"model": f'"{MODEL}/model.onnx"', "tiles": "24", "tokens": "420", "stages": "2", "microbatches": "2",
                                 "freeze": '["vision"]', "data-parallel": '"auto"', "z-loss": "1e-04", "lora": r'"a\\.b\"c"',
                                 "rslora": "true", "memory-limit-bytes": "30000000000", "router-loss-coefficient": "0.125"})
        found = self.check("plan", "problem.json", "-o", "plan.json", "--time-limit", "2.5", "--baselines")
        self.assertEqual(found, {"files": '["problem.json"]', "output": '"plan.json"', "time-limit": "2.5", "baselines": "true"})
        found = self.check("run", *RUN, "--schedule-lr", "wsd", "--decay-steps", "2", "--decay-shape", "1-sqrt", "--loss-normalizer",
                           "epoch", "--save-dtype", "bfloat16", "--overwrite", "--eps", "1e-9")
        self.assertEqual({name: found[name] for name in ("program", "lr", "lr-of", "schedule-lr", "decay-shape", "loss-normalizer",
                                                         "save-dtype", "overwrite", "eps")},
                         {"program": '"program"', "lr": "0.001", "lr-of": '["projector=2e-3"]', "schedule-lr": '"wsd"',
                          "decay-shape": '"1-sqrt"', "loss-normalizer": '"epoch"', "save-dtype": '"bfloat16"', "overwrite": "true",
                          "eps": "1e-09"})

    def test_defaults_are_those_of_the_tool(self):
        """As comments they change nothing, and without the sign for a comment nothing either."""
        for tool, words in (("batch", ("a.csv",)), ("plan", ("p.json",)), ("run", ("program",))):
            text = self.effective(tool, *words)
            said = re.sub(r"^# ([a-z0-9-]+ = )", r"\1", text, flags=re.M)
            self.assertNotEqual(said, text)
            if tool == "run":  # excludes --checkpoint-every, and has a default
                self.assertIn("\ncheckpoint-minutes = 10\n", said)
            self.write("said.toml", said)
            again = self.effective(tool, "--config", "said.toml")
            self.assertEqual(re.sub(r"^# ([a-z0-9-]+ = )", r"\1", again, flags=re.M), said)


class Refused(ConfigCase):
    def refused(self, tool, text, *words):
        name = self.write("omnibal.toml", text)
        said = self.call(tool, "--config", name, *words, code=2).stderr
        self.assertTrue(said.endswith("\nRun with --help for more information.\n"), said)
        self.assertEqual(said.count("\n"), 2, said)
        return said.split("\n")[0]

    def test_all_tools_say_it_alike(self):
        for tool in TOOLS:
            own = {"batch": ("oversise", "oversize"), "compile": ("data_paralel", "data-parallel"), "plan": ("time-limits", "time-limit"),
                   "run": ("checkpoint-minute", "checkpoint-minutes")}[tool]
            self.assertEqual(self.refused(tool, f"# one\n[{tool}]\n{own[0]} = 1\n"),
                             f'omnibal-{tool}: omnibal.toml:3: omnibal-{tool} has no option "{own[0]}"; the nearest is "{own[1]}"')
            self.assertEqual(self.refused(tool, f"{own[0]} = 1\n"),
                             f'omnibal-{tool}: omnibal.toml:1: omnibal-{tool} has no option "{own[0]}"; the nearest is "{own[1]}"')
            self.assertEqual(self.refused(tool, "[runn]\n"),
                             f"omnibal-{tool}: omnibal.toml:1: no tool has a table [runn]; the nearest is [run]")
            self.assertEqual(self.refused(tool, f"[{tool}]\noutput = true\n"),
                             f'omnibal-{tool}: omnibal.toml:2: "output" is a text in quotation marks, not true')
            self.assertRegex(self.refused(tool, f"[{tool}]\n\noutput = = 3\n"), rf"^omnibal-{tool}: --config: omnibal.toml:3: \S")
            self.assertRegex(self.refused(tool, "[run]\n", "omnibal.toml", "--no-such-flag"), rf"^omnibal-{tool}: .*--no-such-flag")

    def test_words_for_numbers(self):
        self.assertEqual(self.refused("compile", '[compile]\nstages = "some"\n'),
                         'omnibal-compile: omnibal.toml:2: "stages": some is not a whole number from 1 to 1048576')
        self.assertEqual(self.refused("run", '[run]\nschedule-lr = "linaer"\n'),
                         'omnibal-run: omnibal.toml:2: "schedule-lr": linaer is none of constant, cosine, cosine-restarts, linear, '
                         "polynomial, wsd")
        said = self.call("run", "--loss-normalizer", "steps", code=2).stderr
        self.assertEqual(said.split("\n")[0], "omnibal-run: --loss-normalizer: steps is none of epoch, samples, step")

    def test_values_that_come_from_rules(self):
        self.assertRegex(self.refused("run", '[run]\nlr = 1\nlr-of = ["vision=fast"]\n'), r'^omnibal-run: omnibal.toml:3: "lr-of": ')


class Flat(ConfigCase):
    """Files without tables, as CLI11's own reader took them."""

    def found(self, tool, text, *words):
        self.write("omnibal.toml", text)
        said = self.effective(tool, *words, "--config", "omnibal.toml")
        return {line.split(" = ")[0]: line.split(" = ", 1)[1] for line in said.splitlines() if re.match(r"[a-z]", line)}

    def test_letters_numbers_and_texts(self):
        self.assertEqual(self.found("compile", f'model = "{MODEL}/model.onnx"\no = "program/"\ntiles = "9"\ntokens = 4096\nmicrobatches = "2"\n'
                                    'dry-run = "true"\nrslora = 0\n'),
                         {"model": f'"{MODEL}/model.onnx"', "output": '"program/"', "tiles": "9", "tokens": "4096", "microbatches": "2",
                          "dry-run": "true"})
        self.assertEqual(self.found("batch", 'lengths = "a.csv"\no = "batches/"\ntiles = 9\ntokens = 4096\ncurriculum = 100\n'
                                    'length-groups = 4096\njson = 1\n'),
                         {"lengths": '["a.csv"]', "output": '"batches/"', "tiles": "9", "tokens": "4096", "curriculum": '"100"',
                          "length-groups": '"4096"', "json": "true"})
        self.assertEqual(self.found("run", 'program = "program/"\ndata = "shards"\nshow-sample = 17\nlr = "1e-4"\noverwrite = "true"\n'),
                         {"program": '"program/"', "data": '["shards"]', "show-sample": '"17"', "lr": "1e-04", "overwrite": "true"})

    def test_seeds_of_64_bits(self):
        for seed in (2**63 - 1, 2**63, 2**64 - 1):
            text = self.effective("run", "program", "--seed", str(seed))
            self.write("again.toml", text)
            self.assertEqual(self.effective("run", "--config", "again.toml"), text)
            self.assertRegex(text, rf'\nseed = "?{seed}"?\n')
        for seed in ("-1", str(2**64), "1.5", "x"):
            said = self.call("run", "program", "--seed", seed, code=2).stderr
            self.assertIn(f"--seed: {seed} is not a whole number from 0 to {2**64 - 1}", said)


class SharedKeys(ConfigCase):
    def test_several_tools_have_them(self):
        said = self.call("run", "--config", self.write("omnibal.toml", "nothing = 1\n[run]\n"), code=2).stderr
        keys = re.search(r"where only (.*) may stand", said).group(1).split(", ")
        self.assertIn("tiles", keys)
        helps = {tool: self.call(tool, "--help").stdout for tool in TOOLS}
        for key in keys:
            self.assertGreaterEqual(sum(bool(re.search(rf"^  --{key} ", text, re.M)) for text in helps.values()), 2, key)
        for tool, text in helps.items():
            self.assertIn(f"a table [{tool}]", text)
            self.assertNotIn("ENUM", text)

    def test_help_of_the_runs_has_groups(self):
        text = self.call("run", "--help").stdout
        # In the group that CLI11 makes for what has none there is only what all tools have.
        plain = re.search(r"^Options:\n(.*?)\n\n", text, re.M | re.S).group(1)
        self.assertEqual(re.findall(r"^  (?:-h,)?(--[a-z-]+)", plain, re.M), ["--help", "--version", "--config", "--print-config"])
        self.assertGreaterEqual(len(re.findall(r"^[A-Z][a-z ]+:$", text, re.M)), 10)
        self.assertIn("--schedule-lr TEXT:{constant,cosine,cosine-restarts,linear,polynomial,wsd}=constant", text)
        self.assertIn("--decay-shape TEXT:{1-sqrt,cosine,linear}", text)


class Examples(ConfigCase):
    def test_the_file_of_the_manual(self):
        """As it stands there, but for the caps of the tests' own model."""
        os.makedirs(self.path("model"))
        for name in ("model.onnx", "model.safetensors", "preprocessor_config.json"):
            shutil.copy(f"{MODEL}/{name}", self.path("model"))
        self.lay_out(MODEL)
        with open(os.path.join(DATA, "..", "..", "docs", "running.md"), encoding="utf-8") as file:
            text = file.read()
        example, commands = re.search(r"^```toml\n(.*?)^```\n\n    (.*?)\n", text, re.M | re.S).groups()
        example, caps = re.subn(r"^(tiles|tokens) = \d+", lambda cap: f"{cap[1]} = {dict(tiles=24, tokens=420)[cap[1]]}", example, flags=re.M)
        self.assertEqual(caps, 2)
        self.write("omnibal.toml", example)
        calls = [command.split() for command in commands.split(" && ")]
        self.assertEqual([tool for tool, *_ in calls], ["omnibal-batch", "omnibal-compile", "omnibal-run"])
        for tool, *words in calls:
            self.call(tool.removeprefix("omnibal-"), *words)
        self.assertTrue(os.path.exists(self.path("trained/model.safetensors")))

    def test_the_file_of_adapters(self):
        """The manual has a complete run by the example's file; here it is a short one of a small model of the same architecture."""
        model = os.path.join(DATA, "tiny-idefics3")
        self.lay_out(model)
        with open(os.path.join(EXAMPLE, "lora.toml"), encoding="utf-8") as file:
            self.write("lora.toml", file.read())
        with open(os.path.join(DATA, "..", "..", "docs", "running.md"), encoding="utf-8") as file:
            text = file.read().replace("examples/smolvlm/lora.toml", "lora.toml").replace("MODEL_FOLDER", model)
        commands = re.findall(r"^(mpirun.*? )?build/bin/omnibal-(\w+) (.*--config lora.toml.*)$", text, re.M)
        self.assertEqual([tool for _, tool, _ in commands], ["batch", "compile", "run"])
        short = ("--steps", "4", "--warmup-steps", "1", "--evaluate-every", "2")
        for launcher, tool, words in commands:
            said = self.call(tool, *words.split(), *(short if tool == "run" else ()),
                             launcher=MPIRUN[:3] + tuple(launcher.split()[1:]) if launcher else ())
            if tool == "compile":
                self.assertRegex(said.stdout, r"adapters")
        for name in ("adapters/adapter_model.safetensors", "checkpoints/best", "checkpoints/omnibal.toml"):
            self.assertTrue(os.path.exists(self.path(name)), name)
        with open(self.path("adapters/adapter_config.json")) as file:
            config = json.load(file)
        self.assertEqual((config["r"], config["lora_alpha"]), (16, 32))
        self.call("run", "--export-checkpoint", "checkpoints/" + self.read("checkpoints/best").strip(), "--weights", model, "--save",
                  "best-adapters")
        self.assertTrue(os.path.exists(self.path("best-adapters/adapter_model.safetensors")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
