#!/usr/bin/env python3
"""The README's commands for a model of one's own on a small model: what the text shows can be typed. (Set-up, the build
and the tools in Python, which need PyTorch, have their own tests.)

    readme_test.py BUILD/bin SOURCES
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
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
    """What prepare.py would have left."""
    os.makedirs(os.path.join(work, "shards"))
    shutil.copy(os.path.join(MODEL, "data-000000.tar"), os.path.join(work, "shards"))


def run(command, work):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1")
    result = subprocess.run(command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {shlex.join(command)}\n{result.stdout[-4000:]}")
    return result.stdout


def main():
    commands = tool_commands()
    if len(commands) < 4:
        sys.exit(f"expected four commands, found {commands}")
    with tempfile.TemporaryDirectory() as work:
        lay_out(work)
        for command in commands:
            words = [word.replace("MODEL_FOLDER", MODEL).replace("build/bin", BIN)
                     .replace("examples/", os.path.join(SOURCES, "examples", "")) for word in shlex.split(command, comments=True)]
            output = run(words, work)
        if "answers entirely right" not in output:
            sys.exit(f"the last command does not evaluate:\n{output}")
        steps = len(open(os.path.join(work, "run.jsonl")).readlines())
        for path in ("trained/model.safetensors", "checkpoints/latest"):
            if not os.path.exists(os.path.join(work, path)):
                sys.exit(f"the commands left no {path}")
        print(f"{len(commands)} commands, {steps} steps")


if __name__ == "__main__":
    main()
