#!/usr/bin/env python3
"""omnibal-batch --length-groups; every folder is checked by length_groups.py.

    length_groups_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import json
import os
import subprocess
import sys
import unittest

import numpy as np

from batch_tool import BIN, DATA, ToolTest, call
from length_groups import check

sys.path.insert(0, os.path.join(DATA, "length-groups"))
import make_candidates

TEXT = os.path.join(DATA, "length-groups", "text-8b.json")
HBP = os.path.join(DATA, "length-groups", "text-8b-hbp.json")
VLM = os.path.join(DATA, "length-groups", "vlm-8b.json")


def text(count, seed=3, longest=131072):
    generator = np.random.default_rng(seed)
    tokens = np.clip(600 * np.exp(0.8 * generator.standard_normal(count)), 16, 32768)
    long = generator.random(count) < 0.004
    tokens[long] = 4096 * (longest / 4096) ** generator.random(long.sum())
    return np.stack([np.zeros(count, int), tokens.astype(int)], axis=1)


def pooled():
    rows = np.loadtxt(os.path.join(DATA, "lengths", "pooled.csv"), delimiter=",", skiprows=1, dtype=int)
    return np.repeat(rows[:, :2], rows[:, 2], axis=0)


class LengthGroups(ToolTest):
    def grouped(self, lengths, candidates, *flags, name="out"):
        call(self.table(lengths), "--length-groups", candidates, "-o", self.path(name), *flags)
        with open(candidates, encoding="utf-8") as file:
            return check(self.path(name), json.load(file))

    def refused(self, *arguments, code=1):
        result = call(*arguments, code=code)
        self.assertEqual(len(result.stderr.strip().splitlines()), 2 if code == 2 else 1, result.stderr)
        return result.stderr

    def test_targets_on_text(self):
        lengths = text(400_000)
        ours = self.grouped(lengths, TEXT).groups
        hbp = self.grouped(lengths, HBP, "--method", "hbp", name="hbp").groups
        two = self.grouped(lengths, TEXT, "--max-groups", 2, name="two").groups
        self.assertEqual(len(ours["groups"]), 3)
        self.assertLessEqual(ours["epoch_ns"], 1.010 * ours["bound_all_ns"])
        self.assertLessEqual(ours["epoch_ns"], 0.955 * hbp["epoch_ns"])
        self.assertLessEqual(two["epoch_ns"], 1.020 * two["bound_all_ns"])
        self.assertLessEqual(ours["dist_ratio_cost"], 0.002)
        self.assertLessEqual(ours["step_variance_32"], 1)
        self.assertLessEqual(ours["step_variance_8"], 3)

    def test_targets_on_longer_text(self):
        make_candidates.write(self.work, "long.json", make_candidates.groups(524288, degrees=(1, 2, 4, 8, 16, 32), step=2 << 20), 2 << 20)
        lengths = text(939_343, longest=524288)
        for count, most in ((3, 1.020), (4, 1.015)):
            ours = self.grouped(lengths, self.path("long.json"), "--max-groups", count).groups
            self.assertLessEqual(ours["epoch_ns"], most * ours["bound_all_ns"])
            self.assertLessEqual(ours["epoch_ns"], 1.005 * ours["bound_ns"])

    def test_targets_on_pictures_with_long_samples(self):
        generator = np.random.default_rng(4)
        lengths = np.tile(pooled(), (16, 1))
        long = generator.random(len(lengths)) < 0.004
        lengths[long, 0] = 8 * 63 ** generator.random(long.sum())
        lengths[long, 1] = 256 * lengths[long, 0] + generator.integers(64, 1564, long.sum())
        candidates = make_candidates.groups(131072, lengths[:, 0].sum() / lengths[:, 1].sum(),
                                            lambda tokens: int(lengths[lengths[:, 1] <= tokens, 0].max()))
        make_candidates.write(self.work, "vlm.json", [g for g in candidates if g["tokens_cap"] >= 2048])
        ours = self.grouped(lengths, self.path("vlm.json")).groups
        self.assertLessEqual(ours["epoch_ns"], 1.020 * ours["bound_all_ns"])
        self.assertLessEqual(ours["dist_ratio_vit"], 0.015)

    def test_real_pictures_have_one_group_and_the_bytes_of_its_caps(self):
        out = self.grouped(pooled(), VLM)
        self.assertEqual(len(out.groups["groups"]), 1)
        g = out.groups["groups"][0]
        with open(self.path("cost.json"), "w") as file:
            json.dump({k: g["cost"][k] for k in ("tile_ns", "token_ns", "square_ns")}, file)
        call(self.table(pooled()), "--tiles", g["tiles_cap"], "--tokens", g["tokens_cap"], "--ranks", g["ranks"], "--cost",
             self.path("cost.json"), "-o", self.path("plain"))
        for name in ("samples.npy", "groups.npy", "lengths.npy"):
            with open(self.path("out/" + name), "rb") as a, open(self.path("plain/" + name), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)

    def test_curriculum_comes_first_and_moves_nothing_else(self):
        lengths = text(60_000)
        plain, first = self.grouped(lengths, TEXT), self.grouped(lengths, TEXT, "--curriculum", 20, name="first")
        self.assertTrue((first.rows[first.rows[:, 1] < 20, 0] == 0).all())
        self.assertTrue((plain.rows[plain.rows[:, 1] < 20, 0] != 0).any())
        self.assertAlmostEqual(first.groups["epoch_ns"] / plain.groups["epoch_ns"], 1, places=9)
        said = self.refused(self.table(lengths), "--length-groups", TEXT, "--curriculum", 9999, "-o", self.path("no"))
        self.assertIn("more than half", said)

    def test_later_epochs_follow_from_the_chosen_groups(self):
        lengths = text(30_000)
        first = self.grouped(lengths, TEXT, "--epoch", 1)
        again = self.path("again")
        call(self.table(lengths), "--length-groups", self.path("out/groups.json"), "--epoch", 1, "--min-gain", 0, "-o", again)
        self.assertEqual(np.load(again + "/samples.npy").tolist(), first.samples.tolist())
        self.assertEqual(np.load(again + "/rows.npy").tolist(), first.rows.tolist())
        other = self.grouped(lengths, TEXT, name="zero")
        self.assertNotEqual(other.samples.tolist(), first.samples.tolist())
        self.assertEqual([g["name"] for g in other.groups["groups"]], [g["name"] for g in first.groups["groups"]])

    def test_stages_and_text_candidates(self):
        lengths = text(20_000)
        with open(self.path("cost.json"), "w") as file:
            json.dump({"token_ns": 1000, "square_ns": 0.05, "microbatch_ns": 1e6, "step_ns": 2e6, "stages": 4}, file)
        flags = (self.table(lengths), "--length-groups", "4096,32768:4,131072:8", "--cost", self.path("cost.json"), "--ranks", 8,
                 "--tokens-per-step", 1 << 19)
        call(*flags, "-o", self.path("out"), "--report", self.path("page.html"))
        groups = [{"name": n, "tiles_cap": 1, "tokens_cap": t, "degree": k, "ranks": 8 // k,
                   "microbatches": max(1, round(2**19 / (8 // k * t))),
                   "cost": {"tile_ns": 0, "token_ns": 1000 / k, "square_ns": 0.05 / k, "microbatch_ns": 1e6, "step_ns": 2e6}}
                  for n, t, k in (("4K", 4096, 1), ("32K:4", 32768, 4), ("128K:8", 131072, 8))]
        check(self.path("out"), {"groups": groups})
        with open(self.path("page.html"), encoding="utf-8") as page:
            page = page.read()
        for word in ("128K:8", "class=\"band\"", "bound of all candidates", "bound of the chosen length groups"):
            self.assertIn(word, page)

    def test_few_samples(self):
        for seed in range(6):
            generator = np.random.default_rng(seed)
            count = int(generator.integers(1, 40))
            self.grouped(np.stack([np.zeros(count, int), generator.integers(0, 9000, count)], axis=1), TEXT)

    def test_programs_take_any_degree(self):
        with open(self.path("cost.json"), "w") as file:
            json.dump({"token_ns": 1000, "square_ns": 0.05}, file)
        for candidates in ("128,512", "128,512:2", "512:2"):
            lengths = [[0, 20 + n % 100 + 300 * (n % 30 == 0)] for n in range(600)]
            call(self.table(np.array(lengths)), "--length-groups", candidates, "--cost", self.path("cost.json"), "--ranks", 2,
                 "--tokens-per-step", 4096, "--min-gain", 0, "-o", self.path("out"))
            done = subprocess.run([os.path.join(BIN, "omnibal-compile"), os.path.join(DATA, "tiny-internvl", "model.onnx"),
                                   "--data-parallel", "2", "--batches", self.path("out"), "--dry-run"],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(self.path("out/groups.json"), encoding="utf-8") as file:
                for group in json.load(file)["groups"]:
                    self.assertIn(f"{group['steps']} steps of {group['name']} in ", done.stdout)

    def test_bad_candidates(self):
        with open(TEXT, encoding="utf-8") as file:
            good = json.load(file)
        table, bad = self.table(text(100)), self.path("bad.json")

        def said(change):
            value = json.loads(json.dumps(good))
            change(value)
            with open(bad, "w") as file:
                json.dump(value, file)
            return self.refused(table, "--length-groups", bad, "-o", self.path("no"))

        self.assertIn("unknown", said(lambda v: v.update(extra=1)))
        self.assertIn("groups[0]", said(lambda v: v["groups"][0].update(extra=1)))
        self.assertIn("degree", said(lambda v: v["groups"][0].update(degree=3)))
        self.assertIn("ascend", said(lambda v: v["groups"].reverse()))
        self.assertIn("token_ns", said(lambda v: v["groups"][0]["cost"].update(token_ns=-1)))
        self.assertIn("fit into no length group", said(lambda v: v.update(groups=v["groups"][:2])) if text(100)[:, 1].max() > 768 else "fit into no length group")
        self.assertIn("no file", self.refused(table, "--length-groups", "nothing.json", "-o", self.path("no")))
        self.assertIn("excludes", self.refused(table, "--length-groups", TEXT, "--tiles", 3, "-o", self.path("no"), code=2))
        self.assertFalse(os.path.exists(self.path("no/batches.json")))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
