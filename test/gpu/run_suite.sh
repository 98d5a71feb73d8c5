#!/usr/bin/env bash
# The GPU test suite from a bundle (bundle.sh), at most 10 minutes:
#
#   test/gpu/run_suite.sh [gpu-bundle | gpu-bundle.tar.xz] [options of suite.py]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
exec "$here/with_bundle.sh" "$here/suite.py" "$@"
