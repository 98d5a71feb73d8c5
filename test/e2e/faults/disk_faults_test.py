#!/usr/bin/env python3
"""Runs on a disk that is slow or fails (test/support/disk_faults): disk_faults_test.py BIN_FOLDER DATA_FOLDER [unittest options].
What must come out is what runs give on a disk that works, or an error with the file's name."""
import errno
import json
import os
import resource
import socket
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, DATA, MODEL, MPIRUN, RunCase  # noqa: E402

FAULTS = os.path.join(BIN, "..", "disk_faults", "libdisk_faults.so")
# What a call of a slow disk takes, which is longer than ranks wait for one that does not answer.
CALL_SECONDS = float(os.environ.get("OMNIBAL_TEST_CALL_SECONDS", "2.5"))
SHORT_DEADLINE = 0.6 * CALL_SECONDS


class DiskFaults(RunCase):
    layouts = {"one": (), "two": ("--stages", "2"), "four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2")}

    def run_on(self, faults, *flags, code=0, says="", launcher=(), deadline=None, **options):
        """`faults`: variables of DiskFaults.cpp without their beginning."""
        environment = dict(os.environ, LD_PRELOAD=os.path.abspath(FAULTS))
        environment.update({"DISK_FAULTS_" + name: str(value) for name, value in faults.items()})
        if deadline:
            environment["OMNIBAL_DEADLINE_SECONDS"] = str(deadline)
        result = subprocess.run([*launcher, *self.command(*flags, **options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=240, env=environment)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(says, result.stderr)
        return result.stderr

    def log(self):
        with open(self.path("log.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_training_goes_on_while_a_checkpoint_is_written(self):
        """A save takes some seconds, in which many steps fit; and what it saves is the step's that it is called after."""
        slow = {"FOLDER": self.path("ck"), "CALLS": "fsync", "DELAY": 0.15}
        for program, launcher in (("one", ()), ("two", (*MPIRUN, "2"))):
            with self.subTest(program=program):
                ck = ("--checkpoint", self.path("ck"), "--checkpoint-minutes", 1e-9, "--keep", 1000)
                self.run_on(slow, *ck, "--overwrite", "--steps", 40, "--log", self.path("log.jsonl"), "--save", self.path("saved"),
                            program=program, launcher=launcher)
                steps = self.checkpoints()
                self.assertEqual((steps[0], steps[-1]), (1, 40))
                self.assertGreater(max(b - a for a, b in zip(steps, steps[1:])), 2, "training waited for the disk")
                middle = steps[1]
                waited = [line["checkpoint_ms"] for line in self.log() if "checkpoint_ms" in line]
                self.assertLess(sum(waited) / len(waited), 700)
                # Whatever was saved between the steps goes on to the same end.
                self.run_tool("--resume", self.path(f"ck/step-{middle:08}"), "--steps", 40, "--save", self.path("resumed"),
                              program=program, launcher=launcher)
                self.assertTrue(self.weights("resumed") == self.weights("saved"), "the weights differ")

    def test_without_memory_for_copies_training_waits(self):
        flags = ("--checkpoint", self.path("ck"), "--checkpoint-minutes", 1e-9, "--keep", 1000, "--steps", 4, "--checkpoint-buffer")
        said = self.run_on({"FOLDER": self.path("ck"), "CALLS": "fsync", "DELAY": 0.05}, *flags, 0, program="two")
        self.assertEqual(self.checkpoints(), [1, 2, 3, 4])
        self.assertNotIn("checkpoints being written", said)
        said = self.run_tool(*flags, 1000, "--overwrite", program="two", says="training waits while checkpoints are written")
        self.assertNotIn("checkpoints being written", said)
        self.assertIn("checkpoints being written", self.run_tool(*flags, 10**9, "--overwrite", program="two"))

    def test_an_error_of_writing_ends_the_run_and_is_named(self):
        """Whichever call fails, also behind the last step: the earlier checkpoint stays."""
        whole = {}
        for call, count, error, every, step, program, launcher in (
                ("open", 1, errno.EROFS, 3, 3, "four", ()), ("write", 2, errno.ENOSPC, 1000, 10, "two", (*MPIRUN, "2")),
                ("fsync", 1, errno.EIO, 2, 2, "two", ()), ("fsync", 4, errno.EDQUOT, 1000, 10, "four", ()),
                ("rename", 1, errno.EROFS, 3, 3, "two", (*MPIRUN, "2"))):
            with self.subTest(call=call, count=count, every=every, launcher=launcher):
                self.run_tool("--checkpoint", self.path("ck"), "--steps", 1, "--overwrite", program=program)
                faults = {"FOLDER": self.path(f"ck/step-{step:08}"), "CALLS": call, "FAIL": f"{count}:{error}"}
                begin = time.time()
                said = self.run_on(faults, "--checkpoint", self.path("ck"), "--resume", "auto", "--checkpoint-every", every,
                                   program=program, launcher=launcher, code=1, says=os.strerror(error))
                self.assertLess(time.time() - begin, 20)
                self.assertIn(f"saving the checkpoint of step {step}", said)
                self.assertEqual(self.checkpoints(), [1])
                self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", "--save", self.path("done"), program=program)
                weights = whole.setdefault(program, self.weights("done"))
                self.assertTrue(weights == self.weights("done"), "the weights differ")

    def test_a_folder_that_is_removed_under_the_run(self):
        with open(self.path("said"), "w") as said:
            job = subprocess.Popen(self.command("--checkpoint", self.path("ck"), "--checkpoint-every", 20, "--steps", 100000,
                                                program="two"), stderr=said)
        self.addCleanup(job.kill)
        while not os.path.exists(self.path("ck/latest")):
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        os.rename(self.path("ck"), self.path("gone"))
        self.assertEqual(job.wait(60), 1)
        with open(self.path("said")) as said:
            self.assertRegex(said.read(), "saving the checkpoint of step .*ck/.*: No such file or directory")
        self.assertFalse(os.path.exists(self.path("ck")))

    def exhausted(self, command, environment=None, limits=()):
        """Whatever the run lacks: it ends by itself, with a message, or not at all worse off. True if it could do its work."""
        def limit():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))

        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limit,
                               env={**os.environ, **(environment or {})})
        self.addCleanup(job.kill)
        try:
            said = job.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            job.kill()
            self.fail("the run hangs: " + job.communicate()[1][-2000:])
        self.assertIn(job.returncode, (0, 1), said)
        self.assertNotIn("terminate called", said)
        self.assertEqual(job.returncode == 0, "error" not in said, said)
        return job.returncode == 0

    def test_without_descriptors(self):
        done = [self.exhausted(self.command("--checkpoint", self.path("ck"), "--overwrite", program="four"),
                               limits=((resource.RLIMIT_NOFILE, count),)) for count in (*range(4, 28, 2), 40, 64, 200)]
        self.assertEqual((done[0], done[-1]), (False, True))

    def test_without_threads(self):
        done = [self.exhausted(self.command("--checkpoint", self.path("ck"), "--overwrite", "--threads", 2, program="four"),
                               {"LD_PRELOAD": os.path.abspath(FAULTS), "DISK_FAULTS_THREADS": str(count)})
                for count in (*range(1, 24, 2), 1000)]
        self.assertEqual((done[0], done[-1]), (False, True))

    def test_without_memory(self):
        done = [self.exhausted(self.command("--checkpoint", self.path("ck"), "--overwrite", program="four"),
                               limits=((resource.RLIMIT_AS, count * 10**6),)) for count in (*range(120, 700, 40), 4000)]
        self.assertEqual((done[0], done[-1]), (False, True))

    def ranks(self, faulty, faults, deadline, *flags, limits=(), **options):
        """Processes with torchrun's variables; only the rank `faulty` (-1: each) has the disk with these faults, and these limits.
        What they end with and say."""
        def limit():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))

        with socket.socket() as found:
            found.bind(("localhost", 0))
            port = str(found.getsockname()[1])
        jobs = []
        for rank in range(4):
            environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="4", LOCAL_WORLD_SIZE="4",
                               MASTER_ADDR="localhost", MASTER_PORT=port, OMNIBAL_DEADLINE_SECONDS=str(deadline))
            hit = faulty in (-1, rank)
            if hit:
                environment["LD_PRELOAD"] = os.path.abspath(FAULTS)
                environment.update({"DISK_FAULTS_" + name: str(value) for name, value in faults.items()})
            jobs.append(subprocess.Popen(self.command(*flags, program="four", **options), env=environment, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.PIPE, text=True, preexec_fn=limit if hit else None))
            self.addCleanup(jobs[-1].kill)
        said = [job.communicate(timeout=120)[1] for job in jobs]
        return [job.returncode for job in jobs], said

    def test_a_slow_disk_of_one_rank_does_not_keep_it_from_the_meeting(self):
        """A call takes longer than ranks wait for one that does not come."""
        for faulty, folder in ((0, self.programs), (2, self.programs), (3, os.path.join(MODEL, "preprocessor_config.json"))):
            with self.subTest(rank=faulty, folder=folder):
                begin = time.time()
                codes, said = self.ranks(faulty, {"FOLDER": folder, "CALLS": "open", "DELAY": CALL_SECONDS, "DELAYED": 2}, SHORT_DEADLINE,
                                         "--steps", 1)
                self.assertEqual(codes, [0] * 4, said)
                self.assertGreater(time.time() - begin, CALL_SECONDS)

    def test_what_a_rank_cannot_open_all_are_told(self):
        for faulty in (0, 2):
            for folder in (self.programs, os.path.join(MODEL, "data-")):
                with self.subTest(rank=faulty, folder=folder):
                    codes, said = self.ranks(faulty, {"FOLDER": folder, "CALLS": "open", "FAIL": f"1:{errno.EIO}"}, 20, "--steps", 1)
                    self.assertEqual(codes, [1] * 4, said)
                    self.assertRegex(said[faulty], rf"omnibal-run: error: {folder}.*{os.strerror(errno.EIO)}")
                    for other in set(range(4)) - {faulty}:
                        self.assertIn(f"rank {other} was stopped", said[other])
                        self.assertIn(os.strerror(errno.EIO), said[other])

    def test_a_sample_that_one_rank_cannot_read_is_named(self):
        for faulty in (0, 3):
            with self.subTest(rank=faulty):
                shard = os.path.join(MODEL, "data-000000.tar")
                codes, said = self.ranks(faulty, {"FOLDER": shard, "CALLS": "open", "FAIL": f"20:{errno.EIO}"}, 20, "--steps", 20)
                self.assertEqual(codes, [1] * 4, said)
                self.assertRegex(said[faulty], rf"error: .*step \d+: {shard}.*{os.strerror(errno.EIO)}")

    def split_shards(self):
        """The data in as many shards as there are samples, which threads open."""
        folder = self.path("shards")
        os.mkdir(folder)
        with tarfile.open(f"{MODEL}/data-000000.tar") as whole:
            for member in whole:
                with tarfile.open(f"{folder}/{member.name.split('.')[0]}.tar", "a", format=tarfile.USTAR_FORMAT) as shard:
                    shard.addfile(member, whole.extractfile(member))
        return folder

    def test_shards_are_read_without_a_thread_more(self):
        """Threads only make it faster to open shards and to count tokens."""
        shards, outcomes = self.split_shards(), []
        for threads in (0, 1, 3):
            environment = dict(os.environ, LD_PRELOAD=os.path.abspath(FAULTS), DISK_FAULTS_THREADS=str(threads))
            result = subprocess.run([f"{BIN}/omnibal-batch", shards, "--tiles", "24", "--tokens", "420", "--json"], env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            outcomes.append({key: value for key, value in json.loads(result.stdout).items()
                             if "seconds" not in key and key != "peak_rss_bytes"})
        self.assertEqual(outcomes[1:], outcomes[:1] * 2)

    def exhausted_ranks(self, faults=lambda value: {}, limits=lambda value: (), values=()):
        """Processes of which one, or each, has too little of something: all end, with 0 or with 1 and a message that is no shell's."""
        done, data = {}, self.split_shards()
        for number, value in enumerate(values):
            faulty = (0, 2, -1)[number % 3]
            with self.subTest(value=value, rank=faulty):
                codes, said = self.ranks(faulty, faults(value), 4, "--checkpoint", self.path("ck"), "--overwrite", "--steps", 2,
                                         "--threads", 2, limits=limits(value), data=data)
                done[value] = codes == [0] * 4
                self.assertTrue(done[value] or codes == [1] * 4, (codes, said))
                self.assertFalse("terminate called" in "".join(said), said)
                if not done[value]:
                    self.assertRegex("".join(said), "omnibal-run: error: .")
        self.assertTrue(done[values[-1]])
        self.assertFalse(done[values[0]])

    def test_ranks_without_descriptors(self):
        self.exhausted_ranks(limits=lambda count: ((resource.RLIMIT_NOFILE, count),), values=(4, 6, 7, 8, 9, 10, 12, 14, 18, 64))

    def test_ranks_without_threads(self):
        self.exhausted_ranks(faults=lambda count: {"THREADS": count}, values=(1, 2, 3, 4, 5, 6, 8, 100))

    def test_ranks_without_memory(self):
        self.exhausted_ranks(limits=lambda megabytes: ((resource.RLIMIT_AS, megabytes * 10**6),),
                             values=(100, 130, 160, 190, 220, 260, 300, 340, 380, 440, 4000))

    def test_a_slow_disk_runs_into_no_deadline(self):
        """A call takes longer than ranks wait for each other."""
        ck = ("--checkpoint", self.path("ck"), "--steps", 2)
        for folder, launcher in ((self.work, ()), (self.path("ck"), (*MPIRUN, "2"))):
            with self.subTest(launcher=launcher):
                begin = time.time()
                self.run_on({"FOLDER": folder, "CALLS": "rename", "DELAY": CALL_SECONDS, "DELAYED": 2}, *ck, "--overwrite", "--save",
                            self.path("saved"), program="two", launcher=launcher, deadline=SHORT_DEADLINE)
                self.assertGreater(time.time() - begin, CALL_SECONDS)
                self.assertEqual(self.checkpoints(), [2])
        # Reading: every rank's file of weights, the checkpoint's manifest and shards.
        for folder in (MODEL, self.path("ck")):
            begin = time.time()
            self.run_on({"FOLDER": folder, "CALLS": "open", "DELAY": CALL_SECONDS, "DELAYED": 2}, "--resume", self.path("ck"), "--steps", 2,
                        program="two", deadline=SHORT_DEADLINE, launcher=(*MPIRUN, "2"), says="continuing after step 2")
            self.assertGreater(time.time() - begin, CALL_SECONDS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
