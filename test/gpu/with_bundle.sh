#!/usr/bin/env bash
# with_bundle.sh SCRIPT.py [BUNDLE] OPTIONS...: unpacks the bundle where it is an archive, says what the machine has, runs the script.
set -euo pipefail
script="$1"
shift
bundle=gpu-bundle
if [[ $# -gt 0 && $1 != -* ]]; then
  bundle="$1"
  shift
elif [[ ! -d $bundle && -f $bundle.tar.xz ]]; then
  bundle=gpu-bundle.tar.xz
fi
if [[ $bundle == *.tar.xz ]]; then
  unpacked="$(mktemp -d)"
  trap 'rm -rf "$unpacked"' EXIT
  tar -C "$unpacked" -xJf "$bundle"
  bundle="$unpacked/$(basename "$bundle" .tar.xz)"
fi
date -u '+%Y-%m-%d %H:%M UTC'
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
"${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version 2>/dev/null | tail -1 || true
"${OMNIBAL_PYTHON:-python3}" -c 'import torch, transformers; print("PyTorch", torch.__version__, "Transformers", transformers.__version__)' || true
"${OMNIBAL_PYTHON:-python3}" "$script" "$bundle" "$@"
