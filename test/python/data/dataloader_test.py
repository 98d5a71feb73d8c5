#!/usr/bin/env python3
"""The example of a plain PyTorch loop: every sample is trained once, and a resumed run ends as an uninterrupted one.

    dataloader_test.py BIN_FOLDER
"""
import os
import random
import re
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SAMPLES, RANKS = 300, 2
# Runs the example and then looks for threads of the process group. One that outlives destroy_process_group aborts the
# process if it is late in letting go of a tensor, which needs the interpreter: rarely, and on a loaded machine only.
WATCHED = """
import os, runpy, sys
sys.argv.pop(0)
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
names = [open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")]
assert not [name for name in names if "gloo" in name], names
"""


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def call(work, *command):
    result = subprocess.run(list(map(str, command)), cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {command}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def train(work, checkpoint, *options):
    """(steps, samples, tokens, last loss) of every rank."""
    script = os.path.join(ROOT, "examples", "dataloader", "train.py")
    out = call(work, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", RANKS, "--master-port", free_port(),
               "watched.py", script, "lengths.csv", "batches", "--checkpoint", checkpoint, *options)
    found = re.findall(r"rank \d: (\d+) steps, (\d+) samples, \d+ tiles, (\d+) tokens(?:, last loss ([\d.]+))?", out)
    if len(found) != RANKS:
        sys.exit(f"unexpected output: {out}")
    return [(int(steps), int(samples), int(tokens), loss) for steps, samples, tokens, loss in found]


def main():
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/watched.py", "w") as file:
            file.write(WATCHED)
        with open(f"{work}/lengths.csv", "w") as file:
            file.write("vit_num,token_num\n")
            total = 0
            for _ in range(SAMPLES):
                tokens = generator.randint(10, 900)
                total += tokens
                file.write(f"{generator.randint(0, 5)},{tokens}\n")
        call(work, os.path.join(sys.argv[1], "omnibal-batch"), "lengths.csv", "--tiles", 9, "--tokens", 2000, "--ranks",
             RANKS, "-o", "batches")
        whole = train(work, "whole.pt", "--workers", 2)
        assert sum(rank[1] for rank in whole) == SAMPLES and sum(rank[2] for rank in whole) == total, whole
        assert len({rank[0] for rank in whole}) == 1, whole
        first = train(work, "parts.pt", "--steps", 20)
        rest = train(work, "parts.pt", "--workers", 1)
        assert [rank[0] for rank in first] == [20] * RANKS, first
        for column in (1, 2):
            assert sum(r[column] for r in first + rest) == sum(r[column] for r in whole), (first, rest, whole)
        assert rest[0][3] == whole[0][3] != first[0][3], (first, rest, whole)
        print(f"{whole[0][0]} steps, last loss {whole[0][3]}")


if __name__ == "__main__":
    main()
