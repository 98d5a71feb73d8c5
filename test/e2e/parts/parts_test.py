#!/usr/bin/env python3
"""Ranks that run a stage together, all doing the same: parts_test.py BIN_FOLDER DATA_FOLDER CLASS [unittest options]

Nothing tells k such ranks from one: losses, norms, saved weights, checkpoints and gradients have equal bytes, however ranks are
started; checkpoints go on with another k. The programs are those of one rank with another `model_parallel` in their manifest,
which is how omnibal-opt writes them (test/lit/passes/plan/parts.test).
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from outcomes import OutcomeCase, TiedCase, free_port, layout  # noqa: E402
from run_case import BIN, MODEL, MPIRUN  # noqa: E402


class PartsCase:
    def parts(self, name, k):
        """The program run by k ranks a stage."""
        made = f"{name}-{k}"
        folder = f"{self.programs}/{made}"
        if not os.path.exists(folder):
            shutil.copytree(f"{self.programs}/{name}", folder)
            with open(f"{folder}/manifest.json") as file:
                manifest = json.load(file)
            manifest["model_parallel"] = k
            with open(f"{folder}/manifest.json", "w") as file:
                json.dump(manifest, file)
        return made


class Bits(PartsCase, OutcomeCase):
    layouts = {"one": layout(1, 1), "two": layout(1, 2), "stages": layout(2, 1), "deep": layout(2, 2),
               "frozen": layout(2, 1, "--freeze", "vision"), "planned": layout(2, 2, "--schedule", "per-step"),
               "halves": layout(2, 1, "--schedule", "zb-h1"), "two-zero": layout(1, 2, "--zero", "1"),
               "deep-zero": layout(2, 2, "--zero", "1"), "adapters": layout(2, 2, "--lora", "language", "--lora-rank", "4")}

    def test_no_bit_changes(self):
        for name in self.layouts:
            merged = ("--merge-adapters",) if name == "adapters" else ()
            alone = self.outcome(name, 6, *merged)
            for k in (2, 3):
                with self.subTest(program=name, k=k):
                    self.assertSame(alone, self.outcome(self.parts(name, k), 6, "--threads", "1", *merged), f"{name} by {k}")


class Launchers(PartsCase, OutcomeCase):
    layouts = {"one": layout(1, 1), "stages": layout(2, 1), "deep-zero": layout(2, 2, "--zero", "1"),
               "planned": layout(2, 1, "--schedule", "per-step")}

    def test_however_ranks_are_started(self):
        for name, k, ranks in (("one", 2, 2), ("stages", 3, 6), ("deep-zero", 2, 8), ("planned", 2, 4)):
            alone = self.outcome(name, 6)
            for launch in ("mpirun", "tcp"):
                with self.subTest(program=name, launch=launch):
                    self.assertSame(alone, self.outcome(self.parts(name, k), 6, "--threads", "1", ranks=ranks, launch=launch),
                                    f"{name} by {launch}")

    def test_a_wrong_number_of_ranks_is_refused(self):
        program = self.parts("stages", 2)
        said = self.run_tool(program=program, steps=self.groups(6), launcher=(*MPIRUN, "3"), code=1)
        self.assertIn("mpirun started 3 ranks, but the program needs 4 ranks (2 stages x 1 data-parallel ranks x 2 parts): mpirun -n 4",
                      said)


class Tied(PartsCase, TiedCase):
    layouts = {"tied": layout(2, 2), "tied-zero": layout(2, 2, "--zero", "1"), "tied-one": layout(2, 1)}

    def test_no_bit_changes(self):
        for name in self.layouts:
            alone = self.outcome(name, 6)
            with self.subTest(program=name):
                self.assertSame(alone, self.outcome(self.parts(name, 2), 6), name)
        self.assertSame(alone, self.outcome(self.parts("tied-one", 3), 6, ranks=6, launch="mpirun"), "by mpirun")


class Modes(PartsCase, OutcomeCase):
    layouts = {"deep": layout(2, 2), "deep-zero": layout(2, 2, "--zero", "1"), "one": layout(1, 1)}

    def go_on(self, program, steps, *flags):
        return self.run_tool("--checkpoint", self.path("run.ck"), "--resume", "auto", "--save", self.path("run.saved"), "--lr", "1e-3", "--clip",
                             "0.5", "--log", self.path("run.jsonl"), "--steps", steps, *flags, program=program, steps=self.groups(6))

    def test_a_run_goes_on_with_another_number(self):
        for name in ("deep", "deep-zero"):
            with self.subTest(program=name):
                whole = self.outcome(name, 6)
                self.outcome(name, 6, "--steps", "1")
                said = self.go_on(self.parts(name, 2), 2)
                self.assertIn("changed since the checkpoint: model_parallel 1 -> 2", said)
                self.go_on(self.parts(name, 3), 3)
                said = self.go_on(name, 4)
                self.assertIn("changed since the checkpoint: model_parallel 3 -> 1", said)
                self.assertEqual((self.log("run.jsonl"), self.weights("run.saved"), self.tensors("run.ck")), whole[:3])

    def test_checkpoints_without_a_copy_in_memory(self):
        self.assertSame(self.outcome("deep-zero", 6), self.outcome(self.parts("deep-zero", 2), 6, "--checkpoint-buffer", "0"), "no buffer")

    def test_a_checkpoint_is_exported_as_a_run_saves(self):
        saved = self.outcome(self.parts("deep-zero", 2), 6)[1]
        subprocess.run([f"{BIN}/omnibal-run", "--export-checkpoint", self.path("run.ck"), "--weights", f"{MODEL}/model.safetensors",
                        "--save", self.path("exported")], check=True, stderr=subprocess.DEVNULL)
        self.assertEqual(self.weights("exported"), saved)

    def test_evaluation(self):
        logs = []
        for name in ("deep", self.parts("deep", 2), self.parts("deep", 3)):
            command = self.command("--evaluate", "--log", self.path("log"), program=name)
            at = command.index("--steps-file")
            subprocess.run(command[:at] + command[at + 2:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(self.path("log")) as file:
                logs.append(file.read())
        self.assertEqual(logs[1:], logs[:1] * 2)
        self.assertGreater(json.loads(logs[0])["label_tokens"], 0)

    def one_sample(self):
        """The first sample of forward.safetensors, whose tensors are called SAMPLE.NAME, in a file of its own."""
        with open(f"{MODEL}/forward.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            begin, inputs, data = file.tell(), {}, b""
            sample = min(name for name in header if name != "__metadata__").split(".")[0]
            for name, entry in header.items():
                if name.startswith(sample + ".") and not name.endswith(".logits"):
                    first, last = entry["data_offsets"]
                    file.seek(begin + first)
                    inputs[name.split(".", 1)[1]] = dict(entry, data_offsets=[len(data), len(data) + last - first])
                    data += file.read(last - first)
        text = json.dumps(inputs).encode()
        with open(self.path("in.safetensors"), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data)
        return self.path("in.safetensors")

    def test_outputs(self):
        outputs = []
        for name in ("deep", self.parts("deep", 2)):
            subprocess.run([f"{BIN}/omnibal-run", f"{self.programs}/{name}", "--weights", f"{MODEL}/model.safetensors", "--forward",
                            self.one_sample(), "-o", self.path("out.safetensors")], check=True, stderr=subprocess.DEVNULL)
            outputs.append(self.bytes("out.safetensors"))
        self.assertEqual(*outputs)
        self.assertIn(b"logits", outputs[0])

    def test_what_is_counted_counts_once(self):
        lines = []
        for name in ("deep", self.parts("deep", 2)):
            said = self.run_tool("--log", self.path("log"), program=name, steps=self.groups(6))
            with open(self.path("log")) as file:
                lines.append([{key: line[key] for key in ("samples", "tokens", "tiles", "label_tokens", "model_flops", "padded_tokens")}
                              for line in map(json.loads, file)])
        self.assertEqual(lines[0], lines[1])
        self.assertIn("2 stages x 2 data-parallel ranks x 2 parts", said)
        self.assertIn("stage 1  rank 2,3,6,7", said)

    def test_trace(self):
        self.run_tool("--trace", self.path("trace.json"), program=self.parts("deep", 2), steps=self.groups(6))
        with open(self.path("trace.json")) as file:
            events = json.load(file)
        events = events["traceEvents"] if isinstance(events, dict) else events
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(names, {f"stage {rank // 2 % 2}, part {rank % 2} / rank {rank}" for rank in range(8)})
        starts, ends = ([event["id"] for event in events if event.get("ph") == kind] for kind in "sf")
        self.assertEqual(len(starts), len(set(starts)), "two messages have one arrow")
        self.assertEqual(sorted(starts), sorted(ends))

    def test_calibration(self):
        program = self.parts("deep", 2)
        self.run_tool("--calibrate", self.path("table.json"), program=program, steps=self.groups(6))
        with open(self.path("table.json")) as file:
            table = json.load(file)
        self.assertEqual(table["program"]["model_parallel"], 2)
        self.assertIn("link", table)
        self.assertIn("data_parallel", table)


class Faults(PartsCase, OutcomeCase):
    """Over TCP, as torchrun starts ranks: one of four is killed or stops."""
    layouts = {"stages": layout(2, 1)}
    DEADLINE, PATIENCE = 5, 40

    def start(self, *flags):
        port, self.jobs = free_port(), []
        for rank in range(4):
            environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="4", LOCAL_WORLD_SIZE="4",
                               MASTER_ADDR="localhost", MASTER_PORT=port, OMNIBAL_RUN_ID=port,
                               OMNIBAL_DEADLINE_SECONDS=str(self.DEADLINE))
            with open(self.path(f"said{rank}"), "w") as said:
                self.jobs.append(subprocess.Popen(self.command("--threads", 1, "--log", self.path("log"), *flags, program=self.parts("stages", 2),
                                                               steps=self.groups(6)), env=environment, stdout=said, stderr=said))
            self.addCleanup(self.end, self.jobs[-1])
        end = time.time() + 120
        while not os.path.exists(self.path("log")) or not self.bytes("log").count(b"\n") > 2:
            self.assertLess(time.time(), end)
            time.sleep(0.01)

    def end(self, job):
        job.kill()
        job.wait()

    def said(self, rank):
        return self.bytes(f"said{rank}").decode()

    def test_a_killed_part_is_named(self):
        self.start("--steps", 1000000)
        self.jobs[3].kill()
        for rank in range(3):
            self.assertEqual(self.jobs[rank].wait(self.DEADLINE + self.PATIENCE), 1)
        everything = "".join(map(self.said, range(3)))
        self.assertRegex(everything, r"rank 3\b")
        self.assertRegex(everything, r"stage \d, part \d, ")

    def test_a_part_that_hangs_is_named(self):
        self.start("--steps", 1000000)
        self.jobs[3].send_signal(signal.SIGSTOP)
        for rank in range(3):
            self.assertEqual(self.jobs[rank].wait(self.DEADLINE + self.PATIENCE), 1)
        self.assertRegex("".join(map(self.said, range(3))), r"rank 3\b[^()]*\(step \d+, stage 1, part 1, ")

    def test_a_signal_to_one_part_stops_all_at_one_step(self):
        self.start("--steps", 1000000, "--checkpoint", self.path("ck"))
        self.jobs[1].send_signal(signal.SIGUSR1)
        for job in self.jobs:
            self.assertEqual(job.wait(self.PATIENCE), 75)
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertEqual(self.checkpoints()[0], self.bytes("log").count(b"\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
