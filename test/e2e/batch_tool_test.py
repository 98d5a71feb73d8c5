#!/usr/bin/env python3
"""omnibal-batch as users call it; what it writes is loaded and counted again with NumPy.

    batch_tool_test.py BIN_FOLDER DATA_FOLDER CLASS [unittest options]
"""
import csv
import html.parser
import io
import json
import os
import pty
import random
import resource
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zlib

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


class Interface(ToolTest):
    def test_help_and_version(self):
        text = call("--help").stdout
        self.assertIn("omnibal-batch lengths.csv --tiles 9 --tokens 4096 --ranks 8", text)
        for flag in ("--method", "--oversize", "--report", "--cost", "--config", "--json", "--epoch"):
            self.assertIn(flag, text)
        self.assertRegex(call("--version").stdout, r"^omnibal-batch \d+\.\d+\.\d+\n$")

    def test_wrong_usage(self):
        table = self.table([(1, 2)])
        for flags, part in ((["--tokens", 9, "-o", "x"], "--tiles"), (["--tiles", 9, "--tokens", 9], "-o FOLDER is required"),
                            (["--tiles", 0, "--tokens", 9, "-o", "x"], "not a whole number from 1"),
                            (["--tiles", "9x", "--tokens", 9, "-o", "x"], "--tiles"),
                            (["--tiles", 9, "--tokens", 9, "--ranks", 0, "-o", "x"], "--ranks"),
                            (["--tiles", 9, "--tokens", 9, "--seed", -1, "-o", "x"], "--seed"),
                            (["--tiles", 9, "--tokens", 9, "--method", "best", "-o", "x"], "--method"),
                            (["--tiles", 9, "--tokens", 9, "--no-such-flag", "-o", "x"], "--no-such-flag")):
            result = call(table, *flags, code=2, cwd=self.work)
            self.assertIn(part, result.stderr)
            self.assertFalse(os.path.exists(self.path("x")))
        self.assertIn("lengths", call(code=2).stderr)

    def test_configuration_file(self):
        table = self.table(some_lengths(100, 1))
        with open(self.path("good.toml"), "w") as file:
            file.write(f'tiles = 9\ntokens = 4096\nranks = 4\nmethod = "isf"\noutput = "{self.path("out")}"\n')
        call(table, "--config", self.path("good.toml"), "--ranks", 2)
        facts = Folder(self.path("out")).json
        self.assertEqual((facts["ranks"], facts["method"]), (2, "isf"))
        with open(self.path("bad.toml"), "w") as file:
            file.write("tiles = 9\ntokens = 4096\nrank = 4\n")
        self.assertIn("rank", call(table, "--config", self.path("bad.toml"), "-o", self.path("x"), code=2).stderr)

    def test_json_is_the_file(self):
        result = call(self.table(some_lengths(100, 1)), "--tiles", 9, "--tokens", 4096, "--json", "-o", self.path("out"))
        with open(self.path("out/batches.json")) as file:
            self.assertEqual(result.stdout, file.read())
        facts = json.loads(result.stdout)
        self.assertLessEqual({"method", "tiles_cap", "tokens_cap", "ranks", "seed", "samples", "groups", "groups_lower_bound",
                              "steps", "oversize", "seconds", "peak_rss_bytes", "before", "after"}, set(facts))
        self.assertEqual((facts["method"], facts["ranks"], facts["seed"], facts["oversize"]), ("plan", 1, 1, []))

    def test_table_for_people(self):
        text = call(self.table(some_lengths(5000, 1)), "--tiles", 9, "--tokens", 4096, "--ranks", 8, "-o", self.path("out")).stdout
        facts = Folder(self.path("out")).json
        for part in ("5,000 samples", f"{facts['groups']:,}", f"{facts['groups_lower_bound']:,}",
                     f"{facts['after']['dist_ratio_llm']:.5f}", f"{facts['before']['dist_ratio_vit']:.5f}"):
            self.assertIn(part, text)

    def test_files_that_cannot_be_written(self):
        table = self.table(some_lengths(1000, 1))
        flags = (table, "--tiles", 9, "--tokens", 4096)
        with open(self.path("file"), "w"):
            pass
        self.assertIn("file", call(*flags, "-o", self.path("file"), code=1).stderr)
        self.assertIn("--report", call(*flags, "--report", self.path("no/such/page.html"), code=1).stderr)
        self.assertIn("--report", call(*flags, "--report", self.work, code=1).stderr)
        self.assertIn("none.json", call(*flags, "--json", "--cost", self.path("none.json"), code=1).stderr)
        self.assertIn("none.csv", call(self.path("none.csv"), "--tiles", 9, "--tokens", 9, "--json", code=1).stderr)

    def test_a_full_disk_leaves_nothing_half_done(self):
        table = self.table(some_lengths(5000, 1))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
        result = call(table, "--tiles", 9, "--tokens", 4096, "-o", self.path("out"), code=1, preexec_fn=limit)
        self.assertRegex(result.stderr, r"error: .*\.npy: .*(space|large)")
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_killed_while_it_replaces_a_folder(self):
        """With batches.json there, all files are of one run."""
        generator = random.Random(1)
        lengths = some_lengths(20_000, 1)
        table = self.table(lengths)
        for number in range(25):
            ranks = 1 + number % 7
            process = subprocess.Popen([os.path.join(BIN, "omnibal-batch"), table, "--tiles", "9", "--tokens", "4096", "--method",
                                        "random", "--ranks", str(ranks), "-o", self.path("out")], stdout=subprocess.DEVNULL)
            try:
                process.wait(generator.uniform(0.01, 0.15))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if os.path.exists(self.path("out/batches.json")):
                self.check(Folder(self.path("out")), lengths)
        self.batch(lengths, "--ranks", 3)
        self.check(Folder(self.path("out")), lengths)

    def test_progress_on_a_terminal(self):
        os.mkfifo(self.path("pipe.csv"))

        def feed():
            with open(self.path("pipe.csv"), "w") as file:
                file.write("vit_num,token_num\n1,2\n")
                file.flush()
                time.sleep(1.8)
                file.write("3,4\n")
        feeder = threading.Thread(target=feed)
        feeder.start()
        master, terminal = pty.openpty()
        command = [os.path.join(BIN, "omnibal-batch"), self.path("pipe.csv"), "--tiles", "9", "--tokens", "9", "--json"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, timeout=60)
        os.close(terminal)
        feeder.join()
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"pipe.csv: 1 s", os.read(master, 10000))
        os.close(master)
        self.assertEqual(json.loads(result.stdout)["samples"], 2)

    def test_shards(self):
        """Numbers are those of the shards' samples, in their order."""
        shard = os.path.join(DATA, "tiny-internvl", "data-000000.tar")
        expected = []
        with tarfile.open(shard) as tar:
            for member in tar:
                if member.name.endswith(".json"):
                    sample = json.load(tar.extractfile(member))
                    expected.append((sample["images"], len(sample["input_ids"])))
        os.mkdir(self.path("shards"))
        shutil.copy(shard, self.path("shards"))
        for number, source in enumerate((shard, self.path("shards"))):
            call(source, "--tiles", 24, "--tokens", 420, "--ranks", 2, "-o", self.path(f"out{number}"))
            out = Folder(self.path(f"out{number}"))
            self.check(out, expected, tiles=24, tokens=420)
        self.assertIn("no .tar shard", call(self.work, "--tiles", 9, "--tokens", 9, "--json", code=1).stderr)


class PicturesOfTheirOwnSizes(ToolTest):
    """Shards of a model of dynamic resolution: tiles are units of merge x merge patches."""

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

    def test_real_sizes_balance(self):
        draw = random.Random(1)
        sizes = [self.fitted(*size) for size in self.SIZES]
        samples = [(draw.choices(sizes, list(self.SIZES.values()), k=draw.choice((0, 1, 1, 1, 2, 4))), draw.randint(20, 900))
                   for _ in range(800)]
        lengths = self.shard(samples)
        self.assertGreater(len({v for v, _ in lengths}), 100)
        caps = dict(tiles=6144, tokens=8192)
        call(self.path("data.tar"), "--preprocess", self.processor(), "--tiles", caps["tiles"], "--tokens", caps["tokens"],
             "--ranks", 4, "-o", self.path("out"))
        out = Folder(self.path("out"))
        self.check(out, lengths, **caps)
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


class Choices(ToolTest):
    """Caps by prediction, mixtures and streams."""

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


class Page(html.parser.HTMLParser):
    """Whether every element is closed in order, what would be fetched, the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.problems, self.counts = [], [], [], {}

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag in ("script", "link", "img", "iframe") or any(k in ("src", "href") for k, _ in attributes):
            self.problems.append(f"{tag} {attributes}")
        for key, value in attributes:
            if key in ("x", "y", "width", "height", "x1", "x2", "y1", "y2") and not -1 <= float(value) <= 1200:
                if key != "width" or value != "device-width":
                    self.problems.append(f"{tag} {key}={value}")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.text.append(data)


class Report(ToolTest):
    def page(self, lengths, *flags):
        call(self.table(lengths), "--tiles", 9, "--tokens", 4096, "-o", self.path("out"), "--report", self.path("page.html"),
             *flags)
        with open(self.path("page.html"), encoding="utf-8") as file:
            text = file.read()
        page = Page()
        page.feed(text)
        self.assertEqual(page.problems, [])
        for word in ("http", "url(", "@import"):
            self.assertNotIn(word, text)
        self.assertIn("prefers-color-scheme:dark", text)
        return page, "".join(page.text)

    def test_numbers_and_pictures(self):
        page, text = self.page(some_lengths(5000, 1), "--ranks", 8)
        facts = Folder(self.path("out")).json
        self.assertEqual(page.counts["svg"], 5)
        for part in (f"{facts['groups']:,}", f"{facts['groups_lower_bound']:,}", facts["bound_method"],
                     f"{facts['after']['dist_ratio_llm']:.5f}", f"{facts['before']['pad_ratio']:.5f}"):
            self.assertIn(part, text)
        self.assertNotIn("Cost", text)

    def test_cost_has_a_section(self):
        with open(self.path("cost.json"), "w") as file:
            json.dump(dict(token_ns=2e4), file)
        page, text = self.page(some_lengths(2000, 1), "--ranks", 4, "--cost", self.path("cost.json"))
        self.assertEqual(page.counts["svg"], 7)
        self.assertIn("Cost", text)

    def test_little_and_odd_data(self):
        self.page([(0, 0)])
        self.page([(0, 5)], "--ranks", 4)
        self.page([(30, 90000), (1, 1)], "--oversize", "own-group")

    def test_shares_add_up(self):
        """The bars of each picture stand for all groups."""
        self.page(some_lengths(3000, 2), "--ranks", 4)
        with open(self.path("page.html"), encoding="utf-8") as file:
            pictures = file.read().split("<svg ")[2::2]
        self.assertEqual(len(pictures), 2)
        for picture in pictures:
            for series in ("s0", "s1"):
                shares = [float(part.split(": ")[1].split(" %")[0]) for part in picture.split(f'class="{series}"')[1:]]
                self.assertAlmostEqual(sum(shares), 100, delta=0.6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
