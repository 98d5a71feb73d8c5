#!/usr/bin/env python3
"""The families of docs/models.md that train, and language models without pictures, made, exported, compiled and trained anew:
families_test.py BIN PART/PARTS"""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
from families import TEXT

ROW = re.compile(r"\| (\S+) \|[^|]*\| (\d+) \| yes \| (\S+) \| (\S+) \| *\|$", re.M)

PART, PARTS = map(int, sys.argv.pop().split("/"))
BIN = sys.argv.pop()


def families():
    """Those with losses in the table and those without pictures, every PARTS-th of them."""
    with open(os.path.join(ROOT, "docs", "models.md"), encoding="utf-8") as file:
        return [*(row[0] for row in ROW.findall(file.read())), *TEXT][PART - 1::PARTS]


class Families(unittest.TestCase):
    def test_each_trains_with_pytorchs_losses(self):
        command = [sys.executable, os.path.join(ROOT, "tools", "python", "families.py"), "--bin", BIN, *families()]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        print(output)
        self.assertEqual([row[0] for row in ROW.findall(output)], families(), output)


if __name__ == "__main__":
    unittest.main()
