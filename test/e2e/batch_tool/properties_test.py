#!/usr/bin/env python3
"""What is promised of all batches, whatever is asked for.

    properties_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import json
import os
import sys
import unittest

import numpy as np

from batch_tool import DATA, MEASURED, METHODS, Folder, ToolTest, call, ratio, some_lengths


class Properties(ToolTest):
    def test_all_methods_seeds_and_sizes(self):
        """Every sample exactly once within the caps, whatever is asked for."""
        for method in METHODS:
            for seed, (count, ranks) in enumerate([(1, 1), (2, 1), (7, 3), (64, 8), (500, 4), (500, 7), (3000, 16)]):
                lengths = some_lengths(count, seed)
                with self.subTest(method=method, count=count, ranks=ranks):
                    out = self.batch(lengths, "--ranks", ranks, "--seed", seed, "--method", method)
                    self.assertEqual((out.json["method"], out.json["ranks"], out.json["seed"]), (method, ranks, seed))
                    self.check(out, lengths)

    def test_same_seed_same_bytes(self):
        lengths = some_lengths(2000, 1)
        for method in METHODS:
            flags = ("--ranks", 4, "--method", method, "--seed")
            for name, extra in (("one", (5,)), ("two", (5,)), ("seed", (6,)), ("epoch", (5, "--epoch", 1))):
                self.batch(lengths, *flags, *extra, name=name)
            for file in ("samples.npy", "groups.npy", "lengths.npy"):
                with open(self.path(f"one/{file}"), "rb") as one, open(self.path(f"two/{file}"), "rb") as two:
                    self.assertEqual(one.read(), two.read(), file)
            first, second = (Folder(self.path(name)).json for name in ("one", "two"))
            for key in MEASURED:
                self.assertNotEqual(first.pop(key), None)
                second.pop(key)
            self.assertEqual(json.dumps(first), json.dumps(second))
            for name in ("seed", "epoch"):
                self.assertFalse(np.array_equal(Folder(self.path("one")).samples, Folder(self.path(name)).samples), name)

    def test_comparison_is_what_random_micro_batches_give(self):
        """`before` against micro-batches drawn here, padded to their longest sample."""
        lengths, ranks = some_lengths(20_000, 3), 8
        out = self.batch(lengths, "--ranks", ranks)
        groups = out.json["groups"]
        generator = np.random.default_rng(0)
        drawn = []
        for _ in range(5):
            parts = np.array_split(generator.permutation(len(lengths)), groups)
            longest = np.array([lengths[p, 1].max() for p in parts])
            padded = longest * np.array([len(p) for p in parts])
            tiles = np.array([lengths[p, 0].sum() for p in parts])
            drawn.append((1 - lengths[:, 1].sum() / padded.sum(), ratio(tiles.reshape(-1, ranks)),
                          ratio(np.array([lengths[p, 1].sum() for p in parts]).reshape(-1, ranks))))
        for key, expected in zip(("pad_ratio", "dist_ratio_vit", "dist_ratio_llm"), np.mean(drawn, axis=0)):
            self.assertAlmostEqual(out.json["before"][key] / expected, 1, delta=0.05, msg=key)

    def test_step_variance(self):
        lengths, ranks = some_lengths(5000, 4), 2
        for method in ("plan", "random"):
            out = self.batch(lengths, "--ranks", ranks, "--method", method)
            rows = len(out.groups[:-1]) // ranks // 8 * 8
            ends = out.groups[::8 * ranks][:rows // 8 + 1]
            means = [lengths[out.samples[a:b], 1].mean() for a, b in zip(ends[:-1], ends[1:])]
            expected = np.var(means, ddof=1) / (lengths[:, 1].var() * np.mean(1 / np.diff(ends)))
            self.assertAlmostEqual(out.json["after"]["step_variance"] / expected, 1, places=6)

    def test_cost(self):
        lengths, ranks = some_lengths(3000, 5), 4
        with open(self.path("cost.json"), "w") as file:
            json.dump(dict(tile_ns=3e6, token_ns=2e4, square_ns=7.5), file)
        out = self.batch(lengths, "--ranks", ranks, "--cost", self.path("cost.json"))
        self.check(out, lengths)
        cost = 3e6 * lengths[:, 0] + 2e4 * lengths[:, 1] + 7.5 * lengths[:, 1] ** 2.0
        after = ratio(out.sums(cost).reshape(-1, ranks))
        self.assertAlmostEqual(out.json["after"]["dist_ratio_cost"], after, places=9)
        self.assertLess(after, out.json["before"]["dist_ratio_cost"])
        self.assertEqual(out.json["cost"], dict(tile_ns=3e6, token_ns=2e4, square_ns=7.5))
        plain = self.batch(lengths, "--ranks", ranks)
        self.assertNotIn("dist_ratio_cost", plain.json["after"])


    def test_real_lengths(self):
        """Few groups, as even as can be: against the bound, and against the published method."""
        distinct = np.loadtxt(os.path.join(DATA, "lengths", "pooled.csv"), delimiter=",", skiprows=1, dtype=np.int64)
        lengths = np.random.default_rng(1).permutation(np.repeat(distinct[:, :2], distinct[:, 2], axis=0))
        table = self.table(lengths)
        for tiles, tokens in ((9, 4096), (18, 6016), (12, 4096)):
            results = {}
            for method in METHODS:
                call(table, "--tiles", tiles, "--tokens", tokens, "--ranks", 8, "--method", method, "-o", self.path("out"))
                results[method] = Folder(self.path("out"))
                self.check(results[method], lengths, tiles, tokens)
            plan = results.pop("plan").json
            self.assertLessEqual(plan["groups"], (1.003 if tiles == 12 else 1.001) * plan["groups_lower_bound"] + 8)
            self.assertLessEqual(plan["after"]["dist_ratio_vit"], 0.001)
            self.assertLessEqual(plan["after"]["dist_ratio_llm"], 0.0055)
            self.assertLessEqual(plan["after"]["step_variance"], 1.2)
            for method, other in results.items():
                self.assertLessEqual(plan["groups"], other.json["groups"], method)
                self.assertLessEqual(other.json["groups_lower_bound"], plan["groups"], method)
                if method != "sorted":
                    self.assertLess(plan["after"]["dist_ratio_llm"], other.json["after"]["dist_ratio_llm"], method)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
