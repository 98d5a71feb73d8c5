#!/usr/bin/env python3
"""Shards of a model of dynamic resolution: tiles are units of merge x merge patches.

    pictures_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import io
import json
import os
import random
import struct
import sys
import tarfile
import unittest
import zlib

import numpy as np

from batch_tool import DATA, Folder, ToolTest, call, ratio


class PictureTest(ToolTest):
    # Photographs, screens and scanned pages as data sets have them, and how common they are.
    SIZES = {(640, 480): 30, (640, 427): 20, (480, 640): 12, (427, 640): 6, (500, 375): 8, (1024, 683): 4, (1280, 720): 6,
             (1920, 1080): 4, (1240, 1754): 5, (850, 1100): 3, (224, 224): 3, (336, 150): 2, (3000, 600): 1}

    @staticmethod
    def fitted(width, height, unit=28, most=1280 * 28 * 28):
        """Both sides multiples of a unit, at most so many pixels, about the same shape."""
        scale = min(1.0, (most / (width * height)) ** 0.5)
        return tuple(max(unit, int(side * scale) // unit * unit) for side in (width, height))

    @staticmethod
    def header_of_png(width, height):
        """The first bytes of a PNG: nothing else may be read to know its size."""
        ihdr = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + ihdr + struct.pack(">I", zlib.crc32(ihdr))

    def shard(self, samples, name="data.tar"):
        """Writes samples, each a list of picture sizes and a number of further tokens; returns units and tokens of each."""
        lengths = []
        with tarfile.open(self.path(name), "w") as tar:
            def add(member, contents):
                info = tarfile.TarInfo(member)
                info.size = len(contents)
                tar.addfile(info, io.BytesIO(contents))
            for number, (pictures, text) in enumerate(samples):
                units = sum(w // 28 * (h // 28) for w, h in pictures)
                ids = [4] * units + [1] * text
                add(f"s{number:05}.json", json.dumps({"input_ids": ids, "labels": ids, "images": len(pictures)}).encode())
                for k, (w, h) in enumerate(pictures):
                    add(f"s{number:05}.{k}.png", self.header_of_png(w, h))
                lengths.append((units, len(ids)))
        return lengths

    def processor(self, **fields):
        with open(self.path("preprocessor_config.json"), "w") as file:
            json.dump({"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, **fields}, file)
        return self.path("preprocessor_config.json")

    def real_samples(self, count):
        draw = random.Random(1)
        sizes = [self.fitted(*size) for size in self.SIZES]
        return [(draw.choices(sizes, list(self.SIZES.values()), k=draw.choice((0, 1, 1, 1, 2, 4))), draw.randint(20, 900))
                for _ in range(count)]

    @staticmethod
    def squares(samples):
        """Of each sample, the sum over its pictures of their squared numbers of units."""
        return np.array([sum((w // 28 * (h // 28)) ** 2 for w, h in pictures) for pictures, _ in samples])


class PicturesOfTheirOwnSizes(PictureTest):
    def test_real_sizes_balance(self):
        samples = self.real_samples(800)
        lengths = self.shard(samples)
        self.assertGreater(len({v for v, _ in lengths}), 100)
        caps = dict(tiles=6144, tokens=8192)
        call(self.path("data.tar"), "--preprocess", self.processor(), "--tiles", caps["tiles"], "--tokens", caps["tokens"],
             "--ranks", 4, "-o", self.path("out"))
        out = Folder(self.path("out"))
        self.check(out, lengths, **caps)
        self.assertTrue(out.json["picture_sizes"])
        self.assertEqual(out.squares.tolist(), self.squares(samples).tolist())
        self.assertLess(out.json["gap"], 0.1)
        for part in ("vit", "llm"):
            after, before = (out.json[when][f"dist_ratio_{part}"] for when in ("after", "before"))
            self.assertLess(after, before / 3, part)

    def test_a_shared_data_set(self):
        model = os.path.join(DATA, "tiny-qwen2_5_vl")
        expected = []
        with tarfile.open(os.path.join(model, "data-000000.tar")) as tar:
            for member in tar:
                contents = tar.extractfile(member).read()
                if member.name.endswith(".json"):
                    expected.append([0, len(json.loads(contents)["input_ids"])])
                else:  # the model's units are 8 pixels wide
                    width, height = struct.unpack(">II", contents[16:24])
                    expected[-1][0] += width // 8 * (height // 8)
        call(os.path.join(model, "data-000000.tar"), "--preprocess", os.path.join(model, "preprocessor_config.json"),
             "--tiles", 80, "--tokens", 420, "--ranks", 2, "-o", self.path("out"))
        self.check(Folder(self.path("out")), expected, tiles=80, tokens=420)

    def test_what_does_not_fit_is_named(self):
        self.shard([([(56, 56)], 3), ([(28, 28), (56, 50)], 3)])

        def error(*flags):
            return call(self.path("data.tar"), "--tiles", 9, "--tokens", 99, "--json", *flags, code=1).stderr
        message = error("--preprocess", self.processor())
        for part in ("data.tar", "s00001, picture 1", "56 x 50 pixels", "multiples of 28"):
            self.assertIn(part, message)
        self.assertIn("merge_size must be a whole number", error("--preprocess", self.processor(merge_size=0)))
        # A processor of tiles of one size: each picture is a tile, and that is said.
        with open(self.path("plain.json"), "w") as file:
            json.dump({"crop_size": 28}, file)
        result = call(self.path("data.tar"), "--preprocess", self.path("plain.json"), "--tiles", 2, "--tokens", 99,
                      "-o", self.path("out"))
        self.assertIn("no merge_size", result.stderr)
        self.assertEqual(Folder(self.path("out")).lengths[:, 0].tolist(), [1, 2])


class CostOfPictures(PictureTest):
    """Attention within pictures: squared units of a picture, besides units, tokens and squared tokens."""

    def cost(self, **figures):
        path = self.path("-".join(["cost", *figures]) + ".json")
        with open(path, "w") as file:
            json.dump(figures, file)
        return "--cost", path

    def with_squares(self, lengths, squares, name="squares.csv"):
        with open(self.path(name), "w") as file:
            file.write("vit_num,vit_square_sum,token_num\n" + "".join(f"{v},{s},{t}\n" for (v, t), s in zip(lengths, squares)))
        return self.path(name)

    def test_equal_units_of_other_pictures(self):
        """A screen of 45 x 25 units costs more than three photographs of 15 x 25 units each."""
        one, three = ([(1260, 700)], 75), ([(420, 700)] * 3, 75)
        lengths = self.shard([one, three, three, one])
        self.assertEqual(lengths, [(1125, 1200)] * 4)
        flags = ("--tiles", 2000, "--tokens", 2000, "--ranks", 2)
        squares = [1125 ** 2, 3 * 375 ** 2, 3 * 375 ** 2, 1125 ** 2]
        figures = dict(tile_ns=3e4, token_ns=1e5, square_ns=2, tile_square_ns=25)
        rest = 3e4 * 1125 + 1e5 * 1200 + 2 * 1200 ** 2
        apart = 1 - (rest + 25 * (squares[0] + squares[1]) / 2) / (rest + 25 * squares[0])
        found = set()
        for seed in range(12):
            call(self.path("data.tar"), "--preprocess", self.processor(), *flags, "--seed", seed, "-o", self.path("out"),
                 *self.cost(**figures))
            out = Folder(self.path("out"))
            self.check(out, lengths, tiles=2000, tokens=2000)
            self.assertEqual(out.squares.tolist(), squares)
            self.assertEqual(out.json["cost"], figures)
            rows = out.samples.reshape(2, 2)
            self.assertEqual(sorted(sorted(row) for row in rows.tolist()), [[0, 3], [1, 2]])
            self.assertEqual(out.json["after"]["dist_ratio_cost"], 0)
            # Without the term any two of them look alike.
            call(self.path("data.tar"), "--preprocess", self.processor(), *flags, "--seed", seed, "-o", self.path("counts"),
                 *self.cost(**dict(figures, tile_square_ns=0)))
            pairs = Folder(self.path("counts")).samples.reshape(2, 2)
            costs = rest + 25 * np.array(squares)
            found.add(round(ratio(costs[pairs]), 12))
        self.assertEqual(found, {0, round(apart, 12)})
        self.assertAlmostEqual(apart, 0.0560, places=4)  # of 1.90e8 ns

    def test_real_sizes(self):
        """Of pictures as they are, ranks wait less where the cost is that of pictures."""
        samples = self.real_samples(3000)
        lengths, squares = np.array(self.shard(samples)), self.squares(samples)
        figures = dict(tile_ns=37500, token_ns=105000, square_ns=1.75, tile_square_ns=25)
        costs = 37500 * lengths[:, 0] + 105000 * lengths[:, 1] + 1.75 * lengths[:, 1] ** 2.0 + 25.0 * squares
        waits = {}
        for name, given in (("pictures", figures), ("units", {k: v for k, v in figures.items() if k != "tile_square_ns"})):
            call(self.path("data.tar"), "--preprocess", self.processor(), "--tiles", 6144, "--tokens", 8192, "--ranks", 8,
                 "-o", self.path(name), *self.cost(**given))
            out = Folder(self.path(name))
            self.check(out, lengths, tiles=6144, tokens=8192)
            waits[name] = ratio(out.sums(costs).reshape(-1, 8))
        self.assertAlmostEqual(Folder(self.path("pictures")).json["after"]["dist_ratio_cost"], waits["pictures"], places=9)
        self.assertLess(waits["pictures"], 0.01)
        self.assertLess(waits["pictures"], waits["units"] / 2)

    def test_a_table_says_it_too(self):
        samples = self.real_samples(500)
        lengths, squares = self.shard(samples), self.squares(samples)
        flags = ("--tiles", 6144, "--tokens", 8192, "--ranks", 4, *self.cost(token_ns=1e5, tile_square_ns=20))
        for name, source in (("shards", (self.path("data.tar"), "--preprocess", self.processor())),
                             ("table", (self.with_squares(lengths, squares),))):
            result = call(*source, *flags, "-o", self.path(name), "--report", self.path("page.html"))
            self.assertEqual(result.stderr, "")
        for file in ("samples.npy", "groups.npy", "lengths.npy", "squares.npy"):
            with open(self.path(f"shards/{file}"), "rb") as one, open(self.path(f"table/{file}"), "rb") as two:
                self.assertEqual(one.read(), two.read(), file)
        # The page's heaviest group is the one counted here.
        out = Folder(self.path("table"))
        heaviest = out.sums(1e5 * np.array(lengths)[:, 1] + 20.0 * squares).max() / 1e6
        self.assertGreater(heaviest, out.sums(1e5 * np.array(lengths)[:, 1]).max() / 1e6 + 1)

    def test_a_table_that_does_not_say(self):
        """All the units of a sample are taken for one picture, and that is said; only where the cost needs it."""
        samples = self.real_samples(400)
        lengths = self.shard(samples)
        flags = ("--tiles", 6144, "--tokens", 8192, "--ranks", 4)
        pictures = self.cost(token_ns=1e5, tile_square_ns=20)
        result = call(self.table(lengths), *flags, *pictures, "-o", self.path("out"))
        self.assertIn("lengths.csv: without a column vit_square_sum, the sizes of pictures are not known", result.stderr)
        out = Folder(self.path("out"))
        self.assertIsNone(out.squares)
        self.assertNotIn("picture_sizes", out.json)
        units = np.array(lengths)
        costs = 1e5 * units[:, 1] + 20.0 * units[:, 0] ** 2
        self.assertAlmostEqual(out.json["after"]["dist_ratio_cost"], ratio(out.sums(costs).reshape(-1, 4)), places=9)
        call(self.with_squares(lengths, [v * v for v, _ in lengths]), *flags, *pictures, "-o", self.path("said"))
        self.assertEqual(out.samples.tolist(), Folder(self.path("said")).samples.tolist())
        # A cost without the term, and text alone.
        self.assertEqual(call(self.table(lengths), *flags, *self.cost(token_ns=1e5), "-o", self.path("out")).stderr, "")
        self.assertEqual(call(self.table([(0, 9)] * 20), *flags, *pictures, "-o", self.path("out")).stderr, "")
        without = call(self.path("data.tar"), "--tiles", 9, "--tokens", 8192, *pictures, "--json").stderr
        self.assertIn("data.tar: without --preprocess", without)
        # What an earlier run knew does not stay.
        call(self.with_squares(lengths, self.squares(samples)), *flags, "-o", self.path("out"))
        self.assertIsNotNone(Folder(self.path("out")).squares)
        call(self.table(lengths), *flags, "-o", self.path("out"))
        self.assertFalse(os.path.exists(self.path("out/squares.npy")))

    def test_squares_that_no_pictures_have(self):
        table = self.with_squares([(8, 9), (8, 9)], [34, 66])
        result = call(table, "--tiles", 9, "--tokens", 99, "--json", code=1)
        self.assertIn("squares.csv, line 3: vit_square_sum is 66, but the pictures of 8 units", result.stderr)

    def test_mixtures_and_streams(self):
        samples = self.real_samples(600)
        lengths, squares = self.shard(samples), self.squares(samples)
        tables = self.with_squares(lengths[:300], squares[:300]), self.table(lengths[300:])
        flags = ("--mix", tables[0] + "=1", tables[1] + "=1", "--tiles", 6144, "--tokens", 8192, "--ranks", 2,
                 *self.cost(token_ns=1e5, tile_square_ns=20))
        result = call(*flags, "-o", self.path("out"))
        self.assertEqual(result.stderr.count("not known"), 1)
        self.assertIn("lengths.csv: ", result.stderr)
        out = Folder(self.path("out"))
        self.assertEqual(out.squares.tolist(), squares[:300].tolist() + [-1] * 300)
        units = np.array(lengths)
        taken = np.where(np.arange(600) < 300, squares, units[:, 0] ** 2)
        costs = 1e5 * units[:, 1] + 20.0 * taken
        self.assertAlmostEqual(out.json["after"]["dist_ratio_cost"], ratio(out.sums(costs).reshape(-1, 2)), places=9)
        stream = call(*flags, "--window", 200)
        self.assertEqual(stream.stderr.count("not known"), 1)
        rows = [json.loads(line)["groups"] for line in stream.stdout.splitlines()]
        numbers = sorted(300 * source + number for row in rows for group in row for source, number in group)
        self.assertEqual(numbers, list(range(600)))
        sums = np.array([[sum(costs[300 * source + number] for source, number in group) for group in row] for row in rows])
        self.assertLess(ratio(sums), 0.1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
