#!/usr/bin/env python3
"""Ranks that hang or die while others wait for them, over TCP as torchrun starts them: network_faults_test.py BIN_FOLDER
DATA_FOLDER [unittest options]. In every phase the others end within the deadline and name the rank."""
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from run_case import RunCase

RANKS, DEADLINE = 4, 3
PATIENCE = 12  # of this test, beyond the deadline; the machine may be busy


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


class NetworkFaults(RunCase):
    layouts = {"four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2")}

    def start(self, *flags):
        """All ranks, as torchrun starts them; what each says goes to a file."""
        port = free_port()
        log = self.path("log.jsonl")
        command = self.command("--steps", 1000000, "--threads", 1, "--log", log, "--checkpoint", self.path("ck"), "--overwrite",
                               *flags, program="four")
        if os.path.exists(log):
            os.remove(log)
        jobs = []
        for r in range(RANKS):
            environment = dict(os.environ, RANK=str(r), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(r), LOCAL_WORLD_SIZE=str(RANKS),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMNIBAL_DEADLINE_SECONDS=str(DEADLINE))
            with open(self.path(f"said{r}"), "w") as said:
                jobs.append(subprocess.Popen(command, env=environment, stdout=said, stderr=said))
            self.addCleanup(jobs[-1].wait)
            self.addCleanup(jobs[-1].kill)
        return jobs

    def said(self, rank):
        with open(self.path(f"said{rank}")) as file:
            return file.read()

    def wait_for(self, condition):
        end = time.time() + 60
        while not condition():
            self.assertLess(time.time(), end)
            time.sleep(0.005)

    def reach(self, phase):
        log = self.path("log.jsonl")
        if phase == "meeting":
            time.sleep(random.random() * 0.1)
        elif phase == "steps":
            self.wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > 300)
            time.sleep(random.random() * 0.2)
        else:
            self.wait_for(lambda: os.path.isdir(self.path("ck")) and any("incomplete" in name for name in os.listdir(self.path("ck"))))

    def others_end(self, jobs, victim):
        end = time.time() + DEADLINE + PATIENCE
        for r, job in enumerate(jobs):
            if r == victim:
                continue
            try:
                code = job.wait(max(0.1, end - time.time()))
            except subprocess.TimeoutExpired:
                self.fail(f"rank {r} still runs after rank {victim}'s fault; it said:\n{self.said(r)}")
            self.assertEqual(code, 1, self.said(r))

    def run_with(self, kind, phase, victim):
        jobs = self.start(*(("--checkpoint-every", 1) if phase == "saving" else ("--checkpoint-minutes", 0)))
        self.reach(phase)
        jobs[victim].send_signal(kind)
        self.others_end(jobs, victim)
        everything = "".join(self.said(r) for r in range(RANKS) if r != victim)
        jobs[victim].kill()
        jobs[victim].wait()
        self.assertRegex(everything, rf"ranks? ({victim}\b|[\d, ]*\b{victim}\b)", everything)
        self.assertFalse(re.search("terminate called|Segmentation", everything), everything)

    def test_a_rank_that_is_stopped(self):
        random.seed(11)
        for phase in ("meeting", "steps", "saving"):
            for victim in random.sample(range(RANKS), 2):
                with self.subTest(phase=phase, victim=victim):
                    self.run_with(signal.SIGSTOP, phase, victim)

    def test_a_rank_that_is_killed(self):
        random.seed(12)
        for phase in ("meeting", "steps", "saving"):
            for victim in random.sample(range(RANKS), 2):
                with self.subTest(phase=phase, victim=victim):
                    self.run_with(signal.SIGKILL, phase, victim)


if __name__ == "__main__":
    unittest.main(argv=["network_faults_test.py", *sys.argv[3:]])
