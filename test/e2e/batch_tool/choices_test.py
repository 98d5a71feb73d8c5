#!/usr/bin/env python3
"""Caps by prediction, mixtures and streams.

    choices_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import json
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

from batch_tool import BIN, Folder, ToolTest, call, ratio, some_lengths


class Choices(ToolTest):
    def test_auto_keeps_to_the_memory_and_the_target(self):
        lengths = some_lengths(5000, 1)
        costs = dict(tile_ns=4e6, token_ns=3e4, square_ns=1, microbatch_ns=5e6, fixed_bytes=1e9, tile_bytes=5e8, token_bytes=2e6)
        with open(self.path("cost.json"), "w") as file:
            json.dump(costs, file)
        chosen = []
        for limit in (8e9, 2e10):
            result = call(self.table(lengths), "--auto", "--memory-limit-bytes", limit, "--samples-per-step", 200, "--ranks", 4,
                          "--cost", self.path("cost.json"), "-o", self.path("out"))
            out = Folder(self.path("out"))
            tiles, tokens = out.json["tiles_cap"], out.json["tokens_cap"]
            self.check(out, lengths, tiles, tokens)
            self.assertLessEqual(1e9 + 5e8 * tiles + 2e6 * tokens, limit)
            per_step = 5000 / out.json["steps"] * out.json["auto"]["microbatches"]
            self.assertAlmostEqual(per_step / 200, 1, delta=0.2)
            self.assertIn(f"{tiles} tiles and {tokens} tokens", result.stdout)
            self.assertIn("smaller:", result.stdout)
            chosen.append(tokens)
        self.assertLess(chosen[0], chosen[1])
        result = call(self.table(lengths), "--auto", "--memory-limit-bytes", 1e9, "--samples-per-step", 200, "--cost",
                      self.path("cost.json"), "--json", code=1)
        self.assertIn("alone needs", result.stderr)

    def test_auto_without_figures_says_so(self):
        flags = (self.table(some_lengths(2000, 1)), "--auto", "--tokens-per-step", 20000, "--ranks", 2)
        result = call(*flags, "--json")
        self.assertIn("reference model", result.stderr)
        json.loads(result.stdout)
        with open(self.path("cost.json"), "w") as file:
            file.write('{"tile_ns": 1}')
        self.assertIn("tile_bytes", call(*flags, "--json", "--memory-limit-bytes", 1e9, "--cost", self.path("cost.json"),
                                         code=1).stderr)

    def test_what_excludes_what(self):
        table = self.table([(1, 2)])
        for flags in (["--auto", "--json"], ["--auto", "--tiles", 9, "--tokens", 9, "--samples-per-step", 8, "--json"],
                      ["--auto", "--samples-per-step", 8, "--tokens-per-step", 8, "--json"],
                      ["--tiles", 9, "--tokens", 9, "--samples-per-step", 8, "--json"],
                      ["--tiles", 9, "--tokens", 9, "--window", 8, "-o", "x"],
                      ["--tiles", 9, "--tokens", 9, "--mix", "a.csv=1", "--json"]):
            call(table, *flags, code=2, cwd=self.work)
        for bad in ("a.csv", "a.csv=", "a.csv=-1", "=1", "a.csv=x"):
            result = call("--tiles", 9, "--tokens", 9, "--json", "--mix", bad, code=1)
            self.assertIn("FILE=WEIGHT", result.stderr)

    def test_weights_that_change(self):
        tables = self.table(some_lengths(300, 1), "a.csv"), self.table(some_lengths(100, 2), "b.csv")
        flags = ("--mix", f"{tables[0]}=1", f"{tables[1]}=3", "--tiles", 9, "--tokens", 4096, "--ranks", 2, "--epoch-samples", 200)
        for epoch, small in ((0, 50), (1, 50), (2, 200), (3, 100)):
            call(*flags, "--mix-at", "2=1,0", "3=1,1", "--epoch", epoch, "-o", self.path("out"))
            out = Folder(self.path("out"))
            self.assertEqual(out.json["mix"], dict(sizes=[300, 100], weights=[1, 3], samples=200, later=[
                dict(epoch=2, weights=[1, 0]), dict(epoch=3, weights=[1, 1])]))
            self.assertEqual(len(out.samples), 200)
            self.assertEqual((out.samples < 300).sum(), small)
        for bad, says in ((("--mix-at", "0=1,1"), "is not EPOCH=WEIGHT"), (("--mix-at", "2=1,"), "is not EPOCH=WEIGHT"), (("--mix-at", "2=1,x"), "is not EPOCH=WEIGHT"),
                          (("--mix-at", "2=1"), "1 weights for 2 data sets"), (("--mix-at", "3=1,1", "2=1,1"), "later ones must begin later"),
                          (("--mix-at", "2=0,0"), "weights from epoch 2 on: all weights of the data sets are 0")):
            self.assertIn(says, call(*flags, *bad, "--json", code=1).stderr)
        self.assertIn("--mix-at and --epoch-samples need --mix", call(tables[0], "--tiles", 9, "--tokens", 4096, "--mix-at", "1=1", "--json", code=2).stderr)

    def test_mixture(self):
        first, second = some_lengths(3000, 1), some_lengths(1000, 2)
        tables = self.table(first, "a.csv"), self.table(second, "b.csv")
        used = np.zeros(4000, np.int64)
        for epoch in range(3):
            call("--mix", f"{tables[0]}=1", f"{tables[1]}=3", "--tiles", 9, "--tokens", 4096, "--ranks", 4, "--epoch", epoch,
                 "-o", self.path("out"))
            out = Folder(self.path("out"))
            self.assertTrue(np.array_equal(out.lengths, np.concatenate([first, second])))
            self.assertEqual(len(out.samples), 4000)
            self.assertEqual((out.samples < 3000).sum(), 1000)
            used += np.bincount(out.samples, minlength=4000)
            v, t = out.sums(out.lengths[:, 0]), out.sums(out.lengths[:, 1])
            self.assertTrue((v <= 9).all() and (t <= 4096).all())
            self.assertAlmostEqual(out.json["after"]["dist_ratio_llm"], ratio(t.reshape(-1, 4)), places=9)
            self.assertEqual(out.json["mix"], dict(sizes=[3000, 1000], weights=[1, 3], samples=4000))
        # In three epochs the first is gone through once, the second nine times.
        self.assertTrue((used[:3000] == 1).all() and (used[3000:] == 9).all())

    def test_stream(self):
        lengths = some_lengths(2500, 1)
        with open(self.table(lengths)) as file:
            result = call("-", "--window", 1000, "--tiles", 9, "--tokens", 4096, "--ranks", 4, stdin=file)
        rows = [json.loads(line)["groups"] for line in result.stdout.splitlines()]
        self.assertTrue(all(len(row) == 4 for row in rows))
        order = np.array([sample for row in rows for group in row for sample in group])
        self.assertEqual(sorted(order), list(range(2500)))
        self.assertTrue((np.diff(order // 1000) >= 0).all())  # window after window
        sums = np.array([[lengths[group].sum(axis=0) for group in row] for row in rows])
        self.assertTrue((sums <= [9, 4096]).all())
        self.assertIn("2,500 samples in 3 windows", result.stderr)
        self.assertIn(f"{len(rows):,} steps", result.stderr)
        self.assertIn(f"tokens {ratio(sums[:, :, 1]):.5f}", result.stderr)

    def test_stream_without_end(self):
        """Steps come while the input goes on, and of two inputs in their shares."""
        os.mkfifo(self.path("endless.csv"))
        table = self.table([(1, 100)] * 2000)
        process = subprocess.Popen([os.path.join(BIN, "omnibal-batch"), "--mix", self.path("endless.csv") + "=3", table + "=1",
                                    "--window", "400", "--tiles", "9", "--tokens", "4096", "--ranks", "2"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def feed():
            try:
                with open(self.path("endless.csv"), "w") as file:
                    file.write("vit_num,token_num\n")
                    while True:
                        file.write("2,200\n" * 100)
                        file.flush()
                        time.sleep(0.001)
            except BrokenPipeError:
                pass
        feeder = threading.Thread(target=feed)
        feeder.start()
        counts = [0, 0]
        while sum(counts) < 800:
            for group in json.loads(process.stdout.readline())["groups"]:
                for source, number in group:
                    counts[source] += 1
        self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        process.stdout.close()
        feeder.join()
        self.assertEqual(counts, [600, 200])

    def test_stream_errors(self):
        with open(self.path("bad.csv"), "w") as file:
            file.write("vit_num,token_num\n" + "1,2\n" * 10 + "1,-2\n")
        flags = ("--window", 4, "--tiles", 9, "--tokens", 9, "--ranks", 2)
        result = call(self.path("bad.csv"), *flags, code=1)
        self.assertIn("bad.csv, line 12", result.stderr)
        result = call(self.table([(1, 2), (30, 1)]), *flags, code=1)
        self.assertIn("sample 1 (30 tiles, 1 tokens) is over the caps", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
