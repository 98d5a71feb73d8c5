#!/usr/bin/env python3
"""Weights of data sets that change at steps (omnibal-run --mix-at): mix_at_test.py BIN_FOLDER DATA_FOLDER [unittest options].

Samples of the first data set have 10 tokens and those of the second 30, so the log's samples and tokens tell how many of
each a step has.
"""
import io
import json
import os
import subprocess
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "python"))
from run_case import BIN, MPIRUN, RunCase  # noqa: E402

SIZES, TOKENS = (24, 40), (10, 30)


def write_shard(path, prefix, count, tokens, **more):
    with tarfile.open(path, "w") as tar:
        for number in range(count):
            ids = [10 + (7 * number + 3 * token + len(prefix)) % 100 for token in range(tokens)]
            content = json.dumps({"input_ids": ids, "labels": ids, "images": 0, **more}).encode()
            member = tarfile.TarInfo(f"{prefix}{number:04}.json")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


class MixAt(RunCase):
    layouts = {"one": (), "two": ("--stages", "2"), "replicas": ("--data-parallel", "2", "--microbatches", "2"),
               "planned": ("--stages", "2", "--schedule", "per-step"), "pairs": ("--loss", "dpo"), "other": ("--microbatches", "3")}

    def setUp(self):
        super().setUp()
        for name, count, tokens in zip(("a", "bb"), SIZES, TOKENS):
            write_shard(self.path(f"{name}.tar"), name, count, tokens)

    def batches(self, name="batches", *flags, ranks=1, samples=128):
        """Epochs with as many samples of one data set as of the other."""
        mix = [f"{self.path(shard)}=1" for shard in ("a.tar", "bb.tar")]
        subprocess.run([f"{BIN}/omnibal-batch", "--mix", *mix, "--epoch-samples", str(samples), "--tiles", "1", "--tokens", "100",
                        "--ranks", str(ranks), *flags, "-o", self.path(name)], check=True, stdout=subprocess.DEVNULL)
        return self.path(name)

    def command(self, *flags, program="one", batches=None):
        command = super().command(*flags, program=program)
        command[command.index("--data") + 1:command.index("--data") + 2] = [self.path("a.tar"), self.path("bb.tar")]
        at = command.index("--steps-file")
        command[at:at + 2] = ["--batches", batches or self.path("batches")]
        return command

    def train(self, steps, *flags, log="run.jsonl", **options):
        said = self.run_tool("--steps", steps, "--log", self.path(log), *flags, **options)
        return self.steps_of(log), said

    def steps_of(self, log):
        with open(self.path(log)) as file:
            return [json.loads(line) for line in file]

    def counts(self, steps):
        """How many samples of each data set some steps have."""
        samples, tokens = (sum(step[field] for step in steps) for field in ("samples", "tokens"))
        second = (tokens - TOKENS[0] * samples) / (TOKENS[1] - TOKENS[0])
        self.assertEqual(second, int(second))
        return samples - int(second), int(second)

    def epochs(self, steps):
        found = {}
        for step in steps:
            found.setdefault(step["epoch"], []).append(step)
        return found

    @staticmethod
    def learned(steps):
        return [[step[field] for field in ("step", "epoch", "loss", "grad_norm", "samples", "tokens")] for step in steps]

    def test_shares_before_and_after(self):
        self.batches()
        plain, _ = self.train(40, log="plain.jsonl")
        for steps in list(self.epochs(plain).values())[:-1]:
            self.assertEqual(self.counts(steps), (64, 64))
        length = len(self.epochs(plain)[0])
        self.assertGreater(length, 4)
        cut = length + length // 2  # in the middle of epoch 1
        run, said = self.train(40, "--mix-at", f"{cut + 1}=1,3", f"{cut + 1 + 2 * length}=1,0")
        self.assertIn(f"step {cut + 1} begins an epoch in which the data sets have the weights 1,3", said)
        self.assertEqual(self.learned(run[:cut]), self.learned(plain[:cut]))
        epochs = self.epochs(run)
        self.assertEqual([steps[0]["step"] for steps in epochs.values()][:3], [0, length, cut])
        self.assertEqual(self.counts(epochs[2]), (32, 96))
        self.assertEqual(epochs[2][0]["step"], cut)
        last = [epoch for epoch, steps in epochs.items() if steps[0]["step"] == cut + 2 * length]
        self.assertEqual(len(last), 1)
        self.assertEqual(self.counts(epochs[last[0]]), (128, 0))
        # From the first step on.
        run, _ = self.train(length, "--mix-at", "1=0,1", log="first.jsonl")
        self.assertEqual(self.counts(run)[0], 0)
        self.assertEqual(run[0]["epoch"], 0)

    def test_other_microbatches_go_on_at_the_same_row(self):
        """An epoch has each of its samples once, whichever programs train it."""
        self.batches()
        begun, _ = self.train(2, "--checkpoint", self.path("ck"), log="begun.jsonl")
        self.run_tool("--checkpoint", self.path("ck"), "--resume", "auto", program="other", code=1, says="give --steps")
        other, said = self.train(4, "--checkpoint", self.path("ck"), "--resume", "auto", program="other", log="other.jsonl")
        self.assertIn("microbatches 4 -> 3", said)
        more, _ = self.train(60, "--checkpoint", self.path("ck"), "--resume", "auto", log="more.jsonl")
        epochs = self.epochs(begun + other + more)
        self.assertEqual([self.counts(steps) for steps in list(epochs.values())[:2]], [(64, 64), (64, 64)])
        # A change of the mix counts rows.
        changed, _ = self.train(60, "--mix-at", "5=1,3", "--checkpoint", self.path("ck2"), "--resume", self.path("ck/step-00000004"),
                                program="other", log="changed.jsonl")
        self.assertEqual(changed[0]["epoch"], 1)
        self.assertEqual(self.counts(self.epochs(changed)[1]), (32, 96))

    def test_a_run_goes_on_as_if_nothing_happened(self):
        """From checkpoints before, at and behind a change, also where the optimizer's state has another layout."""
        self.batches()
        flags = ("--mix-at", "6=1,3", "14=3,1")
        whole, _ = self.train(24, *flags, "--save", self.path("whole"), "--checkpoint", self.path("ck"), "--checkpoint-every", 1,
                              "--keep", 100)
        for step in (2, 5, 6, 9, 13, 17):
            with self.subTest(step=step):
                resumed, said = self.train(24, *flags, "--save", self.path("resumed"), "--resume",
                                           self.path(f"ck/step-{step:08}"), log=f"resumed-{step}.jsonl")
                self.assertNotIn("changed since", said)
                self.assertEqual(self.learned(resumed), self.learned(whole[step:]))
                self.assertTrue(self.weights("resumed") == self.weights("whole"), step)
        for step in (5, 9):
            resumed, _ = self.train(24, *flags, "--resume", self.path(f"ck/step-{step:08}"), program="two", log=f"two-{step}.jsonl")
            self.assertEqual([(r["epoch"], r["samples"], r["tokens"]) for r in resumed],
                             [(r["epoch"], r["samples"], r["tokens"]) for r in whole[step:]])
            for ours, theirs in zip(resumed, whole[step:]):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], places=4)

    def test_replicas_processes_and_accumulation(self):
        self.batches(ranks=2, samples=96)
        flags = ("--mix-at", "3=3,1", "--accumulate", 2)  # after 16 of at least 20 groups
        whole, _ = self.train(8, *flags, "--checkpoint", self.path("ck"), "--checkpoint-every", 1, "--keep", 100, program="replicas")
        self.assertEqual(whole[2]["epoch"], whole[1]["epoch"] + 1)
        behind = [step for step in whole if step["epoch"] == whole[2]["epoch"]]
        self.assertEqual(self.counts(behind), (72, 24))
        for step in (1, 2, 5):
            resumed, _ = self.train(8, *flags, "--resume", self.path(f"ck/step-{step:08}"), log=f"resumed-{step}.jsonl",
                                    program="replicas", launcher=(*MPIRUN, "2"))
            self.assertEqual(self.learned(resumed), self.learned(whole[step:]))

    def test_planned_steps(self):
        self.batches()
        flags = ("--mix-at", "6=1,3")
        lists, _ = self.train(16, *flags, log="lists.jsonl")
        planned, _ = self.train(16, *flags, program="planned", log="planned.jsonl")
        for ours, theirs in zip(planned, lists):
            for field in ("epoch", "samples", "tokens"):
                self.assertEqual(ours[field], theirs[field])
            self.assertAlmostEqual(ours["loss"], theirs["loss"], places=4)

    def test_pairs_of_answers(self):
        for name, count, tokens in zip(("a", "bb"), SIZES, TOKENS):
            write_shard(self.path(f"{name}.tar"), name, count, tokens, chosen_tokens=tokens // 2)
        self.batches()
        flags = ("--mix-at", "6=1,3", "--reference", self.path("reference.jsonl"))
        whole, _ = self.train(16, *flags, "--checkpoint", self.path("ck"), "--checkpoint-every", 1, "--keep", 100, program="pairs")
        behind = [step for step in whole if step["epoch"] == 1]
        self.assertEqual((behind[0]["step"], self.counts(behind)), (5, (32, 96)))
        for step in (3, 7):
            resumed, _ = self.train(16, *flags, "--resume", self.path(f"ck/step-{step:08}"), log=f"resumed-{step}.jsonl", program="pairs")
            self.assertEqual(self.learned(resumed), self.learned(whole[step:]))

    def test_other_weights_when_a_run_goes_on(self):
        self.batches()
        keep = ("--checkpoint", self.path("ck"), "--checkpoint-every", 1, "--keep", 100)
        before, _ = self.train(7, "--mix-at", "4=1,3", *keep)
        # Without the flag the folder's weights count again, and the data goes on where it was.
        after, said = self.train(20, "--resume", "auto", *keep, log="after.jsonl")
        self.assertIn('mix_at ["4=1,3"] -> null', said)
        self.assertIn("step 8 begins an epoch in which the data sets have the weights that --batches says", said)
        epochs = self.epochs(after)
        self.assertEqual(self.counts(epochs[after[0]["epoch"]]), (64, 64))
        self.assertEqual(after[0]["epoch"], before[-1]["epoch"] + 1)
        # What the checkpoint's run has met stays as it was, whatever the flag says of it now.
        first = (*keep[:1], self.path("other"), *keep[2:])
        self.train(7, "--mix-at", "4=1,3", *first, log="first.jsonl")
        other, said = self.train(20, "--mix-at", "2=1,3", "11=0,1", "--resume", "auto", *first, log="first.jsonl")
        self.assertIn('mix_at ["4=1,3"] -> ["2=1,3","11=0,1"]', said)
        self.assertEqual(self.learned(other[:7]), self.learned(before))
        self.assertNotIn("step 8 begins", said)
        self.assertEqual(self.counts(other[10:])[0], 0)
        # Another folder is read from its beginning, with the weights of the flag.
        self.batches("new", "--seed", "5")
        new, said = self.train(12, "--mix-at", "4=1,0", "--resume", self.path("ck/step-00000007"), batches=self.path("new"),
                               log="new.jsonl")
        self.assertIn("read from their beginning", said)
        self.assertEqual(new[0]["epoch"], 0)
        self.assertEqual(self.counts(new)[1], 0)

    def test_in_a_file_of_options(self):
        self.batches()
        with open(self.path("omnibal.toml"), "w") as file:
            file.write('[run]\nmix-at = ["2=0,1", "4=1,0"]\n')
        run, _ = self.train(5, "--config", self.path("omnibal.toml"))
        self.assertEqual(self.counts(run[1:3])[0], 0)
        self.assertEqual(self.counts(run[3:])[1], 0)

    def test_mistakes(self):
        self.batches()
        with open(self.path("plain.csv"), "w") as file:
            file.write("vit_num,token_num\n" + "".join(f"0,{tokens}\n" * count for count, tokens in zip(SIZES, TOKENS)))
        subprocess.run([f"{BIN}/omnibal-batch", self.path("plain.csv"), "--tiles", "1", "--tokens", "100", "-o", self.path("plain")],
                       check=True, stdout=subprocess.DEVNULL)
        for code, says, flags in (
                (2, "is not STEP=WEIGHT,WEIGHT,...", ("--mix-at", "2")),
                (2, "is not STEP=WEIGHT,WEIGHT,...", ("--mix-at", "0=1,1")),
                (2, "is not STEP=WEIGHT,WEIGHT,...", ("--mix-at", "2=1,-1")),
                (2, "--mix-at: 2=1,1 comes after 3=1,2; give the steps in order", ("--mix-at", "3=1,2", "2=1,1")),
                (1, "--mix-at 2=1: 1 weights for 2 data sets", ("--mix-at", "2=1")),
                (1, "--mix-at 2=0,0: all weights of the data sets are 0", ("--mix-at", "2=0,0")),
                (1, "--mix-at 9=1,1: the run has only 4 steps", ("--mix-at", "9=1,1"))):
            self.run_tool("--steps", 4, *flags, code=code, says=says)
        self.run_tool("--steps", 4, "--mix-at", "2=1,1", batches=self.path("plain"), code=1,
                      says="has no mix of data sets whose epochs can be drawn anew")
        command = RunCase.command(self, "--mix-at", "2=1,1")
        self.assertIn("--mix-at needs --batches", subprocess.run(command, stderr=subprocess.PIPE, text=True).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
