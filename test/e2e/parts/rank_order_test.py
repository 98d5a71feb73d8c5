#!/usr/bin/env python3
"""Replicas of a stage as neighboring ranks: rank_order_test.py BIN_FOLDER DATA_FOLDER CLASS [unittest options]

Which ranks are neighbors says over which links they talk, and nothing else: every run has the bits of the same program with stages as
neighbors.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from outcomes import OutcomeCase, TiedCase, layout  # noqa: E402
from run_case import BIN, DATA, MODEL  # noqa: E402

BY_REPLICA = ("--rank-order", "replica")
WORDS = ("--model-parallel", "2", "--layouts", os.path.join(DATA, "layouts", "tiny-internvl-words.json"))
ALIKE = ("--model-parallel", "2", "--layouts", "none")


def both(**flags):
    """Each program with stages as neighbors, and "NAME-replica" with replicas."""
    programs = {}
    for name, given in flags.items():
        programs[name], programs[f"{name}-replica"] = layout(*given), layout(*given, *BY_REPLICA)
    return programs


class Bits(OutcomeCase):
    layouts = both(plain=(3, 2), zero=(2, 3, "--zero", "1"), words=(2, 2, *WORDS), alike=(2, 2, *ALIKE))

    def test_whoever_is_a_neighbor(self):
        for name, ranks in (("plain", 6), ("zero", 6), ("words", 8), ("alike", 8)):
            expected = self.outcome(name, 6, "--threads", "1")
            for launch in ("threads", "mpirun", "tcp"):
                with self.subTest(program=name, launch=launch):
                    found = self.outcome(f"{name}-replica", 6, "--threads", "1", ranks=ranks, launch=launch)
                    self.assertSame(expected, found, f"{name} by {launch}")

    def test_a_run_goes_on_in_the_other_order(self):
        whole = self.outcome("plain", 6)
        self.outcome("plain", 6, "--steps", "2", name="half")
        self.run_tool("--resume", self.path("half.ck"), "--save", self.path("rest.saved"), "--lr", "1e-3", "--clip", "0.5",
                      program="plain-replica", steps=self.groups(6))
        self.assertEqual(self.weights("rest.saved"), whole[1])

    def test_the_program_says_so(self):
        for name, says in (("plain", False), ("plain-replica", True)):
            with open(f"{self.programs}/{name}/manifest.json") as file:
                self.assertEqual(json.load(file).get("rank_order"), "replica" if says else None)
            said = subprocess.run([f"{BIN}/omnibal-run", f"{self.programs}/{name}", "--print"], capture_output=True, text=True, check=True).stdout
            self.assertEqual("neighbors: the replicas of a stage" in said, says)


class Tied(TiedCase):
    """Stages that share a parameter are no neighbors then."""
    layouts = both(tied=(2, 2))

    def test_copies_of_a_parameter(self):
        self.assertSame(self.outcome("tied", 6), self.outcome("tied-replica", 6), "tied")


class Refused(unittest.TestCase):
    def refusal(self, *flags):
        done = subprocess.run([f"{BIN}/omnibal-compile", os.path.join(MODEL, "model.onnx"), "--tiles", "4", "--tokens", "64", "--dry-run", *flags],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_orders_there_are_not(self):
        self.assertIn("--rank-order: parts is none of stage, replica, auto", self.refusal("--rank-order", "parts"))
        self.assertIn("--rank-order auto needs --ranks", self.refusal("--rank-order", "auto"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
