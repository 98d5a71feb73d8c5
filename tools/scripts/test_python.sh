#!/usr/bin/env bash
# Prints the path of a Python that has the packages of test/requirements.txt: the one on PATH if it has them, else a
# virtual environment in FOLDER, made on first use.
#
#   tools/scripts/test_python.sh FOLDER
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
folder="$1"
if python3 -c 'import numpy, onnx, sys; sys.exit(tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 18))' 2>/dev/null; then
  python3 -c 'import sys; print(sys.executable)'
  exit 0
fi
if [ ! -e "$folder/ready" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder" >&2
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$root/test/requirements.txt" >&2 || {
    echo "test_python.sh: pip could not install test/requirements.txt; the ONNX node tests need it" >&2
    exit 1
  }
  touch "$folder/ready"
fi
echo "$folder/bin/python3"
