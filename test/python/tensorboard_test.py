#!/usr/bin/env python3
"""Event files as TensorBoard itself reads them: tensorboard_test.py BIN_FOLDER DATA_FOLDER [unittest options]"""
import json
import os
import sys
import unittest

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "python"))
from run_case import RunCase  # noqa: E402


class Readers(RunCase):
    layouts = {"one": ()}

    def train(self, folder, *flags):
        """What the log then holds: {tag: [(step, value)]}."""
        log = self.path(f"{folder}.jsonl")
        self.run_tool("--log", log, "--tensorboard", self.path(folder), *flags)
        values = {}
        with open(log) as file:
            for line in map(json.loads, file):
                for field, value in line.items():
                    if isinstance(value, (int, float)) and field != "step":
                        values.setdefault(f"train/{field}", []).append((line["step"], np.float32(value)))
        return values

    def read(self, folder):
        events = EventAccumulator(self.path(folder), size_guidance={"scalars": 0}).Reload()
        return {tag: [(event.step, np.float32(event.value)) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]
                if events.Scalars(tag)}  # a tag stays without those that were computed again

    def test_a_run(self):
        values = self.train("tb")
        self.assertEqual(len(values["train/loss"]), 10)
        self.assertEqual(self.read("tb"), values)

    def test_a_run_that_goes_on_before_its_last_step(self):
        checkpoints = ("--checkpoint", self.path("ck"), "--checkpoint-every", 3)
        self.train("tb", *checkpoints, "--steps", 5)
        resumed = self.train("tb", "--resume", self.path("ck/step-00000003"), "--steps", 8)
        self.assertEqual([step for step, _ in resumed["train/loss"]], list(range(8)))
        self.assertEqual(self.read("tb"), resumed)

    def test_a_run_that_begins_anew_in_the_same_folder(self):
        self.train("tb", "--steps", 4)
        anew = self.train("tb", "--steps", 2)
        self.assertEqual(len(anew["train/loss"]), 2)
        self.assertEqual(self.read("tb"), anew)

    def test_folders_side_by_side(self):
        """As TensorBoard's own pages read them."""
        expected = {name: self.train(f"runs-{name}", "--steps", 3, "--lr", rate) for name, rate in (("a", 1e-3), ("b", 1e-4))}
        pages = EventMultiplexer({name: self.path(f"runs-{name}") for name in expected}, tensor_size_guidance={"scalars": 0}).Reload()
        for name, values in expected.items():
            for tag, steps in values.items():
                self.assertEqual([(event.step, np.float32(event.tensor_proto.float_val[0])) for event in pages.Tensors(name, tag)], steps)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
