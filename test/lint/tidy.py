#!/usr/bin/env python3
"""Checks sources with clang-tidy and the checks of .clang-tidy: tidy.py BUILD [--all | PATH ...]

Without more words, those sources that are new since main and since the last commit, and one source for every such header;
with --all, all sources of FOLDERS, and with paths, those at or below them. BUILD is a finished build with clang.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("dialects/", "importers/", "passes/", "runtime/", "tools/")
TIDY = "clang-tidy-22"
MOST = 40  # changed sources that a run of the lints checks; lint-tidy-all checks the others too


def not_run(why):
    print(f"not run: {why}")
    sys.exit(77)


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def sources_of(build):
    """Paths from the root of what is compiled; a source that is compiled twice counts once."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = json.load(file)
    if not all(re.search(r"clang\+\+", entry["command"].split()[0]) for entry in entries[:1]):
        not_run("the build is not one with clang")
    paths = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT) for entry in entries}
    return sorted(path for path in paths if path.startswith(FOLDERS) and path.endswith(".cpp"))


def changed():
    """Files that differ from main, were part of the last commit, or are not committed."""
    found = git("diff", "--name-only", "HEAD~1")
    if found is None:
        not_run("there is no commit to compare with")
    base = git("merge-base", "HEAD", "origin/main")
    if base:
        found += git("diff", "--name-only", base[0])
    return set(found + git("ls-files", "--others", "--exclude-standard"))


def source_for(header, sources):
    """The source beside it, or else the first that includes it."""
    beside = header[:-2] + ".cpp"
    if beside in sources:
        return beside
    for source in sources:
        with open(os.path.join(ROOT, source), encoding="utf-8") as file:
            if f'#include "{header}"' in file.read():
                return source
    return None


def choose_changed(sources):
    files = changed()
    chosen = {path for path in files if path in sources}
    headers = sorted(path for path in files if path.startswith(FOLDERS) and path.endswith(".h") and os.path.exists(os.path.join(ROOT, path)))
    chosen = sorted(chosen | {source for source in (source_for(header, sources) for header in headers) if source})
    if len(chosen) > MOST:
        print(f"tidy: {len(chosen)} sources changed; {MOST} of them are checked here, all by lint-tidy-all")
        chosen = [chosen[i * len(chosen) // MOST] for i in range(MOST)]
    return chosen


def check(build, source):
    done = subprocess.run([TIDY, "-p", build, "--quiet", os.path.join(ROOT, source)], capture_output=True, text=True)
    return done.returncode, done.stdout + (done.stderr if "error:" in done.stderr else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not shutil.which(TIDY):
        not_run(f"{TIDY} is missing: tools/scripts/setup.sh installs it")
    sources = sources_of(args.build)
    if args.paths:
        below = tuple(os.path.relpath(path, ROOT) for path in args.paths)
        sources = [source for source in sources if source in below or source.startswith(tuple(path + "/" for path in below))]
    elif not args.all:
        sources = choose_changed(sources)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for source, (code, text) in zip(sources, pool.map(lambda source: check(args.build, source), sources)):
            if code:
                failed += 1
                print(f"{source}:\n{text}", flush=True)
    print(f"tidy: {len(sources)} sources, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
