#!/usr/bin/env bash
# The GPU benchmark from a bundle (bundle.sh), at most 10 minutes:
#
#   test/gpu/run_bench.sh [gpu-bundle | gpu-bundle.tar.xz] [options of bench.py]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
exec "$here/with_bundle.sh" "$here/bench.py" "$@"
