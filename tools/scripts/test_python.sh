#!/usr/bin/env bash
# Prints the path of the one Python that runs all tests: the first of those that have every package of
# tools/python/requirements.txt, so that the tests of the tools in Python run too, or else of test/requirements.txt.
# Looked at are the one on PATH, .venv (tools/scripts/setup.sh --python) and FOLDER, a virtual environment that is made
# where no other has the packages.
#
#   tools/scripts/test_python.sh [--all] FOLDER      --all: with PyTorch and the rest of tools/python/requirements.txt
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
all=no
[ "$1" = --all ] && all=yes && shift
folder="$1"

# The packages are looked for by pip's names and versions, which are read, not imported: that takes seconds.
has() {
  local python="$1"
  shift
  [ -x "$python" ] && "$python" - "$@" 2>/dev/null <<'PYTHON'
import importlib.metadata, re, sys
for path in sys.argv[1:]:
    for line in open(path, encoding="utf-8"):
        wanted = re.match(r"([\w-]+)(?:==([\w.]+))?", line)
        if wanted:
            numbers = [re.findall(r"\d+", version)[:2] for version in (importlib.metadata.version(wanted[1]), wanted[2] or "0")]
            if list(map(int, numbers[0])) < list(map(int, numbers[1])):
                sys.exit(1)
PYTHON
}

few="$root/test/requirements.txt" many="$root/tools/python/requirements.txt"
on_path="$(command -v python3 || true)"
[ -z "$on_path" ] || on_path="$("$on_path" -c 'import sys; print(sys.executable)')"
candidates=("$on_path" "$root/.venv/bin/python3" "$folder/bin/python3")
for python in "${candidates[@]}"; do
  if has "$python" "$few" "$many"; then echo "$python"; exit 0; fi
done
if [ $all = no ]; then
  for python in "${candidates[@]}"; do
    if has "$python" "$few"; then echo "$python"; exit 0; fi
  done
  many=""
fi
[ -x "$folder/bin/pip" ] || { rm -rf "$folder" && "$on_path" -m venv "$folder" >&2; }
"$folder/bin/pip" install --quiet --disable-pip-version-check -r "$few" ${many:+-r "$many"} >&2 || {
  echo "test_python.sh: pip could not install $few $many; without the first no test runs" >&2
  exit 1
}
echo "$folder/bin/python3"
