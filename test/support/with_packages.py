#!/usr/bin/env python3
"""Runs a test that needs Python packages. Without them it says which are missing and exits 77, which ctest counts as
not run and test/ctest_summary.sh reports.

    with_packages.py MODULE,MODULE,... TEST.py [ARGUMENTS]
"""
import importlib.util
import os
import sys

# Too big for tools/python/requirements.txt: packages of one test, for those who want to run it.
BY_HAND = {"tensorboard"}


def main():
    missing = [module for module in sys.argv[1].split(",") if importlib.util.find_spec(module) is None]
    if missing:
        by = "pip" if BY_HAND.issuperset(missing) else "tools/scripts/setup.sh --python"
        print(f"not run: without {', '.join(missing)}, which {by} installs")
        sys.exit(77)
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])


if __name__ == "__main__":
    main()
