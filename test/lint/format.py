#!/usr/bin/env python3
"""Every C++ file is as clang-format (22, with the repository's .clang-format) would write it.

    python3 test/lint/format.py [--fix]
"""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from repository import ROOT, tracked


def main():
    tool = shutil.which("clang-format-22")
    if not tool:
        sys.exit("format.py: clang-format-22 is not installed (tools/scripts/setup.sh)")
    files = [f for f in tracked() if f.endswith((".h", ".cpp"))]
    options = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror"]
    groups = [files[i:i + 20] for i in range(0, len(files), 20)]

    def run(group):
        return subprocess.run([tool, *options, *group], cwd=ROOT, capture_output=True, text=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(run, groups))
    bad = sorted({line.split(":")[0] for r in results for line in r.stderr.splitlines() if "error:" in line})
    print("\n".join(bad))
    if bad or any(r.returncode for r in results) or not files:
        sys.exit(f"format: {len(bad)} files are not formatted (python3 test/lint/format.py --fix)")
    print(f"format: {len(files)} files are in order")


if __name__ == "__main__":
    main()
