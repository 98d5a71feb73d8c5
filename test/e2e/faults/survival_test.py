#!/usr/bin/env python3
"""What is left of a run that is stopped or meets bad data, and that its command goes on from there:
survival_test.py BIN_FOLDER DATA_FOLDER [unittest options]. What must come out is what runs give that nothing happened to."""
import fcntl
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, DATA, MODEL, MPIRUN, RunCase, STOPPED  # noqa: E402


class Survival(RunCase):
    layouts = {**RunCase.layouts, "device": ("--target", "cuda", "--dtype", "float32", "--gpu-code", "emulated")}

    def stop(self, kind, *flags, launcher=(), **options):
        """Sends a signal once some steps are logged; returns what the run said."""
        log = self.path("stopped.jsonl")
        if os.path.exists(log):
            os.remove(log)
        with open(self.path("said"), "w") as said:
            job = subprocess.Popen([*launcher, *self.command("--log", log, "--steps", 100000, *flags, **options)], stderr=said,
                                   stdout=said)
        self.addCleanup(job.kill)
        end = time.time() + 60
        while not (os.path.exists(log) and os.path.getsize(log) > 600):
            self.assertLess(time.time(), end)
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        job.send_signal(kind)
        code = job.wait(60)
        with open(self.path("said")) as said:
            said = said.read()
        self.assertEqual(code, STOPPED, said)
        return said

    def goes_on_as_if_nothing_happened(self, *flags, **options):
        done = self.checkpoints()[-1]
        total = done + 3
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", "--steps", total, "--save", self.path("resumed"),
                      *flags, says=f"continuing after step {done}", **options)
        self.run_tool("--steps", total, "--save", self.path("whole"), *flags, **options)
        self.assertTrue(self.weights("resumed") == self.weights("whole"), "the weights differ")

    def test_signals_end_a_run_with_a_checkpoint(self):
        for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            with self.subTest(kind=kind):
                shutil.rmtree(self.path("ck"), ignore_errors=True)
                said = self.stop(kind, "--checkpoint", self.path("ck"), "--save", self.path("early"), program="two")
                self.assertIn(kind.name, said)
                self.assertFalse(os.path.exists(self.path("early/model.safetensors")), "weights of an unfinished run were saved")
        self.goes_on_as_if_nothing_happened(program="two")

    def test_a_signal_to_mpirun_stops_all_ranks_at_one_step(self):
        launcher = (*MPIRUN, "2")
        self.stop(signal.SIGUSR1, "--checkpoint", self.path("ck"), launcher=launcher, program="two")
        self.goes_on_as_if_nothing_happened(program="two")

    def test_without_checkpoints_a_signal_ends_the_run_at_once(self):
        log = self.path("log.jsonl")
        job = subprocess.Popen(self.command("--log", log, "--steps", 100000), stderr=subprocess.DEVNULL)
        self.addCleanup(job.kill)
        while not (os.path.exists(log) and os.path.getsize(log) > 0):
            time.sleep(0.01)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(30), -signal.SIGTERM)

    def test_the_documented_job_of_slurm(self):
        """The script of docs/running.md, with programs of Slurm that note how they are called."""
        with open(os.path.join(DATA, "..", "..", "docs", "running.md")) as page:
            lines = page.read().split("    #!/bin/bash\n", 1)[1].splitlines()
        lines = lines[:next(i for i, line in enumerate(lines) if not line.startswith("    "))]
        script = "\n".join(line[4:] for line in lines)
        os.mkdir(self.path("bin"))
        for name, body in (("srun", 'printf "%s\\n" "$@" > srun.called; exit $CODE'), ("scontrol", 'echo "$@" > scontrol.called')):
            with open(self.path(f"bin/{name}"), "w") as file:
                file.write(f"#!/bin/bash\ncd {self.work}\n{body}\n")
            os.chmod(self.path(f"bin/{name}"), 0o755)
        environment = dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"], SLURM_JOB_ID="17")
        for code in (0, 1, 2, 75):
            result = subprocess.run(["bash", "-c", script], env={**environment, "CODE": str(code)})
            self.assertEqual(result.returncode, 0 if code == 75 else code)
            self.assertEqual(os.path.exists(self.path("scontrol.called")), code == 75)
        with open(self.path("scontrol.called")) as said:
            self.assertEqual(said.read(), "requeue 17\n")
        with open(self.path("srun.called")) as said:
            called = said.read().split()
        # omnibal-run takes these flags: what it misses are the files.
        result = subprocess.run([os.path.abspath(f"{BIN}/{called[0]}"), *called[1:]], cwd=self.work, stderr=subprocess.PIPE, text=True)
        self.assertEqual((called[0], result.returncode), ("omnibal-run", 1), result.stderr)
        self.assertIn("program: no manifest.json here", result.stderr)

    def test_time_limit(self):
        begin = time.time()
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 100000, "--time-limit", 3, code=STOPPED, says="--time-limit")
        self.assertLess(time.time() - begin, 3.5)
        self.goes_on_as_if_nothing_happened()
        self.run_tool("--time-limit", 3, code=2, says="--checkpoint")

    def test_checkpoints_by_time_and_which_stay(self):
        self.run_tool("--checkpoint", self.path("ck"), "--checkpoint-every", 1, "--steps", 9, "--keep", 1, "--keep-every", 4)
        self.assertEqual(self.checkpoints(), [4, 8, 9])
        self.run_tool("--checkpoint", self.path("timed"), "--checkpoint-minutes", 1e-9, "--steps", 20, "--keep", 20)
        self.assertGreater(len(self.checkpoints("timed")), 2)
        self.run_tool("--checkpoint", self.path("few"), "--checkpoint-minutes", 0, "--steps", 5)
        self.assertEqual(self.checkpoints("few"), [5])

    def test_a_folder_belongs_to_one_run(self):
        ck = ("--checkpoint", self.path("ck"))
        self.run_tool(*ck, "--resume", "auto", "--steps", 2)
        self.run_tool(*ck, "--steps", 4, code=1, says="newest of step 2")
        self.assertEqual(self.checkpoints(), [2])
        self.run_tool(*ck, "--steps", 3, "--resume", self.path("ck/step-00000002"), says="continuing after step 2")
        self.run_tool(*ck, "--steps", 1, "--overwrite")
        self.assertEqual(self.checkpoints(), [1])
        self.run_tool("--resume", "auto", code=2, says="--checkpoint")
        with open(self.path("ck/lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.run_tool(*ck, "--resume", "auto", code=1, says="another run writes its checkpoints here")

    def test_a_checkpoint_whose_replacement_was_cut_short_is_found(self):
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 2)
        os.rename(self.path("ck/step-00000002"), self.path("ck/step-00000002.replaced"))
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", "--steps", 3, says="continuing after step 2")

    def test_any_layout_goes_on(self):
        """With no step left to train, what is saved is what was read."""
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 2, "--save", self.path("first"))
        for program in ("two", "replicas"):
            said = self.run_tool("--resume", self.path("ck"), "--steps", 2, "--save", self.path(program), program=program,
                                 says="changed since the checkpoint")
            self.assertIn("continuing after step 2", said)
            self.assertTrue(self.weights(program) == self.weights("first"), program)

    def test_what_a_user_changes_is_told(self):
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 2)
        said = self.run_tool("--resume", self.path("ck"), "--steps", 3, "--lr", 5e-4, "--clip", 0.5)
        for change in ("lr 0.0001 -> 0.0005", "clip 1.0 -> 0.5", "steps 2 -> 3"):
            self.assertIn(change, said)
        other = self.write_steps(list(reversed(self.steps)), "other.jsonl")
        self.run_tool("--resume", self.path("ck"), "--steps", 3, steps=other, says="read from their beginning")

    def test_trained_values_are_not_dropped(self):
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 2)
        self.run_tool("--resume", self.path("ck"), "--steps", 3, program="frozen", code=1, says="would be lost")
        self.run_tool("--checkpoint", self.path("part"), "--steps", 2, program="frozen")
        self.run_tool("--resume", self.path("part"), "--steps", 3, code=1, says="did not train")

    def test_other_frozen_weights_are_noticed(self):
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 2, "--save", self.path("trained"))
        self.run_tool("--checkpoint", self.path("part"), "--steps", 2, program="frozen")
        command = self.command("--resume", self.path("part"), "--steps", 3, program="frozen")
        command[command.index("--weights") + 1] = self.path("trained")
        result = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the weights that stay frozen are other ones", result.stderr)

    def test_a_checkpoint_becomes_a_model_without_training(self):
        """Of every layout, what --save writes at the end of so many steps; any step, with every flag of --save."""
        export = (f"{BIN}/omnibal-run", "--weights", f"{MODEL}/model.safetensors", "--export-checkpoint")

        def exported(*flags):
            return subprocess.run([*export, *flags], stderr=subprocess.PIPE, text=True, timeout=60)

        for program, flags in (("two", ()), ("replicas", ("--save-dtype", "bfloat16")), ("frozen", ("--shard-bytes", "300000"))):
            with self.subTest(program=program):
                self.run_tool("--checkpoint", self.path("ck"), "--overwrite", "--checkpoint-every", 2, "--steps", 4, "--save",
                              self.path("saved"), *flags, program=program)
                result = exported(self.path("ck"), "--save", self.path("exported"), *flags)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("weights of step 4", result.stderr)
                names = sorted(os.listdir(self.path("saved")))
                self.assertEqual(sorted(os.listdir(self.path("exported"))), names)
                for name in names:
                    with open(self.path(f"saved/{name}"), "rb") as one, open(self.path(f"exported/{name}"), "rb") as other:
                        self.assertTrue(one.read() == other.read(), name)
                shutil.rmtree(self.path("saved"))
                shutil.rmtree(self.path("exported"))
        # A step before the last, and a base that is not the run's.
        self.run_tool("--steps", 2, "--save", self.path("saved"), program="frozen")
        self.assertEqual(exported(self.path("ck/step-00000002"), "--save", self.path("early")).returncode, 0)
        self.assertTrue(self.weights("saved") == self.weights("early"))
        self.run_tool("--steps", 2, "--save", self.path("other"))
        result = exported(self.path("ck"), "--save", self.path("mixed"), "--weights", self.path("other"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("the weights that stay frozen are other ones", result.stderr)
        self.assertFalse(os.path.exists(self.path("mixed/model.safetensors")))
        self.assertEqual(subprocess.run([*export, self.path("ck")], stderr=subprocess.DEVNULL, timeout=60).returncode, 2)

    def test_the_manifest_knows_the_run(self):
        emulated = {"OMNIBAL_PLUGINS": os.path.join(BIN, "..", "emulated")}
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 1, program="frozen")
        with open(self.path("ck/step-00000001/manifest.json")) as file:
            settings = json.load(file)["settings"]
        with open(f"{MODEL}/model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        header.pop("__metadata__", None)
        self.assertEqual(sorted([*settings["trained"], *settings["frozen"]]), sorted(header))
        self.assertEqual(settings["trained"], {name: header[name]["shape"] for name in settings["trained"]})
        self.assertTrue(all("vision" in name for name in settings["frozen"]))
        self.assertEqual((settings["dtype"], settings["target"]), ("float32", "host"))
        self.run_tool("--checkpoint", self.path("all"), "--steps", 1)
        said = self.run_tool("--resume", self.path("all"), "--steps", 1, program="device", environment=emulated)
        self.assertIn('target "host" -> "cuda"', said)
        self.assertIn('program "fnv1a:', said)

    def test_one_bit_of_a_frozen_weight_is_noticed(self):
        """Wherever it is."""
        self.run_tool("--checkpoint", self.path("ck"), "--steps", 1, program="frozen")
        with open(self.path("ck/step-00000001/manifest.json")) as file:
            name = sorted(json.load(file)["settings"]["frozen"])[-1]
        with open(f"{MODEL}/model.safetensors", "rb") as file:
            weights = bytearray(file.read())
        start = 8 + struct.unpack("<Q", weights[:8])[0]
        begin, end = json.loads(weights[8:start])[name]["data_offsets"]
        weights[start + (begin + end) // 2] ^= 1
        with open(self.path("weights.safetensors"), "wb") as file:
            file.write(weights)
        said = self.run_tool("--resume", self.path("ck"), "--steps", 2, program="frozen", weights=self.path("weights.safetensors"),
                             code=1, says="the weights that stay frozen are other ones")
        self.assertIn(name, said)

    def damaged_data(self, key, damage):
        with tarfile.open(f"{MODEL}/data-000000.tar") as source, tarfile.open(self.path("data.tar"), "w") as target:
            for member in source:
                content = source.extractfile(member).read()
                if member.name.startswith(key + "."):
                    content = damage(member.name, content)
                member.size = len(content)
                target.addfile(member, io.BytesIO(content))
        return self.path("data.tar")

    def without(self, key):
        return self.write_steps([[[sample for sample in group if sample != key] for group in groups] for groups in self.steps],
                                "without.jsonl")

    def first_used_late(self, at_least=2):
        """A sample with a picture that no step before `at_least` needs, and the step that does."""
        seen = set()
        with tarfile.open(f"{MODEL}/data-000000.tar") as source:
            pictured = {name.split(".")[0] for name in source.getnames() if not name.endswith(".json")}
        for number, groups in enumerate(self.steps):
            for group in groups:
                for sample in group:
                    if sample not in seen and number >= at_least and sample in pictured:
                        return sample, number
                    seen.add(sample)
        self.fail("the fixture has no such sample")

    def test_a_truncated_picture_costs_no_step(self):
        key, step = self.first_used_late()
        truncate = lambda name, content: content if name.endswith(".json") else content[:len(content) // 2]
        data = self.damaged_data(key, truncate)
        for program, launcher in (("one", ()), ("two", ()), ("replicas", ()),
                                  ("two", (*MPIRUN, "2"))):
            with self.subTest(program=program, launcher=launcher):
                shutil.rmtree(self.path("ck"), ignore_errors=True)
                said = self.run_tool("--checkpoint", self.path("ck"), "--checkpoint-every", 1000, data=data, program=program,
                                     launcher=launcher, code=1, says=key)
                self.assertIn(f"step {step + 1}", said)
                self.assertEqual(self.checkpoints(), [step])
        # With leave to go on, the run is the one of steps without that sample.
        log = self.path("log.jsonl")
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", "--skip-bad-samples", 1, "--log", log, "--save",
                      self.path("skipped"), data=data, program="two", says="a sample is left out (1 of at most 1)")
        self.run_tool("--save", self.path("without"), program="two", steps=self.without(key))
        self.assertTrue(self.weights("skipped") == self.weights("without"), "the weights differ")
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines if line.get("skipped_samples") == [key]], [step])

    def test_unreadable_text_of_a_sample_costs_no_step(self):
        key, step = self.first_used_late()
        data = self.damaged_data(key, lambda name, content: content.replace(b"{", b"[", 1) if name.endswith(".json") else content)
        log = self.path("log.jsonl")
        result = subprocess.run(self.command("--checkpoint", self.path("ck"), "--log", log, data=data), stderr=subprocess.PIPE,
                                text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn(key, result.stderr)
        if os.path.exists(log) and os.path.getsize(log):  # not found when the data was opened
            self.assertEqual(self.checkpoints(), [step])

    def test_a_loss_that_is_not_finite_costs_no_step(self):
        said = self.run_tool("--checkpoint", self.path("ck"), "--lr", 1e30, "--clip", 0, code=1, says="not a finite number")
        kept = self.checkpoints()
        self.assertEqual(len(kept), 1)
        self.assertIn(f"step {kept[0] + 1}: the", said)
        self.run_tool("--lr", 1e30, "--clip", 0, "--steps", kept[0], "--save", self.path("whole"))
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", "--lr", 1e30, "--clip", 0, "--steps", kept[0], "--save",
                      self.path("kept"))
        self.assertTrue(self.weights("kept") == self.weights("whole"), "the weights differ")

    def poisoned(self):
        """Data and weights of which one sample makes a loss that is not a number: nothing else has its token."""
        with tarfile.open(f"{MODEL}/data-000000.tar") as source:
            used = {token for name in source.getnames() if name.endswith(".json")
                    for token in json.load(source.extractfile(name))["input_ids"]}
        token = max(set(range(128)) - used)
        key = self.steps[3][0][0]

        def poison(name, content):
            if name.endswith(".json"):
                sample = json.loads(content)
                sample["input_ids"][-1] = token
                return json.dumps(sample).encode()
            return content

        data = self.damaged_data(key, poison)
        with open(f"{MODEL}/model.safetensors", "rb") as file:
            weights = bytearray(file.read())
        start = 8 + struct.unpack("<Q", weights[:8])[0]
        table = json.loads(weights[8:start])["model.language_model.embed_tokens.weight"]
        width = table["shape"][1]
        row = start + table["data_offsets"][0] + 4 * width * token
        weights[row:row + 4 * width] = struct.pack(f"<{width}f", *[float("nan")] * width)
        with open(self.path("weights.safetensors"), "wb") as file:
            file.write(weights)
        clean = [[[sample for sample in group if sample != key] for group in groups] for groups in self.steps]
        return clean, {"data": data, "weights": self.path("weights.safetensors")}, key

    def test_steps_that_are_not_finite_are_skipped(self):
        """A run that skips a step is the run without it."""
        clean, inputs, key = self.poisoned()
        bad = [[*clean[3][0], key], *clean[3][1:]]
        log = self.path("log.jsonl")
        cuda = {"OMNIBAL_PLUGINS": os.path.join(BIN, "..", "emulated")}
        for program, launcher, extra, few in (("one", (), {}, 6), ("two", (), {}, 6), ("replicas", (*MPIRUN, "2"), {}, 6),
                                              ("device", (), cuda, 2)):
            with self.subTest(program=program):
                steps = clean[:few]
                listed = self.write_steps([*steps[:1], bad, *steps[1:]], "bad.jsonl")
                flags = {"program": program, "launcher": launcher, "environment": extra, **inputs}
                said = self.run_tool("--skip-nonfinite", 1, "--part-norms", "--log", log, "--save", self.path("skipped"), steps=listed,
                                     says="the step is skipped (1 of at most 1 in a row)", **flags)
                self.assertIn("step 2: the loss", said)
                self.run_tool("--save", self.path("without"), steps=self.write_steps(steps, "clean.jsonl"), **flags)
                self.assertTrue(self.weights("skipped") == self.weights("without"), "the weights differ")
                with open(log) as file:
                    lines = [json.loads(line) for line in file]
                self.assertEqual([line["step"] for line in lines], list(range(few + 1)))
                self.assertEqual(["skipped" in line for line in lines], [step == 1 for step in range(few + 1)])

    def stored(self, checkpoint):
        """Bytes and shape of every tensor of a checkpoint, whichever shard has it."""
        folder, found = self.path(checkpoint), {}
        for name in os.listdir(folder):
            if name.endswith(".safetensors"):
                with open(os.path.join(folder, name), "rb") as file:
                    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                    data = file.read()
                header.pop("__metadata__", None)
                for tensor, entry in header.items():
                    self.assertNotIn(tensor, found)
                    begin, end = entry["data_offsets"]
                    found[tensor] = (entry["shape"], data[begin:end])
        return found

    def test_moments_are_the_same_in_any_layout(self):
        """What a layout saves after a step that is skipped is what it read from another's checkpoint."""
        clean, inputs, key = self.poisoned()
        bad = [[*clean[3][0], key], *clean[3][1:]]
        inputs["steps"] = self.write_steps([*clean[:2], bad, bad, bad], "bad.jsonl")
        self.run_tool("--checkpoint", self.path("one"), "--steps", 2, **inputs)
        first = self.stored("one/step-00000002")
        self.assertTrue(any(name.startswith("moment1/") and any(data) for name, (_, data) in first.items()))
        before = "one/step-00000002"
        for step, program in enumerate(("two", "replicas", "one"), start=3):
            folder = f"{program}-{step}"
            self.run_tool("--resume", self.path(before), "--checkpoint", self.path(folder), "--steps", step, "--skip-nonfinite", 3,
                          program=program, says="the step is skipped", **inputs)
            before = f"{folder}/step-{step:08}"
            self.assertTrue(self.stored(before) == first, f"{program} reads or writes something else")

    def test_too_many_steps_in_a_row_end_the_run(self):
        clean, inputs, key = self.poisoned()
        bad = [[*clean[3][0], key], *clean[3][1:]]
        listed = self.write_steps([*clean[:2], bad, clean[2], bad, bad, *clean[3:5]], "bad.jsonl")
        ck = ("--checkpoint", self.path("ck"))
        self.run_tool(*ck, "--skip-nonfinite", 1, steps=listed, code=1, program="two", **inputs,
                      says="more than --skip-nonfinite 1 steps in a row: step 6: the loss")
        self.assertEqual(self.checkpoints(), [5])
        self.run_tool(*ck, "--resume", "auto", "--skip-nonfinite", 2, "--save", self.path("skipped"), steps=listed, program="two",
                      **inputs)
        self.run_tool("--save", self.path("without"), steps=self.write_steps(clean[:5], "clean.jsonl"), program="two", **inputs)
        self.assertTrue(self.weights("skipped") == self.weights("without"), "the weights differ")

    def test_a_log_on_a_full_disk_costs_no_step(self):
        self.run_tool("--checkpoint", self.path("ck"), "--log", "/dev/full", code=1, says="is the disk full?")
        self.assertEqual(len(self.checkpoints()), 1)
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", says="continuing after step")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
