#!/usr/bin/env bash
# Builds the targets of test/fuzz with libFuzzer (build-fuzz) and gives each as many inputs as OMNIBAL_TEST_INPUTS says, a
# million by default. The last two lines are "not run: K (why)" and "N passed, M failed".
#
#   OMNIBAL_TEST_INPUTS=10000 test/run_fuzz.sh [ctest options]
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
build="${OMNIBAL_BUILD:-$root/build}-fuzz"
if ! OMNIBAL_CMAKE="-DOMNIBAL_FUZZ=ON" OMNIBAL_BUILD="$build" "$root/tools/scripts/build.sh" fuzz-targets; then
  echo "not run: 0"
  echo "0 passed, 1 failed"
  exit 1
fi
exec "$root/test/ctest_summary.sh" "$build" "$@"
