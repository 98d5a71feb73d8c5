#!/usr/bin/env bash
# Configures build/ and builds targets there (default: everything). Tools end up in build/bin.
#
#   tools/scripts/build.sh [TARGET...]       OMNIBAL_BUILD=DIR and OMNIBAL_CMAKE="-D..." change folder and options,
#                                            OMNIBAL_PYTHON the Python that runs the tests
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
build="${OMNIBAL_BUILD:-$root/build}"

compilers=""
if command -v clang++-22 >/dev/null; then
  compilers="-DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22"
fi
# Precompiled headers and ccache agree only with these settings.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}"

mkdir -p "$build"
python=""
if [ -n "${OMNIBAL_PYTHON:-}" ] && ! grep -qs "^Python3_EXECUTABLE:.*=$OMNIBAL_PYTHON$" "$build/CMakeCache.txt"; then
  python="-DPython3_EXECUTABLE:FILEPATH=$OMNIBAL_PYTHON"
fi
if [ ! -f "$build/build.ninja" ] || [ -n "${OMNIBAL_CMAKE:-}$python" ]; then
  cmake -G Ninja -S "$root" -B "$build" $compilers $python ${OMNIBAL_CMAKE:-} >"$build/configure.log" 2>&1 || {
    tail -30 "$build/configure.log" >&2
    echo "build.sh: configuring failed; the full output is in $build/configure.log" >&2
    exit 1
  }
fi
# A heavy translation unit of the compiler takes 1.2 GB: no more jobs than memory allows.
jobs=$(nproc)
fit=$(( $(awk '/MemAvailable/ {print $2}' /proc/meminfo) / 1300000 ))
[ "$fit" -lt "$jobs" ] && jobs=$(( fit > 0 ? fit : 1 ))
exec ninja -C "$build" -j "$jobs" "$@"
