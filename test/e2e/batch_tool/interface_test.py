#!/usr/bin/env python3
"""Flags, files, messages and progress.

    interface_test.py BIN_FOLDER DATA_FOLDER [unittest options]
"""
import json
import os
import pty
import random
import resource
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import unittest

from batch_tool import BIN, DATA, Folder, ToolTest, call, some_lengths


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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
