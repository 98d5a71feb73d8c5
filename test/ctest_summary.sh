#!/usr/bin/env bash
# ctest in the given build folder, and a last line "N passed, N failed".
set -uo pipefail
build="$1"
shift
# The tests use two threads or ranks themselves where it matters; more at once than half the cores makes waits flaky.
jobs=$(( ($(nproc) + 1) / 2 ))
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# Open MPI refuses to run as root unless told; containers are root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" "$@" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
# "98% tests passed, 1 tests failed out of 50" or, with newer versions, "100% tests passed out of 50".
failed="$(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of [0-9]+$/\1/p' "$log")"
total="$(sed -nE 's/.*tests passed.* out of ([0-9]+)$/\1/p' "$log")"
if [ -z "$total" ]; then
  failed=1 total=1
fi
failed="${failed:-0}"
echo "$(( total - failed )) passed, $failed failed"
exit "$code"
