#!/usr/bin/env python3
"""kill -9 and power cuts at random moments: kill_test.py BIN_FOLDER DATA_FOLDER [unittest options].
OMNIBAL_TEST_KILLS says how many there are of each kind (default 8). What goes on from what they leave must end with the bits of
the run that nothing happened to."""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, DATA, LONGEST, MPIRUN, RunCase  # noqa: E402

FAULTS = os.path.abspath(os.path.join(BIN, "..", "disk_faults", "libdisk_faults.so"))
KILLS = int(os.environ.get("OMNIBAL_TEST_KILLS", "8"))
STEPS, PATIENCE, PATIENCE_WITH_MPIRUN = 120, 40, 10
DEADLINE = 15  # of those who wait for a rank that was killed before they met


def children(process):
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(child) for child in file.read().split()]


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


class Kill(RunCase):
    layouts = {"four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2"), "two": ("--stages", "2")}

    def setUp(self):
        super().setUp()
        self.random = random.Random(20261123)
        self.whole = {}

    def flags(self):
        """A run that saves as often as it can."""
        return ("--checkpoint", self.path("ck"), "--resume", "auto", "--checkpoint-minutes", 1e-9, "--steps", STEPS, "--log",
                self.path("log.jsonl"), "--save", self.path("saved"))

    def undisturbed(self, program):
        if program not in self.whole:
            self.run_tool("--steps", STEPS, "--save", self.path("whole"), program=program)
            self.whole[program] = self.weights("whole")
        return self.whole[program]

    def ends_with_the_same_bits(self, program):
        said = self.run_tool(*self.flags(), program=program)
        self.assertTrue(self.weights("saved") == self.undisturbed(program), "the weights differ\n" + said)
        shutil.rmtree(self.path("ck"))
        shutil.rmtree(self.path("saved"))

    def start_mpirun(self, said):
        job = subprocess.Popen([*MPIRUN, "4", *self.command(*self.flags(), program="four")], stderr=said, stdout=said)
        end = time.time() + PATIENCE
        while len(children(job.pid)) < 4 and job.poll() is None:
            self.assertLess(time.time(), end)
            time.sleep(0.005)
        return [job], children(job.pid) if job.poll() is None else []

    def start_variables(self, said):
        port = str(free_port())
        jobs = []
        for rank in range(4):
            environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="4", LOCAL_WORLD_SIZE="4",
                               MASTER_ADDR="localhost", MASTER_PORT=port, OMNIBAL_RUN_ID=port, OMNIBAL_DEADLINE_SECONDS=str(DEADLINE))
            jobs.append(subprocess.Popen(self.command(*self.flags(), program="four"), stderr=said, stdout=said, env=environment))
        return jobs, [job.pid for job in jobs]

    def wait_for_a_step(self, jobs):
        """Or at a moment before it, now and then."""
        if self.random.random() < 0.2:
            time.sleep(self.random.uniform(0, 1))
            return
        wanted = self.random.choice(("writing", "commit", None))
        before, end = self.logged(), time.time() + PATIENCE
        while self.logged() == before and all(job.poll() is None for job in jobs) and time.time() < end:
            time.sleep(0.002)
        time.sleep(self.random.uniform(0, 0.3))
        end = time.time() + 2
        while wanted and self.phase() != wanted and time.time() < end:
            pass
        time.sleep(self.random.uniform(0, 0.005))

    def logged(self):
        path = self.path("log.jsonl")
        return os.path.getsize(path) if os.path.exists(path) else 0

    def phase(self):
        """What a kill meets."""
        try:
            names = os.listdir(self.path("ck"))
            writing = [name for name in names if name.endswith(".incomplete")]
            if not writing:
                return "between saves"
            return "commit" if any("manifest" in name for name in os.listdir(self.path(f"ck/{writing[0]}"))) else "writing"
        except FileNotFoundError:
            return "starting" if not os.path.exists(self.path("ck")) else "commit"

    def newest(self):
        done = [int(name[5:]) for name in os.listdir(self.path("ck")) if re.fullmatch(r"step-\d{8}", name)] \
            if os.path.exists(self.path("ck")) else []
        return max(done, default=0)

    def kill(self, processes):
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def is_running(self, process):
        """Whether it is one of this test's and has not ended; numbers of processes are used again."""
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                return self.work.encode() in file.read()
        except (FileNotFoundError, ProcessLookupError):
            return False

    def still_running(self, processes, seconds):
        """Which of them do not end in this time; those are killed."""
        end = time.time() + seconds
        while any(map(self.is_running, processes)) and time.time() < end:
            time.sleep(0.01)
        left = [process for process in processes if self.is_running(process)]
        self.kill(left)
        return left

    def all_end(self, jobs, ranks, when):
        """mpirun that loses a rank which it is still starting may not end although all ranks have. Returns whether it had to be
        killed."""
        left = self.still_running(ranks, PATIENCE)
        launchers_left = self.still_running([job.pid for job in jobs], PATIENCE_WITH_MPIRUN)
        for job in jobs:
            job.wait()
        if left:
            with open(self.path("said")) as text:
                self.fail(f"{when}: ranks did not end ({left} of {ranks})\n" + text.read()[-3000:])
        return bool(launchers_left)

    def kill_again_and_again(self, start):
        met, newest, finished, launchers = {}, 0, 0, 0
        self.undisturbed("four")
        for number in range(KILLS):
            with open(self.path("said"), "w") as said:
                jobs, ranks = start(said)
                self.wait_for_a_step(jobs)
                phase = self.phase()
                victims = ranks if self.random.random() < 0.3 else [self.random.choice(ranks)] if ranks else []
                self.kill(victims if len(victims) < 4 else [*(job.pid for job in jobs), *victims])
                met[phase] = met.get(phase, 0) + 1
                launchers += self.all_end(jobs, ranks, f"kill {number} ({phase})")
            time.sleep(0.05)
            self.assertGreaterEqual(self.newest(), newest, f"kill {number} ({phase}): a checkpoint was lost")
            newest = self.newest()
            if newest >= STEPS or (number + 1) % 25 == 0:
                self.ends_with_the_same_bits("four")
                newest, finished = 0, finished + 1
        if newest or not finished:
            self.ends_with_the_same_bits("four")
        print(f"{self.id().split('.')[-1]}: {KILLS} kills: " + ", ".join(f"{count} {phase}" for phase, count in sorted(met.items())) +
              f"; {launchers} launchers outlived their ranks", flush=True)

    def test_ranks_of_mpirun(self):
        self.kill_again_and_again(self.start_mpirun)

    def test_ranks_by_variables(self):
        self.kill_again_and_again(self.start_variables)

    def cut(self, flushed, live, place):
        """What a power cut leaves of the folder `live`: what was flushed, and by chance more of it."""

        def restore(inode, live_path, target):
            os.mkdir(target)
            entries = {}
            record = f"{flushed}/{inode}.folder"
            if os.path.exists(record):
                with open(record) as file:
                    for line in file.read().splitlines():
                        number, kind, name = line.split(" ", 2)
                        entries[name] = (int(number), kind)
            # A name that was made, changed or taken away since may have reached the disk, each by itself.
            now = {entry.name: (entry.inode(), "d" if entry.is_dir() else "f") for entry in os.scandir(live_path)} \
                if live_path and os.path.isdir(live_path) else {}
            for name in set(entries) | set(now):
                kept = now.get(name) if self.random.random() < 0.5 else entries.get(name)
                if kept is None:
                    continue
                number, kind = kept
                here = os.path.join(live_path, name) if now.get(name) == kept else None
                if kind == "d":
                    restore(number, here, os.path.join(target, name))
                    continue
                content = b""
                if os.path.exists(f"{flushed}/{number}.file"):
                    with open(f"{flushed}/{number}.file", "rb") as file:
                        content = file.read()
                elif here and self.random.random() < 0.5:
                    with open(here, "rb") as file:
                        content = file.read()
                    content = content[:self.random.randrange(len(content) + 1)]
                with open(os.path.join(target, name), "wb") as file:
                    file.write(content)

        restore(os.stat(live).st_ino, live, place)

    def test_power_cuts(self):
        self.undisturbed("two")
        lost = 0
        environment = dict(os.environ, LD_PRELOAD=FAULTS, DISK_FAULTS_FOLDER=self.path("ck"), DISK_FAULTS_FLUSHED=self.path("flushed"))
        for number in range(KILLS):
            os.makedirs(self.path("flushed"), exist_ok=True)
            with open(self.path("said"), "w") as said:
                job = subprocess.Popen(self.command(*self.flags(), program="two"), stderr=said, stdout=said, env=environment)
                self.wait_for_a_step([job])
                job.kill()
                job.wait()
            names = os.listdir(self.path("ck")) if os.path.exists(self.path("ck")) else []
            done = sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d{8}", name))
            saving = [int(name[5:13]) for name in names if name.endswith(".incomplete")]
            # A save begins when the one before it is on the disk.
            safe = max([step for step in done if saving and step < max(saving)] or done[:-1] or [0])
            if names:
                shutil.rmtree(self.path("cut"), ignore_errors=True)
                self.cut(self.path("flushed"), self.path("ck"), self.path("cut"))
                shutil.rmtree(self.path("ck"))
                shutil.move(self.path("cut"), self.path("ck"))
            shutil.rmtree(self.path("flushed"))
            result = subprocess.run(self.command("--checkpoint", self.path("ck"), "--resume", "auto", "--steps", STEPS, "--save",
                                                 self.path("saved"), program="two"), stderr=subprocess.PIPE, text=True, timeout=LONGEST)
            self.assertEqual(result.returncode, 0, f"cut {number}: {result.stderr}")
            found = re.search(r"continuing after step (\d+)", result.stderr)
            self.assertGreaterEqual(int(found[1]) if found else 0, safe, f"cut {number}: a checkpoint was lost\n{result.stderr}")
            lost += not found or int(found[1]) < max(done, default=0)
            self.assertTrue(self.weights("saved") == self.undisturbed("two"), f"cut {number}: the weights differ")
            shutil.rmtree(self.path("ck"))
            if os.path.exists(self.path("log.jsonl")):
                os.remove(self.path("log.jsonl"))
        print(f"test_power_cuts: {KILLS} cuts, {lost} lost a checkpoint that was not yet flushed", flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
