#!/usr/bin/env python3
"""Few, odd and broken samples.

    edges_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import csv
import os
import random
import sys
import unittest

import numpy as np

from batch_tool import METHODS, Folder, ToolTest, call, some_lengths


class Edges(ToolTest):
    def test_more_ranks_than_samples(self):
        for method in METHODS:
            lengths = some_lengths(3, 1)
            out = self.batch(lengths, "--ranks", 8, "--method", method)
            self.check(out, lengths)
            self.assertEqual(out.json["groups"], 8)
            self.assertEqual(sorted(np.diff(out.groups)), [0] * 5 + [1] * 3)

    def test_one_sample_and_one_rank(self):
        for method in METHODS:
            out = self.batch([(4, 100)], "--method", method)
            self.check(out, [(4, 100)])
            self.assertEqual((out.samples.tolist(), out.groups.tolist()), ([0], [0, 1]))

    def test_all_text(self):
        lengths = some_lengths(1000, 2, tiles=(0,))
        for method in METHODS:
            out = self.batch(lengths, "--ranks", 4, "--method", method)
            self.check(out, lengths)
            self.assertEqual(out.json["after"]["dist_ratio_vit"], 0)

    def test_samples_as_large_as_the_caps(self):
        lengths = [(9, 4096)] * 10 + [(9, 1), (0, 4096), (0, 0)]
        for method in METHODS:
            self.check(self.batch(lengths, "--ranks", 2, "--method", method), lengths)

    def test_no_sample(self):
        for text, part in (("", "the file is empty"), ("vit_num,token_num\n", "no line of a sample")):
            with open(self.path("lengths.csv"), "w") as file:
                file.write(text)
            result = call(self.path("lengths.csv"), "--tiles", 9, "--tokens", 4096, "-o", self.path("out"), code=1)
            self.assertIn("lengths.csv", result.stderr)
            self.assertIn(part, result.stderr)
            self.assertFalse(os.path.exists(self.path("out/batches.json")))

    def test_oversized_samples(self):
        lengths = some_lengths(50, 1).tolist()
        for number, value in ((3, [10, 100]), (17, [1, 4097]), (40, [1000, 100000])):
            lengths[number] = value
        table = self.table(lengths)
        result = call(table, "--tiles", 9, "--tokens", 4096, "-o", self.path("none"), code=1)
        for part in ("3 of 50 samples", "3 (10 tiles, 100 tokens)", "17 (1 tiles, 4097 tokens)", "40 (1000 tiles",
                     "--oversize own-group", "--oversize skip"):
            self.assertIn(part, result.stderr)
        self.assertFalse(os.path.exists(self.path("none/batches.json")))
        for method in METHODS:
            own = self.batch(lengths, "--ranks", 4, "--method", method, "--oversize", "own-group")
            self.check(own, np.array(lengths))
            self.assertEqual(own.json["oversize"], [3, 17, 40])
            skip = self.batch(lengths, "--ranks", 4, "--method", method, "--oversize", "skip")
            self.check(skip, np.array(lengths), skipped=(3, 17, 40))

    def test_all_over_the_limit(self):
        lengths = [(20, 100)] * 12
        table = self.table(lengths)
        self.assertIn("12 of 12", call(table, "--tiles", 9, "--tokens", 99, "--json", code=1).stderr)
        self.assertIn("nothing is left", call(table, "--tiles", 9, "--tokens", 99, "--oversize", "skip", "--json", code=1).stderr)
        out = self.batch(lengths, "--ranks", 5, "--oversize", "own-group")
        # Twelve samples that are alone anyway: nothing can be split to fill the third row of five.
        self.check(out, np.array(lengths))
        self.assertEqual(sorted(np.diff(out.groups)), [0] * 3 + [1] * 12)

    def test_tables_as_python_reads_them(self):
        """Quotes, commas, line ends and empty texts in the other columns; NumPy sees what the csv module sees."""
        generator = random.Random(1)
        pieces = ["a", ",", '"', "\n", "\r\n", " ", "\u00e4", "5", ""]
        for number in range(30):
            names = ["token_num", "vit_num"] + ["extra"] * generator.randint(0, 3)
            generator.shuffle(names)
            rows = [[str(generator.randint(0, 9)) if name.endswith("num") else "".join(generator.choices(pieces, k=4))
                     for name in names] for _ in range(generator.randint(1, 40))]
            with open(self.path("table.csv"), "w", newline="", encoding=generator.choice(["utf-8", "utf-8-sig"])) as file:
                csv.writer(file, quoting=generator.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
                           lineterminator=generator.choice(["\n", "\r\n"])).writerows([names] + rows)
            call(self.path("table.csv"), "--tiles", 9, "--tokens", 9, "--method", "random", "-o", self.path("out"))
            with open(self.path("table.csv"), newline="", encoding="utf-8-sig") as file:
                expected = [(int(row["vit_num"]), int(row["token_num"])) for row in csv.DictReader(file)]
            self.assertEqual(Folder(self.path("out")).lengths.tolist(), [list(pair) for pair in expected])

    def test_broken_tables(self):
        good = "vit_num,token_num,flag\n1,2,3\n"
        for text, line, part in (("vit_num\n1\n", 1, "no column token_num"), (good + "1,2\n", 3, "2 fields"),
                                 (good + "-1,2,3\n", 3, "not negative"), (good + "1,99999999999,3\n", 3, "more than"),
                                 (good + "1,x,3\n", 3, "not a whole number"), (good + "1,\"2,3\n", 3, "not closed")):
            with open(self.path("bad.csv"), "w") as file:
                file.write(text)
            result = call(self.path("bad.csv"), "--tiles", 9, "--tokens", 4096, "-o", self.path("out"), code=1)
            self.assertIn(f"bad.csv, line {line}: ", result.stderr)
            self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
