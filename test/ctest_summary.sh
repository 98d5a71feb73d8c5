#!/usr/bin/env bash
# ctest in the given build folder. The last two lines are "not run: K (why)", with the tests that the options leave out
# and those whose packages are missing, and "N passed, M failed".
#
#   ctest_summary.sh BUILD_FOLDER [ctest options]
set -uo pipefail
build="$1"
shift
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# Open MPI refuses to run as root unless told; containers are root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
count() { ctest --test-dir "$build" -N "$@" | sed -nE 's/^Total Tests: ([0-9]+)$/\1/p'; }
# Tests with several ranks or threads say so (the property PROCESSORS), and those that measure run by themselves.
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" "$@" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
# "98% tests passed, 1 tests failed out of 50" or, with newer versions, "100% tests passed out of 50".
failed="$(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of [0-9]+$/\1/p' "$log")"
total="$(sed -nE 's/.*tests passed.* out of ([0-9]+)$/\1/p' "$log")"
if [ -z "$total" ]; then
  failed=1 total=1
fi
failed="${failed:-0}"
# ctest counts what exits with "skipped" as passed.
skipped="$(grep -cE '^[[:space:]]+[0-9]+ - .*\(Skipped\)' "$log")"
# Before ctest is asked to count, which empties its log.
why="$(sed -nE 's/^not run: (.*)$/\1/p' "$build/Testing/Temporary/LastTest.log" | sort | uniq -c | sed -E 's/^ +//' |
  paste -sd ';' | sed 's/;/; /g')"
left_out=$(( $(count) - $(count "$@") ))
[ "$left_out" = 0 ] || why="${why:+$why; }$left_out left out by $*"
echo "not run: $(( skipped + left_out ))${why:+ ($why)}"
echo "$(( total - failed - skipped )) passed, $failed failed"
exit "$code"
