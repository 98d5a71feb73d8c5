#!/usr/bin/env bash
# Everything of run_tests.sh and what takes longer: tests labelled "full" (all combinations of the reference runs,
# sanitizer builds, the quickstart to its end). The last line is "N passed, N failed".
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
build="${OMNIBAL_BUILD:-$root/build}"
"$root/tools/scripts/setup.sh" && "$root/tools/scripts/build.sh" || {
  echo "run_full.sh: set-up or build failed" >&2
  echo "0 passed, 1 failed"
  exit 1
}
exec "$root/test/ctest_summary.sh" "$build" "$@"
