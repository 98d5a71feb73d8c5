#!/usr/bin/env bash
# Everything of run_tests.sh and what takes longer: tests labeled "full" (all combinations of the reference runs, the
# quickstart to its end), those of the tools in Python (PyTorch etc. are installed into the build folder where no Python
# has them), all of it but the Python, full and lint ones again in a build with the address and undefined-behavior
# sanitizers (build-sanitize), and the fuzzing of all readers of files with a million inputs each (run_fuzz.sh). The last
# lines are "not run: K (why)" and "N passed, M failed".
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
build="${OMNIBAL_BUILD:-$root/build}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
passed=0 failed=0 missed=0 why=""

# Runs a summary and adds its last two lines to the sums; the first argument names it.
count() {
  local name="$1" k text
  shift
  "$@" | tee "$log"
  k="$(sed -nE 's/^not run: ([0-9]+).*/\1/p' "$log" | tail -1)"
  text="$(sed -nE 's/^not run: [0-9]+ \((.*)\)$/\1/p' "$log" | tail -1)"
  missed=$((missed + ${k:-0})) why="$why${text:+${why:+; }$name: $text}"
  read -r p f < <(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log")
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
}

if "$root/tools/scripts/setup.sh" && OMNIBAL_PYTHON="$("$root/tools/scripts/test_python.sh" --all "$build/python")" &&
    export OMNIBAL_PYTHON && "$root/tools/scripts/build.sh"; then
  count all "$root/test/ctest_summary.sh" "$build" "$@"
else
  failed=$((failed + 1))
fi
# Libraries from packages are not instrumented: containers and allocators that cross into them, and what they keep until
# the end of the process, are no faults of ours.
export ASAN_OPTIONS=detect_container_overflow=0:allow_user_poisoning=0:detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
if OMNIBAL_CMAKE="-DOMNIBAL_SANITIZE=ON" OMNIBAL_BUILD="$build-sanitize" "$root/tools/scripts/build.sh"; then
  count "with sanitizers" "$root/test/ctest_summary.sh" "$build-sanitize" -LE "full|python|lint" --timeout 1800 "$@"
else
  failed=$((failed + 1))
fi
count fuzzing "$root/test/run_fuzz.sh"
echo "not run: $missed${why:+ ($why)}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
