#!/usr/bin/env python3
"""Event files for TensorBoard: tensorboard_test.py BIN_FOLDER DATA_FOLDER [unittest options].
They hold what the log holds, read by a reader of the test's own."""
import errno
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from event_files import as_float32, crc32c, events  # noqa: E402
from run_case import BIN, MPIRUN, RunCase  # noqa: E402

FAULTS = os.path.abspath(os.path.join(BIN, "..", "disk_faults", "libdisk_faults.so"))


def expected(line):
    """What an event holds of a line of the log."""
    parts = {f"{field}/{name}": value for field in ("lr_of", "grad_norm_of", "idle_of") for name, value in line.get(field, {}).items()}
    return {f"train/{field}": as_float32(value) for field, value in {**line, **parts}.items()
            if isinstance(value, (int, float)) and field != "step"}


class Tensorboard(RunCase):
    layouts = {"one": (), "four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2"),
               "planned": ("--stages", "2", "--schedule", "per-step")}

    def log(self, name="log.jsonl"):
        with open(self.path(name)) as file:
            return [json.loads(line) for line in file]

    def files(self, folder="tb"):
        names = sorted(os.listdir(self.path(folder)))
        for name in names:
            self.assertRegex(name, r"^events\.out\.tfevents\.\d{10}\.[^/]+\.\d+$")
        return [events(os.path.join(self.path(folder), name)) for name in names]

    def check_start(self, file, step):
        self.assertEqual((file[0]["version"], "step" in file[0]), ("brain.Event:2", False))
        self.assertEqual((file[1]["step"], file[1]["started"]), (step, True))
        times = [event["wall_time"] for event in file]
        self.assertEqual(times, sorted(times))
        self.assertLess(abs(times[-1] - time.time()), 3600)

    def check_same(self, steps, lines):
        self.assertEqual([(event["step"], event["scalars"]) for event in steps],
                         [(line["step"], expected(line)) for line in lines])

    def test_the_reader_knows_the_checksum(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_every_number_of_the_log_is_there(self):
        for program, launcher in (("one", ()), ("four", (*MPIRUN, "4")), ("planned", ())):
            with self.subTest(program=program):
                folder = f"{program}/tb"
                self.run_tool("--log", self.path(f"{program}.jsonl"), "--tensorboard", self.path(folder), "--warmup-steps", 3,
                              "--schedule-lr", "linear", "--lr-of", "vision=1e-4", "--checkpoint", self.path(f"{program}.ck"),
                              "--checkpoint-every", 4, program=program, launcher=launcher)
                lines = self.log(f"{program}.jsonl")
                self.assertEqual(len(lines), 10)
                file, = self.files(folder)
                self.check_start(file, 0)
                self.check_same(file[2:], lines)
                tags = {tag for event in file[2:] for tag in event["scalars"]}
                self.assertLessEqual({f"train/{field}" for field in (
                    "loss", "lr", "grad_norm", "label_tokens", "samples", "tokens", "tokens_per_s", "step_ms", "checkpoint_ms")}, tags)
                self.assertEqual("train/predicted_ms" in tags, program == "planned")
                # What has a name in place of a number is in the log only.
                self.assertEqual(("plan" in lines[0], "train/plan" in tags), (program == "planned", False))
                self.assertEqual([line["samples"] for line in lines], [sum(map(len, groups)) for groups in self.steps])

    def test_without_a_log(self):
        self.run_tool("--tensorboard", self.path("tb"), "--steps", 2)
        file, = self.files()
        self.assertEqual([event["step"] for event in file[2:]], [0, 1])

    def test_going_on_adds_a_file(self):
        flags = ("--log", self.path("log.jsonl"), "--tensorboard", self.path("tb"), "--checkpoint", self.path("ck"),
                 "--checkpoint-every", 3)
        self.run_tool(*flags, "--steps", 5)
        before, = self.files()
        lines = self.log()
        self.run_tool(*flags, "--resume", self.path("ck/step-00000003"), "--overwrite", "--steps", 8)
        first, second = self.files()
        self.assertEqual(first, before)
        self.check_same(first[2:], lines)
        # From the step on that it names, a reader forgets what the first file says.
        self.check_start(second, 3)
        self.check_same(second[2:], self.log()[3:])
        self.assertEqual([line["step"] for line in self.log()], list(range(8)))

    def test_a_killed_run_has_all_steps_of_its_log(self):
        with open(self.path("said"), "w") as said:
            job = subprocess.Popen(self.command("--log", self.path("log.jsonl"), "--tensorboard", self.path("tb"), "--steps", 100000),
                                   stderr=said)
        self.addCleanup(job.kill)
        while not os.path.exists(self.path("log.jsonl")) or len(self.log_of_a_running_job()) < 5:
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        job.send_signal(signal.SIGKILL)
        job.wait()
        lines = self.log_of_a_running_job()
        file, = self.files()  # no record is cut off
        # The log's line is written first.
        self.assertIn(len(lines) - (len(file) - 2), (0, 1))
        self.check_same(file[2:], lines[:len(file) - 2])

    def log_of_a_running_job(self):
        with open(self.path("log.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def test_a_folder_that_cannot_be_written_stops_the_run_at_once(self):
        with open(self.path("occupied"), "w"):
            pass
        with open(self.path("log.jsonl"), "w") as file:
            file.write("another run's\n")
        for program, launcher in (("one", ()), ("four", (*MPIRUN, "4"))):
            said = self.run_tool("--tensorboard", self.path("occupied/tb"), "--log", self.path("log.jsonl"), program=program,
                                 launcher=launcher, code=1, says="occupied/tb: the folder cannot be made (--tensorboard)")
            self.assertNotIn("step 1/", said)
            with open(self.path("log.jsonl")) as file:
                self.assertEqual(file.read(), "another run's\n")

    def on_full_disk(self, write, *flags):
        """The `write`-th write to the folder and later ones fail."""
        faults = {"LD_PRELOAD": FAULTS, "DISK_FAULTS_FOLDER": self.path("tb"), "DISK_FAULTS_CALLS": "write",
                  "DISK_FAULTS_FAIL": f"{write}:{errno.ENOSPC}"}
        return self.run_tool("--tensorboard", self.path("tb"), "--log", self.path("log.jsonl"), *flags, code=1, environment=faults,
                             says="writing failed (--tensorboard): No space left on device")

    def test_a_full_disk_costs_no_step(self):
        self.on_full_disk(5, "--checkpoint", self.path("ck"))
        # Two records of the start and two steps; the fourth step is the run's last.
        self.assertEqual([event["step"] for event in self.files()[0][2:]], [0, 1])
        self.assertEqual(self.checkpoints(), [4])
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", "--tensorboard", self.path("tb"), "--log",
                      self.path("log.jsonl"), says="continuing after step")
        second = self.files()[1]
        self.check_start(second, 4)
        self.check_same(second[2:], self.log()[-6:])

    def test_a_disk_that_is_full_from_the_start(self):
        self.assertNotIn("step 1/", self.on_full_disk(1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
