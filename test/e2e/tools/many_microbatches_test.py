#!/usr/bin/env python3
"""Thousands of micro-batches: compiling and loading a program take time in proportion to them.
many_microbatches_test.py BIN MODEL.onnx

Eight times as many may take 24 times as long, where anything quadratic takes 64 times; both are measured on the same machine under
much the same load. On two quiet cores 4096 are compiled in 3 to 4.5 s and loaded in 1.2 s, printing included."""
import os
import resource
import subprocess
import sys
import tempfile

BIN, MODEL = sys.argv[1:3]
STAGES, FEW, MANY = 4, 512, 4096
MOST = 24


def processor_seconds(*command):
    """The processor time of a command and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"exit {result.returncode} from {' '.join(command)}\n{result.stderr[-2000:]}")
    return after.ru_utime - before.ru_utime, result.stdout


def measure(schedule, microbatches):
    """Seconds to compile, and to load, verify and print."""
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "program")
        compiling, _ = processor_seconds(
            os.path.join(BIN, "omnibal-compile"), MODEL, "--tiles", "2", "--tokens", "64", "--stages", str(STAGES),
            "--microbatches", str(microbatches), "--schedule", schedule, "-o", program)
        loading, text = processor_seconds(os.path.join(BIN, "omnibal-run"), "--print", program)
    print(f"{schedule}: {STAGES} stages, {microbatches} micro-batches: compiled in {compiling:.2f} s, "
          f"loaded, verified and printed in {loading:.2f} s")
    backwards = text.count(" backward chunk ")
    if backwards != STAGES * microbatches:
        sys.exit(f"the program has {backwards} backward actions instead of {STAGES * microbatches}")
    return {"compiling": compiling, "loading": loading}


def main():
    for schedule in ("gpipe", "1f1b"):
        few, many = (measure(schedule, microbatches) for microbatches in (FEW, MANY))
        for what, seconds in many.items():
            if seconds > MOST * few[what]:
                sys.exit(f"{schedule}: {what} takes {seconds / few[what]:.1f} times as long with {MANY // FEW} times as many micro-batches")


if __name__ == "__main__":
    main()
