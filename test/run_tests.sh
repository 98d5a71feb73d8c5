#!/usr/bin/env bash
# All set-up and the tests that fit a coffee break. The last lines are "not run: K (why)" and "N passed, M failed".
#
#   test/run_tests.sh [ctest options]        e.g. -R checkpoint
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
build="${OMNIBAL_BUILD:-$root/build}"
# Where no GPU can run it, device code is compiled for one kind of GPU.
if [ ! -f "$build/build.ninja" ] && ! command -v nvidia-smi >/dev/null; then
  export OMNIBAL_CMAKE="-DCMAKE_CUDA_ARCHITECTURES=90 ${OMNIBAL_CMAKE:-}"
fi
"$root/tools/scripts/setup.sh" && OMNIBAL_PYTHON="$("$root/tools/scripts/test_python.sh" "$build/python")" &&
  export OMNIBAL_PYTHON && "$root/tools/scripts/build.sh" || {
  echo "run_tests.sh: set-up or build failed" >&2
  echo "0 passed, 1 failed"
  exit 1
}
exec "$root/test/ctest_summary.sh" "$build" -LE full "$@"
