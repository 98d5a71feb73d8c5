#!/usr/bin/env python3
"""The batch sampler for other trainers: every sample once an epoch over all ranks, resumption, and clear refusals.

    batches_test.py BIN_FOLDER [unittest options]
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
from omnibal_batches import BalancedBatchSampler, Batches

BIN = sys.argv.pop(1)
RANKS, ROWS = 3, 20


def write(folder, groups, ranks=RANKS, lengths=None, **settings):
    """A folder as omnibal-batch writes it."""
    os.makedirs(folder, exist_ok=True)
    samples = np.array([s for group in groups for s in group], np.int64)
    np.save(f"{folder}/samples.npy", samples)
    np.save(f"{folder}/groups.npy", np.cumsum([0] + [len(g) for g in groups], dtype=np.int64))
    np.save(f"{folder}/lengths.npy", np.zeros((len(samples), 2), np.int32) if lengths is None else lengths)
    with open(f"{folder}/batches.json", "w") as file:
        json.dump(dict(ranks=ranks, seed=7, **settings), file)


class Sampler(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = os.path.join(temporary.name, "batches")
        generator = np.random.default_rng(1)
        sizes = generator.integers(1, 5, RANKS * ROWS)
        numbers = generator.permutation(sizes.sum())
        self.groups = [part.tolist() for part in np.split(numbers, np.cumsum(sizes)[:-1])]
        write(self.folder, self.groups)

    def epoch(self, number, **options):
        """Batches of every rank."""
        result = []
        for rank in range(RANKS):
            sampler = BalancedBatchSampler(self.folder, rank, **options)
            sampler.set_epoch(number)
            batches = list(sampler)
            self.assertEqual(len(batches), len(sampler))
            result.append(batches)
        return result

    def test_first_epoch_is_the_folder(self):
        for rank, batches in enumerate(self.epoch(0)):
            self.assertEqual(batches, self.groups[rank::RANKS])
            self.assertTrue(all(type(number) is int for batch in batches for number in batch))

    def test_every_epoch_has_every_row_once(self):
        seen = []
        for number in range(4):
            ranks = self.epoch(number)
            rows = [tuple(map(tuple, row)) for row in zip(*ranks)]
            wanted = [tuple(map(tuple, self.groups[i:i + RANKS])) for i in range(0, len(self.groups), RANKS)]
            self.assertEqual(sorted(rows), sorted(wanted))
            self.assertNotIn(rows, seen)
            seen.append(rows)
            # Blocks of eight stay together.
            first = [wanted.index(row) // 8 for row in rows[:8]]
            self.assertEqual(len(set(first)), 1)
        self.assertEqual(self.epoch(3), self.epoch(3))

    def test_resumes_where_it_was(self):
        for number in (0, 2):
            sampler = BalancedBatchSampler(self.folder, 1)
            sampler.set_epoch(number)
            whole = list(sampler)
            sampler.set_epoch(number, start=13)
            self.assertEqual(len(sampler), ROWS - 13)
            self.assertEqual(list(sampler), whole[13:])
            sampler.set_epoch(number, start=ROWS)
            self.assertEqual(list(sampler), [])
            sampler.set_epoch(number)
            self.assertEqual(list(sampler), whole)

    def test_last_step_is_filled(self):
        for batches in self.epoch(0, microbatches=8):
            self.assertEqual(len(batches), 24)
            self.assertEqual(batches[ROWS:], [[]] * 4)
            self.assertTrue(all(batches[:ROWS]))

    def test_a_folder_an_epoch(self):
        base = os.path.dirname(self.folder)
        for number in range(2):
            write(f"{base}/{number}", self.groups if number == 0 else self.groups[::-1])
        sampler = BalancedBatchSampler(os.path.join(base, "{epoch}"), 0)
        self.assertEqual(list(sampler), self.groups[::RANKS])
        sampler.set_epoch(1)
        self.assertEqual(list(sampler), self.groups[::-1][::RANKS])
        with self.assertRaisesRegex(FileNotFoundError, "batches.json is missing"):
            sampler.set_epoch(2)

    def test_rank_of_torchrun(self):
        with mock.patch.dict(os.environ, RANK="2", WORLD_SIZE="3"):
            self.assertEqual(list(BalancedBatchSampler(self.folder)), self.groups[2::RANKS])
        with mock.patch.dict(os.environ, RANK="0", WORLD_SIZE="4"):
            with self.assertRaisesRegex(ValueError, "made for 3 data-parallel ranks, but WORLD_SIZE is 4"):
                BalancedBatchSampler(self.folder)

    def test_pickled_as_a_path(self):
        sampler = BalancedBatchSampler(self.folder, 1)
        text = pickle.dumps(sampler)
        self.assertLess(len(text), 1000)
        self.assertEqual(list(pickle.loads(text)), list(sampler))

    def test_loads_of_groups(self):
        lengths = np.array([[1, 10], [2, 20], [4, 40]], np.int32)
        write(self.folder, [[2, 0], [], [1]], lengths=lengths)
        self.assertEqual(Batches(self.folder).loads().tolist(), [[5, 50], [0, 0], [2, 20]])

    def test_refusals(self):
        def refuse(pattern, **options):
            with self.assertRaisesRegex((ValueError, FileNotFoundError), pattern):
                BalancedBatchSampler(self.folder, **{"rank": 0, **options})
        refuse("there is no rank 3", rank=3)
        refuse("there is no rank -1", rank=-1)
        refuse("microbatches is 0", microbatches=0)
        refuse(r"names sample \d+, but the data set has 10 samples", samples=10)
        with self.assertRaisesRegex(ValueError, "start is 21, but an epoch has 20"):
            BalancedBatchSampler(self.folder, 0).set_epoch(0, start=21)
        write(self.folder, self.groups[:-1])
        refuse("59 groups are no multiple of 3 ranks")
        write(self.folder, self.groups)
        np.save(f"{self.folder}/groups.npy", np.array([0, 1, 2, 3], np.int64))
        refuse("do not span")
        np.save(f"{self.folder}/groups.npy", np.array([0.0, 1.0]))
        refuse("float64 instead of 1 of int64")
        os.remove(f"{self.folder}/batches.json")
        refuse("batches.json is missing")
        with open(f"{self.folder}/batches.json", "w") as file:
            file.write("{}")
        refuse("not as omnibal-batch writes it")


class OfTheTool(unittest.TestCase):
    def with_length_groups(self, tokens):
        """A folder of the tool for 4 replicas: short samples by themselves, longer ones on two context ranks each."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = temporary.name
        with open(f"{folder}/lengths.csv", "w") as file:
            file.write("vit_num,token_num\n" + "".join(f"0,{n}\n" for n in tokens))
        with open(f"{folder}/cost.json", "w") as file:
            json.dump({"tile_ns": 1, "token_ns": 100, "square_ns": 0.5}, file)
        subprocess.run([f"{BIN}/omnibal-batch", f"{folder}/lengths.csv", "--length-groups", "512,4096:2", "--cost", f"{folder}/cost.json",
                        "--ranks", "4", "--tokens-per-step", "8192", "--min-gain", "0", "-o", f"{folder}/modes"],
                       check=True, stdout=subprocess.DEVNULL)
        return f"{folder}/modes"

    def test_length_groups(self):
        tokens = np.random.default_rng(2).integers(16, 512, 900).tolist() + [1500, 4000, 2500, 3000] * 6
        folder = self.with_length_groups(tokens)
        with open(f"{folder}/groups.json") as file:
            modes = json.load(file)["groups"]
        self.assertEqual([mode["degree"] for mode in modes], [1, 2])
        rows = np.load(f"{folder}/rows.npy")
        first = None
        for epoch in range(3):
            samplers = [BalancedBatchSampler(folder, rank) for rank in range(4)]
            for sampler in samplers:
                sampler.set_epoch(epoch)
            named, batches = [s.modes() for s in samplers], [list(s) for s in samplers]
            self.assertTrue(all(each == named[0] for each in named), "ranks run different modes")
            self.assertEqual({len(each) for each in batches}, {len(named[0])})
            self.assertEqual(len(samplers[0]), len(named[0]))
            # Whole steps of a mode's micro-batches; each mode as often as the folder has steps of it.
            steps, at = [], 0
            while at < len(named[0]):
                count = modes[named[0][at]]["microbatches"]
                self.assertEqual(set(named[0][at:at + count]), {named[0][at]})
                steps.append((named[0][at], tuple(sorted(s for b in batches for part in b[at:at + count] for s in part))))
                at += count
            self.assertEqual([mode for mode, _ in steps], rows[np.flatnonzero(np.diff(rows[:, 1], prepend=-1)), 0].tolist())
            # Every sample once over the data-parallel ranks; context ranks read the same.
            seen = []
            for position, mode in enumerate(named[0]):
                degree = modes[mode]["degree"]
                parts = [batches[rank][position] for rank in range(4)]
                for rank, part in enumerate(parts):
                    self.assertEqual(part, parts[rank - rank % degree])
                    self.assertLessEqual(sum(tokens[s] for s in part), modes[mode]["tokens_cap"])
                seen += [s for part in parts[::degree] for s in part]
            self.assertEqual(sorted(seen), list(range(len(tokens))))
            if first is None:
                first = steps
            else:  # the same steps in another order
                self.assertNotEqual(steps, first)
                self.assertEqual(sorted(steps), sorted(first))
            resumed = BalancedBatchSampler(folder, 3)
            resumed.set_epoch(epoch, start=5)
            self.assertEqual((list(resumed), resumed.modes()), (batches[3][5:], named[3][5:]))
        with self.assertRaisesRegex(ValueError, "length groups say how many"):
            BalancedBatchSampler(folder, 0, microbatches=2)
        broken = rows.copy()
        broken[0, 0] = 7
        np.save(f"{folder}/rows.npy", broken)
        with self.assertRaisesRegex(ValueError, "rows.npy: its rows have other length groups"):
            Batches(folder)

    def test_more_ranks_than_samples_and_a_real_epoch(self):
        with tempfile.TemporaryDirectory() as work:
            generator = np.random.default_rng(2)
            for count, ranks in ((2, 4), (500, 4)):
                with open(f"{work}/lengths.csv", "w") as file:
                    file.write("vit_num,token_num\n")
                    for _ in range(count):
                        file.write(f"{generator.integers(0, 5)},{generator.integers(1, 900)}\n")
                subprocess.run([os.path.join(BIN, "omnibal-batch"), f"{work}/lengths.csv", "--tiles", "6", "--tokens",
                                "1000", "--ranks", str(ranks), "-o", f"{work}/batches"], check=True, stdout=subprocess.PIPE)
                samplers = [BalancedBatchSampler(f"{work}/batches", rank, samples=count) for rank in range(ranks)]
                self.assertEqual(len({len(sampler) for sampler in samplers}), 1)
                numbers = [n for sampler in samplers for batch in sampler for n in batch]
                self.assertEqual(sorted(numbers), list(range(count)))
                loads = samplers[0].batches.loads()
                self.assertTrue((loads <= [6, 1000]).all())


if __name__ == "__main__":
    unittest.main()
