#!/usr/bin/env python3
"""Runs the targets of the folders here and keeps their corpora.

    fuzz.py run BINARY CORPUS --runs 1000000             inputs from CORPUS on; fails with what libFuzzer wrote
    fuzz.py keep BINARY CORPUS FOLDER...                 CORPUS becomes the fewest inputs that cover what it and FOLDER... do
    fuzz.py add CORPUS FILE WHAT                         adds an input with a line that says what it shows
    fuzz.py unpack CORPUS FOLDER

A corpus has one input a line, compressed by zlib, in base64. Inputs below a line with "#" were found to break something once, and stay.
"""
import argparse
import base64
import hashlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import zlib

# An input that takes longer hangs. What a reader may hold is counted by the target (Fuzz.h); the rest is quarantine.
LIMITS = ["-timeout=10", "-rss_limit_mb=3072", "-malloc_limit_mb=512"]
# Bytes of an input; the formats say all they can in few.
LONGEST = {"program": 12288, "length-groups": 2048, "image": 2048, "tar": 2048, "onnx": 4096}
# Libraries from packages are not instrumented. To remember little of who allocated what is faster: what was found is
# looked at by giving the input to the target with other options.
ASAN = ("detect_container_overflow=0:allow_user_poisoning=0:handle_abort=1:quarantine_size_mb=16:malloc_context_size=0:"
        "detect_stack_use_after_return=0:detect_leaks=0")


def read(corpus):
    """Inputs with what is said about them (None: nothing)."""
    found, about = [], None
    if os.path.exists(corpus):
        with open(corpus, encoding="ascii") as file:
            for line in file.read().splitlines():
                if line.startswith("#"):
                    about = line[1:].strip()
                elif line:
                    found.append((zlib.decompress(base64.b64decode(line)), about))
                    about = None
    return found


def line_of(data):
    return base64.b64encode(zlib.compress(data, 9)).decode()


def write(corpus, inputs):
    """First what has a word said about it, in the order in which it came; then the others by length."""
    named = [(data, about) for data, about in inputs if about]
    known = {data for data, _ in named}
    others = sorted({data for data, about in inputs if not about} - known, key=lambda data: (len(data), data))
    with open(corpus, "w", encoding="ascii") as file:
        for data, about in named:
            file.write(f"# {about}\n{line_of(data)}\n")
        for data in others:
            file.write(line_of(data) + "\n")
    return len(named) + len(others)


def unpack(inputs, folder):
    os.makedirs(folder, exist_ok=True)
    for data, _ in inputs:
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), "wb") as file:
            file.write(data)


def target(corpus):
    return os.path.basename(corpus).removesuffix(".corpus")


def environment():
    return os.environ | {"ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": "print_stacktrace=1"}


def run(args):
    # In memory where there is such a folder: thousands of inputs come and go.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        folder = args.folder or os.path.join(scratch, "inputs")
        unpack(read(args.corpus), folder)
        if args.seeds:
            subprocess.run([args.seeds, folder], check=True, env=environment())
        name = target(args.corpus)
        command = [args.binary, f"-runs={args.runs}", f"-seed={args.seed}", "-print_final_stats=1", "-reduce_inputs=0",
                   f"-max_len={LONGEST.get(name, 512)}", f"-artifact_prefix={args.artifacts}", *LIMITS]
        words = os.path.splitext(args.corpus)[0] + ".dict"
        if os.path.exists(words):
            command.append(f"-dict={words}")
        if args.seconds:
            command.append(f"-max_total_time={args.seconds}")
        done = subprocess.run([*command, folder], env=environment(), text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-120:]))
        return 1
    progress = re.findall(r"cov: (\d+) ft: (\d+)", done.stdout)
    stats = dict(re.findall(r"^stat::(\w+):\s+(\d+)", done.stdout, re.M))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    edges, features = progress[-1] if progress else ("?", "?")
    print(f"{name}: {stats.get('number_of_executed_units')} inputs in {seconds:.0f} s of processor time, "
          f"{int(stats.get('number_of_executed_units', 0)) / seconds:.0f} a second, {edges} edges, {features} features, "
          f"{stats.get('peak_rss_mb')} MB")
    return 0


def keep(args):
    inputs = read(args.corpus)
    named = [(data, about) for data, about in inputs if about]
    with tempfile.TemporaryDirectory() as scratch:
        old, new = os.path.join(scratch, "old"), os.path.join(scratch, "new")
        unpack(inputs, old)
        os.mkdir(new)
        subprocess.run([args.binary, "-set_cover_merge=1", "-use_counters=0", f"-max_len={args.longest}", *LIMITS, new, old, *args.folders],
                       env=environment(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kept = []
        for file in sorted(os.listdir(new)):
            with open(os.path.join(new, file), "rb") as data:
                kept.append((data.read(), None))
    print(f"{target(args.corpus)}: {write(args.corpus, named + kept)} inputs, {os.path.getsize(args.corpus)} bytes")


def add(args):
    with open(args.file, "rb") as file:
        write(args.corpus, read(args.corpus) + [(file.read(), args.what)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("binary")
    one.add_argument("corpus")
    one.add_argument("--runs", type=int, default=int(os.environ.get("OMNIBAL_TEST_INPUTS", "1000000")))
    one.add_argument("--seeds", help="a program that writes further inputs into a folder")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--folder", help="where inputs that cover more are left")
    one.add_argument("--artifacts", default="", help="in front of the names of files for what was found")
    one.add_argument("--seconds", type=int, default=0, help="ends the run before all inputs are made")
    one.set_defaults(do=run)
    one = commands.add_parser("keep")
    one.add_argument("binary")
    one.add_argument("corpus")
    one.add_argument("folders", nargs="*")
    one.add_argument("--longest", type=int, default=1024)
    one.set_defaults(do=keep)
    one = commands.add_parser("add")
    one.add_argument("corpus")
    one.add_argument("file")
    one.add_argument("what")
    one.set_defaults(do=add)
    one = commands.add_parser("unpack")
    one.add_argument("corpus")
    one.add_argument("folder")
    one.set_defaults(do=lambda args: unpack(read(args.corpus), args.folder))
    args = parser.parse_args()
    return args.do(args)


if __name__ == "__main__":
    sys.exit(main())
