#!/usr/bin/env python3
"""A process never has more memory resident than omnibal-run says before the first step: memory_test.py BIN_FOLDER DATA_FOLDER

The judge is the kernel: wait4's ru_maxrss of every process. What is said must also be of use: at most FACTOR times
what a process had in the end.
"""
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from png_files import png  # noqa: E402

BIN, DATA = (os.path.abspath(path) for path in sys.argv[1:3])
FACTOR = 6
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
SAID = re.compile(r"^  process of (.*?)  at most ([\d.]+) (B|kB|MB|GB) resident: ", re.M)
# Stands between mpirun and a rank; a file of its own, so that the process that starts ranks stays small.
WATCH = """import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1] + "." + os.environ.get("OMPI_COMM_WORLD_RANK", "0"), "w") as file:
    file.write(str(usage.ru_maxrss * 1024))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def samples_of(shard):
    """[(KEY.json as an object, [(ending, picture's bytes)])]"""
    with tarfile.open(shard) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    samples = []
    for name in sorted(files):
        if name.endswith(".json"):
            sample = json.loads(files[name])
            pictures = [(f".{i}.png", files[f"{name[:-5]}.{i}.png"]) for i in range(sample["images"])]
            samples.append((sample, pictures))
    return samples


def write_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, (sample, pictures) in samples:
            for ending, content in [(".json", json.dumps(sample).encode()), *pictures]:
                info = tarfile.TarInfo(key + ending)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="omnibal-memory-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        with open(cls.path("watch.py"), "w") as file:
            file.write(WATCH)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.work, name)

    def compile(self, name, model, tiles, tokens, *flags):
        command = [os.path.join(BIN, "omnibal-compile"), os.path.join(DATA, model, "model.onnx"), "--tiles", tiles, "--tokens", tokens,
                   *flags, "-o", self.path(name)]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE)

    def run_program(self, name, model, data, *flags, ranks=0, preprocess=None):
        """Runs it under the judge; `ranks`: in processes of their own. Returns what it wrote to stderr."""
        folder, report = os.path.join(DATA, model), self.path("peak")
        for found in os.listdir(self.work):
            if found.startswith("peak."):
                os.remove(self.path(found))
        command = [sys.executable, self.path("watch.py"), report, os.path.join(BIN, "omnibal-run"), self.path(name), "--weights",
                   os.path.join(folder, "model.safetensors"), "--data", data, "--preprocess",
                   preprocess or os.path.join(folder, "preprocessor_config.json"), *flags]
        if ranks:
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks, *command]
        result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
        self.assertEqual(result.returncode, 0, result.stderr)
        # Numbers are printed with a tenth or a hundredth: the last digit may be rounded down.
        said = [(who, (float(value) + 0.05) * UNITS[unit]) for who, value, unit in SAID.findall(result.stderr)]
        peaks = {}
        for found in os.listdir(self.work):
            if found.startswith("peak."):
                with open(self.path(found)) as file:
                    peaks[int(found[5:])] = int(file.read())
        self.assertEqual(len(peaks), max(1, ranks))
        self.assertTrue(said, result.stderr)
        for rank, peak in sorted(peaks.items()):
            who, bound = said[rank % len(said)]
            print(f"{self.id().split('.')[-1]}: process of {who}: {peak / 1e6:.1f} MB of at most {bound / 1e6:.1f} MB "
                  f"({bound / peak:.2f} times)", flush=True)
            self.assertLessEqual(peak, bound, result.stderr)
            self.assertLessEqual(bound, FACTOR * peak, result.stderr)
        return result.stderr

    def steps_file(self, groups_of_steps):
        with open(self.path("steps.jsonl"), "w") as file:
            for groups in groups_of_steps:
                file.write(json.dumps({"groups": groups}) + "\n")
        return self.path("steps.jsonl")

    def reference_steps(self, model):
        with open(os.path.join(DATA, model, "reference.json")) as file:
            return self.steps_file(step["groups"] for step in json.load(file)["variants"]["train_all"]["steps"])

    def test_small_models_in_several_layouts(self):
        for model, flags, ranks in (("tiny-internvl", (), 0), ("tiny-llava", ("--stages", 2, "--data-parallel", 2, "--microbatches", 2), 0),
                                    ("tiny-internvl", ("--stages", 2), 2)):
            with self.subTest(model=model, flags=flags, ranks=ranks):
                self.compile("program", model, 30, 600, *flags)
                self.run_program("program", model, os.path.join(DATA, model, "data-000000.tar"), "--steps-file",
                                 self.reference_steps(model), "--threads", 2, ranks=ranks)

    def test_all_that_a_run_can_write(self):
        model = "tiny-internvl"
        self.compile("program", model, 24, 420)
        data = os.path.join(DATA, model, "data-000000.tar")
        flags = ("--steps-file", self.reference_steps(model), "--checkpoint", self.path("checkpoints"), "--checkpoint-every", 2)
        self.run_program("program", model, data, *flags, "--save", self.path("saved"), "--save-gradients",
                         self.path("gradients.safetensors"), "--trace", self.path("trace.json"), "--trace-steps", 4, "--sample-every", 5, "--sample-count", 64, "--log",
                         self.path("log.jsonl"))
        shutil.rmtree(self.path("checkpoints/step-00000010"))
        self.run_program("program", model, data, *flags, "--resume", self.path("checkpoints"), "--log", self.path("log.jsonl"))
        self.run_program("program", model, data, "--evaluate")

    def many_pictures(self, model, count):
        """A shard of `count` samples, each of as many pictures as fit, and their keys."""
        source = [s for s in samples_of(os.path.join(DATA, model, "data-000000.tar")) if s[0]["images"] >= 4]
        self.assertGreaterEqual(len(source), 3)
        keys = [f"s{i:06}" for i in range(count)]
        write_shard(self.path("many.tar"), ((key, source[i % len(source)]) for i, key in enumerate(keys)))
        return self.path("many.tar"), keys

    def test_many_pictures_and_a_long_training(self):
        model = "tiny-internvl"
        data, keys = self.many_pictures(model, 6000)
        self.compile("program", model, 10, 250, "--microbatches", 4)
        chooser = random.Random(1)
        steps = [[[key] for key in chooser.sample(keys, 4)] for _ in range(300)]
        said = self.run_program("program", model, data, "--steps-file", self.steps_file(steps), "--steps", 600)
        self.assertIn("step 600/600", said)

    def test_groups_of_their_own_in_each_epoch(self):
        model = "tiny-internvl"
        data, _ = self.many_pictures(model, 400)
        lengths = self.path("lengths.csv")
        with open(lengths, "w") as file:
            file.write("vit_num,token_num\n")
            for sample, _ in samples_of(data):
                file.write(f"{sample['images']},{len(sample['input_ids'])}\n")
        subprocess.run([os.path.join(BIN, "omnibal-batch"), lengths, "--tiles", "10", "--tokens", "250", "--ranks", "1", "-o",
                        self.path("batches")], check=True, stdout=subprocess.PIPE)
        self.compile("program", model, 10, 250, "--microbatches", 4)
        self.run_program("program", model, data, "--batches", self.path("batches"), "--steps", 300)

    def test_large_pictures_as_they_are(self):
        """They are decoded whole before they become tiles."""
        model, side = "tiny-internvl", 1800
        ids = [20, 5] + [4] * 4 * 7 + [6, 21, 22]
        sample = {"input_ids": ids, "labels": [-100] * 30 + ids[30:], "images": 1}
        picture = png(side * 2 // 3, side, bytes(range(255)) * (side * side * 2 // 255 + 1))
        write_shard(self.path("large.tar"), [(f"s{i}", (sample, [(".0.png", picture)])) for i in range(4)])
        kind = dict(kind="tiles", height=28, width=28, min_tiles=6, max_tiles=6, resample="bicubic", order="auto")
        with open(os.path.join(DATA, model, "preprocessor_config.json")) as file:
            settings = {**json.load(file), "omnibal": {"original_pictures": kind}}
        with open(self.path("preprocessor_config.json"), "w") as file:
            json.dump(settings, file)
        self.compile("program", model, 7, 64, "--microbatches", 1)
        steps = self.steps_file([[[f"s{i}"]] for i in range(4)])
        self.run_program("program", model, self.path("large.tar"), "--steps-file", steps, "--loader-threads", 1, "--loader-steps-ahead", 3,
                         preprocess=self.path("preprocessor_config.json"))

    def test_a_huge_file_of_a_sample(self):
        """What the model does not read takes no memory, however much there is of it."""
        model = "tiny-internvl"
        source = samples_of(os.path.join(DATA, model, "data-000000.tar"))
        small = [(f"s{i}", sample) for i, sample in enumerate(source[:8])]
        largest, pictures = source[8]
        huge = dict(largest, history=[[i, str(i)] for i in range(1_000_000)], scores=list(range(4_000_000)))
        write_shard(self.path("huge.tar"), [*small, ("huge", (huge, pictures))])
        self.assertGreater(os.path.getsize(self.path("huge.tar")), 40_000_000)
        self.compile("program", model, 10, 250, "--microbatches", 1)
        steps = self.steps_file([[[key]] for key in ("s0", "huge", "s1", "huge")])
        said = self.run_program("program", model, self.path("huge.tar"), "--steps-file", steps, "--steps", 8)
        self.assertIn("step 8/8", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
