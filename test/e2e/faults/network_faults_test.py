#!/usr/bin/env python3
"""Ranks that hang, die or lose their network while others wait for them, over TCP as torchrun starts them:
network_faults_test.py BIN_FOLDER DATA_FOLDER [unittest options]. In every phase the others end within the deadline and name the
rank, finished steps survive, and the same command line goes on. test/support/network_faults makes the faults of the network."""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, RunCase  # noqa: E402

FAULTS = os.path.abspath(os.path.join(BIN, "..", "network_faults", "libnetwork_faults.so"))
RANKS, DEADLINE = 4, 3
PATIENCE = 12  # of this test, beyond the deadline; the machine may be busy
CUT, VANISH = signal.SIGRTMIN, signal.SIGRTMIN + 1
SLOW = 200000  # bytes a second: the sums of gradients take two seconds then, half of a step


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


def sockets(process):
    folder, count = f"/proc/{process}/fd", 0
    for name in os.listdir(folder):
        try:
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
        except FileNotFoundError:
            pass
    return count


class NetworkFaults(RunCase):
    layouts = {"four": ("--stages", "2", "--data-parallel", "2", "--microbatches", "2")}

    def setUp(self):
        super().setUp()
        self.log, self.port = self.path("log.jsonl"), free_port()

    def flags(self, steps, every):
        return ("--steps", steps, "--threads", 1, "--log", self.log, "--checkpoint", self.path("ck"), "--checkpoint-every", every,
                "--resume", "auto")

    def start(self, command, ranks=range(RANKS), deadline=DEADLINE, **faults):
        """Ranks as torchrun starts them; what each says goes to a file. `faults`: variables of NetworkFaults.cpp without their
        beginning."""
        jobs = {}
        for r in ranks:
            environment = dict(os.environ, RANK=str(r), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(r), LOCAL_WORLD_SIZE=str(RANKS),
                               MASTER_ADDR=faults.get("NAME", "127.0.0.1"), MASTER_PORT=str(self.port),
                               OMNIBAL_DEADLINE_SECONDS=str(deadline), LD_PRELOAD=FAULTS)
            environment.update({"NETWORK_FAULTS_" + name: str(value) for name, value in faults.items()})
            with open(self.path(f"said{r}"), "w") as said:
                jobs[r] = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
            self.addCleanup(self.end, jobs[r])
        return jobs

    def end(self, job):
        """With whoever keeps its connections open."""
        try:
            os.killpg(job.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        job.wait()

    def said(self, ranks=range(RANKS)):
        text = ""
        for rank in ranks:
            if os.path.exists(self.path(f"said{rank}")):
                with open(self.path(f"said{rank}")) as file:
                    text += f"[{rank}] " + file.read()
        return text

    def wait_for(self, jobs, condition):
        end = time.time() + 60
        while not condition():
            if time.time() > end or any(job.poll() is not None for job in jobs.values()):
                self.fail(self.said())
            time.sleep(0.005)

    def steps_logged(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def reach(self, phase, jobs, victim):
        if phase == "starting":
            time.sleep(random.random() * 0.1)
        elif phase == "meeting":  # one rank comes only after the fault
            self.wait_for(jobs, lambda: sockets(jobs[victim].pid) >= (RANKS if victim == 0 else 2))
        elif phase == "steps":
            self.wait_for(jobs, lambda: len(self.steps_logged()) > 2)
            time.sleep(random.random() * 0.2)
        elif phase == "saving":
            self.wait_for(jobs, lambda: os.path.isdir(self.path("ck")) and any("incomplete" in name for name in os.listdir(self.path("ck"))))
        else:  # on a slow line
            self.wait_for(jobs, lambda: len(self.steps_logged()) > 0)
            waits = self.steps_logged()[0]
            time.sleep((waits["pipeline_ms"] + random.uniform(0.3, 0.5) * waits["epilogue_ms"]) / 1000)

    def all_end(self, jobs, deadline=DEADLINE):
        end = time.time() + deadline + PATIENCE
        for r, job in jobs.items():
            try:
                code = job.wait(max(0.1, end - time.time()))
            except subprocess.TimeoutExpired:
                self.fail(f"rank {r} still runs; the ranks said:\n{self.said()}")
            self.assertEqual(code, 1, self.said())

    def run_with(self, kind, phase, victim):
        if os.path.exists(self.log):
            os.remove(self.log)
        subprocess.run(["rm", "-rf", self.path("ck")], check=True)
        self.port = free_port()
        command = self.command(*self.flags(1000000, 1 if phase == "saving" else 3), program="four")
        last = (victim + 1) % (RANKS - 1) + 1 if phase == "meeting" else None
        jobs = self.start(command, [r for r in range(RANKS) if r != last], **({"RATE": SLOW} if phase == "epilogue" else {}))
        self.reach(phase, jobs, victim)
        jobs[victim].send_signal(kind)
        if last is not None:
            jobs.update(self.start(command, [last]))
        lives = kind in (CUT, VANISH)
        self.all_end({r: job for r, job in jobs.items() if lives or r != victim})
        others = self.said(r for r in range(RANKS) if r != victim)
        self.end(jobs[victim])
        self.assertRegex(others, rf"ranks? ({victim}\b|[\d, ]*\b{victim}\b)")
        if lives:
            self.assertRegex(self.said([victim]), r"rank \d")
        if phase == "epilogue":
            self.assertRegex(self.said(), r"step \d+, stage \d, reduce_")
        self.assertFalse(re.search("terminate called|Segmentation", self.said()), self.said())

    def goes_on(self):
        """From the newest checkpoint, with the steps of a run that nothing happened to."""
        folder = self.path("ck")
        kept = max([int(name[5:]) for name in os.listdir(folder) if re.fullmatch(r"step-\d{8}", name)] if os.path.isdir(folder) else [0],
                   default=0)
        logged = len(self.steps_logged())
        self.assertGreaterEqual(kept, (logged - 1) // 3 * 3 - 3)  # the last one may have been under way
        end = max(kept, logged) + 2
        self.run_tool(*self.flags(end, 3), program="four", says=f"continuing after step {kept}" if kept else "")
        steps = self.steps_logged()
        if len(self.undisturbed) < end:
            self.run_tool("--steps", end + 50, "--log", self.path("whole.jsonl"), program="four")
            with open(self.path("whole.jsonl")) as file:
                type(self).undisturbed = [json.loads(line) for line in file]
        for key in ("step", "loss", "grad_norm"):
            self.assertEqual([step[key] for step in steps], [step[key] for step in self.undisturbed[:end]])

    undisturbed = []

    def in_phases(self, kind, seed, *phases):
        random.seed(seed)
        for phase in phases:
            # Rank 0, where all meet, differs from the others while they do.
            for victim in (0, random.randrange(1, RANKS)) if phase in ("starting", "meeting") else (random.randrange(RANKS),):
                with self.subTest(phase=phase, victim=victim):
                    self.run_with(kind, phase, victim)
                    self.goes_on()

    def test_a_rank_that_is_stopped(self):
        self.in_phases(signal.SIGSTOP, 11, "starting", "meeting", "steps", "saving", "epilogue")

    def test_a_rank_that_is_killed(self):
        self.in_phases(signal.SIGKILL, 12, "starting", "meeting", "steps", "saving", "epilogue")

    def test_connections_that_are_cut(self):
        self.in_phases(CUT, 13, "meeting", "steps", "saving", "epilogue")

    def test_a_rank_that_vanishes_from_the_network(self):
        """Its packets are lost, in both directions, and nobody hears of its end."""
        self.in_phases(VANISH, 14, "meeting", "steps", "saving", "epilogue")

    def test_a_slow_network(self):
        """A message takes longer than ranks wait for each other: the run works, slowly."""
        begin = time.time()
        jobs = self.start(self.command(*self.flags(2, 1), program="four"), deadline=1, RATE=SLOW)
        for job in jobs.values():
            self.assertEqual(job.wait(120), 0, self.said())
        self.assertGreater(time.time() - begin, 4)
        self.goes_on()

    def test_a_name_that_becomes_known_late(self):
        for fault in ({"AFTER": 2}, {"LOOKUP": 1.5}):
            with self.subTest(**fault):
                jobs = self.start(self.command("--steps", 1, program="four"), deadline=20, NAME="late.example", **fault)
                for job in jobs.values():
                    self.assertEqual(job.wait(60), 0, self.said())

    def test_a_name_that_is_never_known(self):
        for fault, why in ({"AFTER": 1000}, "is unknown here"), ({"LOOKUP": 1000}, "did not end"):
            with self.subTest(**fault):
                begin = time.time()
                self.all_end(self.start(self.command("--steps", 1, program="four"), NAME="late.example", **fault))
                self.assertGreater(time.time() - begin, DEADLINE)
                self.assertIn('looking up the address "late.example"' if why == "did not end" else 'the address "late.example"',
                              self.said([2]))
                self.assertIn(why, self.said([2]))
                self.assertIn("for ranks 1, 2, 3, which did not come", self.said([0]))


if __name__ == "__main__":
    unittest.main(argv=["network_faults_test.py", *sys.argv[3:]])
