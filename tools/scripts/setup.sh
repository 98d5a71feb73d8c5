#!/usr/bin/env bash
# Installs what omnibal needs on Debian or Ubuntu. Does nothing (and needs neither root nor a network) where
# everything is there already. Without root or sudo it prints the line to run.
#
#   tools/scripts/setup.sh              everything: compiler, runtime, tests
#   tools/scripts/setup.sh --runtime    only what a training node needs (nothing of LLVM)
#   tools/scripts/setup.sh --python     besides, a virtual environment .venv for tools/python (PyTorch; optional)
#
# pip takes PyTorch from where it is configured to look. The usual index has the build for CUDA, several GB; set
# PIP_EXTRA_INDEX_URL to PyTorch's own index of CPU builds (its page "Get started" names it) for a small one.
set -euo pipefail
cd "$(dirname "$0")/../.."

runtime_packages="build-essential cmake ninja-build pkg-config python3 nlohmann-json3-dev libcli11-dev
  libtomlplusplus-dev libopenmpi-dev openmpi-bin libarchive-dev libspng-dev libturbojpeg0-dev libwebp-dev zlib1g-dev libgtest-dev"
compiler_packages="libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 clang-format-22 clang-tidy-22
  libclang-rt-22-dev lld-22 mold ccache protobuf-compiler libprotobuf-dev libonnx-testdata python3-venv"

packages="$runtime_packages $compiler_packages"
python=no
for option in "$@"; do
  case "$option" in
    --runtime) packages="$runtime_packages" ;;
    --python) python=yes ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
[ $python = yes ] && packages="$packages python3-venv"

if ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: this is neither Debian nor Ubuntu; install the equivalents of:" $packages >&2
  exit 1
fi
missing=""
for package in $packages; do
  [ $package = libtomlplusplus-dev ] && [ -e /usr/local/include/toml++/toml.h ] && continue
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
# The tests look at reports in a browser (test/support/python/browser.py); any Chromium will do.
browser="" no_browser="setup.sh: no Chromium: the test plan-report needs one on PATH (or OMNIBAL_BROWSER)"
if [ "$packages" != "$runtime_packages" ] && [ -z "${OMNIBAL_BROWSER:-}" ] && ! command -v chromium-headless-shell chromium \
    chromium-browser google-chrome >/dev/null; then
  browser=chromium-headless-shell
  if [ -n "$missing" ] || { [ "$(id -u)" = 0 ] && apt-cache show $browser >/dev/null 2>&1; }; then
    missing="$missing $browser"
  else
    echo "$no_browser" >&2
  fi
fi

if [ -n "$missing" ]; then
  line="apt-get update && apt-get install -y --no-install-recommends$missing"
  if [ "$(id -u)" = 0 ]; then
    as_root=""
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root="sudo"
  else
    echo "setup.sh: packages are missing and there is neither root nor sudo. Let an administrator run:" >&2
    echo "    $line" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  $as_root apt-get update -qq || echo "setup.sh: apt-get update failed; trying with the lists at hand" >&2
  if [ -n "$browser" ] && ! apt-cache show $browser >/dev/null 2>&1; then
    missing="${missing% $browser}"
    echo "$no_browser" >&2
  fi
  for package in $missing; do
    if ! apt-cache show "$package" >/dev/null 2>&1; then
      echo "setup.sh: this release's package sources do not offer $package." >&2
      case "$package" in
        *22*) cat >&2 <<'HINT'
  Debian 12 has LLVM and MLIR 22 in its security suite: bookworm-security, component main. For other releases the LLVM
  project keeps an apt repository of its own. Its page "LLVM Debian/Ubuntu packages" shows the line for a release, whose
  suite must end in "-22", and the key. Add either to /etc/apt/sources.list.d, then run this script again.
HINT
          ;;
        libtomlplusplus-dev) echo "  Unpack toml++ 3.2 or newer to /usr/local/include/toml++ (headers only); then it is not needed." >&2 ;;
        *) echo "  On Ubuntu, enable the universe component: add-apt-repository universe" >&2 ;;
      esac
      exit 1
    fi
  done
  echo "setup.sh: installing$missing"
  log="$(mktemp)"
  [ -z "$missing" ] || $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing \
    >"$log" 2>&1 || {
    tail -20 "$log" >&2
    echo "setup.sh: apt-get failed; the full output is in $log" >&2
    exit 1
  }
  rm -f "$log"
fi

if [ $python = yes ] && [ ! -x .venv/bin/python ]; then
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r tools/python/requirements.txt
  echo "setup.sh: Python packages are in .venv (use .venv/bin/python tools/python/export.py ...)"
fi
echo "setup.sh: everything needed is installed"
