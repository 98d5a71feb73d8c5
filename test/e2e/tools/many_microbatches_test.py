#!/usr/bin/env python3
"""Thousands of micro-batches: compiling and loading a program take time in proportion to them.
many_microbatches_test.py BIN MODEL.onnx

The limits are three times what a two-core machine takes, printing included; anything quadratic takes minutes."""
import os
import resource
import subprocess
import sys
import tempfile

BIN, MODEL = sys.argv[1:3]
STAGES, MICROBATCHES = 4, 4096
COMPILE_SECONDS, LOAD_SECONDS = 5, 2


def processor_seconds(*command):
    """The processor time of a command, which other work on the machine hardly changes, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {' '.join(command)}\n{result.stderr[-2000:]}")
    return after.ru_utime - before.ru_utime, result.stdout


def main():
    for schedule in ("gpipe", "1f1b"):
        with tempfile.TemporaryDirectory() as work:
            program = os.path.join(work, "program")
            compiling, _ = processor_seconds(
                os.path.join(BIN, "omnibal-compile"), MODEL, "--tiles", "2", "--tokens", "64", "--stages", str(STAGES),
                "--microbatches", str(MICROBATCHES), "--schedule", schedule, "-o", program)
            loading, text = processor_seconds(os.path.join(BIN, "omnibal-run"), "--print", program)
        print(f"{schedule}: {STAGES} stages, {MICROBATCHES} micro-batches: compiled in {compiling:.2f} s, "
              f"loaded, verified and printed in {loading:.2f} s")
        backwards = text.count(" backward chunk ")
        if backwards != STAGES * MICROBATCHES:
            sys.exit(f"the program has {backwards} backward actions instead of {STAGES * MICROBATCHES}")
        if compiling > COMPILE_SECONDS or loading > LOAD_SECONDS:
            sys.exit(f"more than {COMPILE_SECONDS} s for compiling or {LOAD_SECONDS} s for loading: is something quadratic?")


if __name__ == "__main__":
    main()
