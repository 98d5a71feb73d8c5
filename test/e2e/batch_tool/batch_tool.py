"""omnibal-batch as users call it; what it writes is loaded and counted again with NumPy."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BIN, DATA = sys.argv[1:3]
METHODS = ("plan", "isf", "random", "sorted")
MEASURED = ("seconds", "peak_rss_bytes")


def call(*arguments, check=True, code=None, **options):
    command = [os.path.join(BIN, "omnibal-batch"), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **options)
    if (check and code is None and result.returncode != 0) or (code is not None and result.returncode != code):
        raise AssertionError(f"exit {result.returncode} from {' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result


def some_lengths(count, seed, tiles=(0, 1, 3, 5), longest=2000):
    generator = np.random.default_rng(seed)
    v = generator.choice(tiles, count)
    return np.stack([v, np.minimum(longest, 20 + 250 * v + generator.integers(0, 400, count))], axis=1)


def ratio(values):
    """Mean over rows of 1 - mean / max, rows without load left out."""
    rows = values[values.max(axis=1) > 0]
    return float((1 - rows.mean(axis=1) / rows.max(axis=1)).mean()) if len(rows) else 0.0


class Folder:
    """What the tool wrote, as any NumPy user would load it."""

    def __init__(self, path):
        with open(f"{path}/batches.json") as file:
            self.json = json.load(file)
        self.samples, self.groups = np.load(f"{path}/samples.npy"), np.load(f"{path}/groups.npy")
        self.lengths = np.load(f"{path}/lengths.npy")
        squares = f"{path}/squares.npy"
        self.squares = np.load(squares) if os.path.exists(squares) else None

    def group(self, number):
        return self.samples[self.groups[number]:self.groups[number + 1]]

    def sums(self, values):
        return np.array([values[self.group(g)].sum() for g in range(len(self.groups) - 1)])


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="omnibal-batch-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def table(self, lengths, name="lengths.csv"):
        with open(self.path(name), "w") as file:
            file.write("vit_num,token_num\n" + "".join(f"{v},{t}\n" for v, t in lengths))
        return self.path(name)

    def batch(self, lengths, *flags, tiles=9, tokens=4096, name="out"):
        call(self.table(lengths), "--tiles", tiles, "--tokens", tokens, "-o", self.path(name), *flags)
        return Folder(self.path(name))

    def check(self, out, lengths, tiles=9, tokens=4096, skipped=()):
        """Everything that is promised about any result."""
        facts = out.json
        ranks, groups = facts["ranks"], len(out.groups) - 1
        self.assertEqual((out.samples.dtype, out.groups.dtype, out.lengths.dtype), (np.int64, np.int64, np.int32))
        self.assertTrue(np.array_equal(out.lengths, lengths))
        self.assertEqual(sorted(out.samples.tolist()), sorted(set(range(len(lengths))) - set(skipped)))
        self.assertEqual((out.groups[0], out.groups[-1]), (0, len(out.samples)))
        sizes = np.diff(out.groups)
        self.assertTrue((sizes >= 0).all())
        if sizes.max() > 1:
            self.assertTrue((sizes > 0).all())
        self.assertLess((sizes == 0).sum(), ranks)
        self.assertEqual(groups % ranks, 0)
        over = np.flatnonzero((np.asarray(lengths) > [tiles, tokens]).any(axis=1))
        self.assertEqual(facts["oversize"], over.tolist())
        alone = np.isin(np.array([out.group(g)[0] if sizes[g] else -1 for g in range(groups)]), over)
        self.assertTrue((sizes[alone] == 1).all())
        v, t = out.sums(out.lengths[:, 0]), out.sums(out.lengths[:, 1])
        self.assertTrue((v[~alone] <= tiles).all() and (t[~alone] <= tokens).all())
        self.assertEqual((facts["samples"], facts["groups"], facts["steps"]), (len(lengths), groups, groups // ranks))
        self.assertEqual((facts["tiles_cap"], facts["tokens_cap"]), (tiles, tokens))
        fitting = np.setdiff1d(out.samples, over)
        least = max(-(-out.lengths[fitting, 0].sum() // tiles), -(-out.lengths[fitting, 1].sum() // tokens))
        own = len(over) - len(skipped)
        self.assertGreaterEqual(facts["groups_lower_bound"], least + own)
        self.assertLessEqual(facts["groups_lower_bound"], groups)
        self.assertAlmostEqual(facts["gap"], groups / facts["groups_lower_bound"] - 1, places=12)
        self.assertEqual(facts["after"]["pad_ratio"], 0)
        self.assertAlmostEqual(facts["after"]["dist_ratio_vit"], ratio(v.reshape(-1, ranks)), places=9)
        self.assertAlmostEqual(facts["after"]["dist_ratio_llm"], ratio(t.reshape(-1, ranks)), places=9)
        self.assertGreater(facts["seconds"], 0)
        self.assertGreater(facts["peak_rss_bytes"], 1 << 20)
