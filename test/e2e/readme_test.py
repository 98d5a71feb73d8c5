#!/usr/bin/env python3
"""The README's commands for a model of one's own, and the script of docs/batching.md, on a small model: what the texts
show can be typed. (Set-up, the build and the tools in Python, which need PyTorch, have their own tests.)

    readme_test.py BUILD/bin SOURCES
"""
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile

BIN, SOURCES = (os.path.abspath(path) for path in sys.argv[1:3])
MODEL = os.path.join(SOURCES, "test", "data", "tiny-internvl")


def blocks(path, language):
    with open(os.path.join(SOURCES, path), encoding="utf-8") as file:
        return re.findall(rf"^```{language}\n(.*?)^```", file.read(), re.M | re.S)


def tool_commands():
    """The README's command lines that start a tool of ours, in order."""
    text = "".join(blocks("README.md", "sh")).replace("\\\n", " ")
    return [line for line in text.splitlines() if re.match(r"(mpirun .*)?build/bin/omnibal-", line)]


def lay_out(work):
    """What export.py and prepare.py would have left."""
    os.makedirs(os.path.join(work, "shards"))
    shard = os.path.join(MODEL, "data-000000.tar")
    shutil.copy(shard, os.path.join(work, "shards"))
    with tarfile.open(shard) as tar, open(os.path.join(work, "shards", "lengths.csv"), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "vit_num", "token_num"])
        for member in tar:
            if member.name.endswith(".json"):
                sample = json.load(tar.extractfile(member))
                writer.writerow([member.name[:-5], sample["images"], len(sample["input_ids"])])


def run(command, work):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1")
    result = subprocess.run(command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {shlex.join(command)}\n{result.stdout[-4000:]}")
    return result.stdout


def main():
    commands = tool_commands()
    scripts = blocks("docs/batching.md", "python")
    if len(commands) < 3 or len(scripts) != 1:
        sys.exit(f"expected three commands and one script, found {commands} and {len(scripts)}")
    with tempfile.TemporaryDirectory() as work:
        lay_out(work)
        run([sys.executable, "-c", scripts[0]], work)
        with open(os.path.join(work, "shards", "lengths.csv")) as file:
            keys = sorted(row["key"] for row in csv.DictReader(file))
        with open(os.path.join(work, "steps.jsonl")) as file:
            groups = [group for line in file for group in json.loads(line)["groups"]]
        if sorted(key for group in groups for key in group) != keys:
            sys.exit("the script's steps do not hold every sample once")
        for command in commands:
            words = [word.replace("MODEL_FOLDER", MODEL).replace("build/bin", BIN) for word in shlex.split(command, comments=True)]
            output = run(words, work)
        if "answers entirely right" not in output:
            sys.exit(f"the last command does not evaluate:\n{output}")
        steps = len(open(os.path.join(work, "run.jsonl")).readlines())
        for path in ("trained/model.safetensors", "checkpoints/latest"):
            if not os.path.exists(os.path.join(work, path)):
                sys.exit(f"the commands left no {path}")
        print(f"{len(commands)} commands, {len(groups)} groups, {steps} steps")


if __name__ == "__main__":
    main()
