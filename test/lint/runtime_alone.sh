#!/usr/bin/env bash
# The runtime configures, builds, installs and runs with nothing of LLVM: with the system's own compiler, and with the
# packages hidden from CMake. Neither the compiled sources nor the installed programs touch a file of LLVM or MLIR.
#
#   runtime_alone.sh together|each SOURCE_FOLDER WORK_FOLDER [BIN_FOLDER]
#
#   together   the sources of a library as one (CMake's unity build): quick. Names in their anonymous namespaces must differ.
#   each       every source by itself and without precompiled headers: it includes what it uses.
#
# With the programs of another build in BIN_FOLDER, plans of steps must be equal: ranks on machines that are not alike plan
# for themselves.
set -euo pipefail
mode="$1" source="$2" work="$3"
fail() { echo "runtime_alone: $*" >&2; exit 1; }

compiler="$(command -v g++)" || fail "g++ is not installed (tools/scripts/setup.sh --runtime)"
mkdir -p "$work"
unity="-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=100"
[ "$mode" = together ] || unity=""
cmake -G Ninja -S "$source" -B "$work/build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="$(command -v gcc)" \
  -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DOMNIBAL_BUILD_COMPILER=OFF -DOMNIBAL_BUILD_TESTS=OFF -DOMNIBAL_CUDA=OFF $unity \
  -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON -DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON >"$work/configure.log" 2>&1 ||
  fail "configuring failed, see $work/configure.log"
ninja -C "$work/build" >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; fail "building failed"; }
rm -rf "$work/prefix"
cmake --install "$work/build" --prefix "$work/prefix" >/dev/null

grep -qiE "[lL][lL][vV][mM]|mlir" <<<"$(ninja -C "$work/build" -t deps)" && fail "a source includes a file of LLVM"
grep -qiE "llvm|mlir" "$work/build/CMakeCache.txt" && grep -iE "(LLVM|MLIR)_DIR:PATH=/" "$work/build/CMakeCache.txt" &&
  fail "CMake found LLVM"
run="$work/prefix/bin/omnibal-run"
batch="$work/prefix/bin/omnibal-batch"
for tool in "$run" "$batch"; do
  [ -x "$tool" ] || fail "no $(basename "$tool") was installed"
  ldd "$tool" | grep -iE "llvm|mlir|not found" && fail "the installed program needs the libraries above"
  "$tool" --version
  "$tool" --help >/dev/null
done
printf 'vit_num,token_num\n2,100\n1,50\n' >"$work/lengths.csv"
"$batch" "$work/lengths.csv" --tiles 4 --tokens 200 -o "$work/batches" >/dev/null
[ -s "$work/batches/batches.json" ] || fail "omnibal-batch wrote no batches"
if [ $# -gt 3 ]; then
  "$4/omnibal-compile" "$source/test/data/tiny-internvl/model.onnx" --tiles 24 --tokens 420 --stages 2 --microbatches 6 \
    --schedule per-step --memory-limit-bytes 12000000 --dry-run --emit-step-problem "$work/problem.json" >/dev/null
  for step in $(seq 0 19); do
    for microbatch in 0 1 2 3 4 5; do
      tokens=$((1 + (step * 97 + microbatch * 61) % 420))
      printf '{"tiles": %d, "tokens": %d, "squares": %d, "labels": 0}\n' $(((step * 5 + microbatch * 11) % 25)) $tokens $((tokens * tokens / 2))
    done | paste -sd, | sed "s/.*/{\"step\": $step, \"microbatches\": [&]}/"
  done >"$work/loads.jsonl"
  for bin in "$work/build/bin" "$4"; do
    "$bin/omnibal-plan" --steps "$work/loads.jsonl" "$work/problem.json" --json >"$work/plans-$([ "$bin" = "$4" ] && echo other || echo own).jsonl"
  done
  grep -q '"method":"lists"' "$work/plans-own.jsonl" || fail "no step has lists of its own"
  cmp "$work/plans-own.jsonl" "$work/plans-other.jsonl" || fail "another build makes other plans of steps"
fi
echo "runtime_alone: $(find "$work/prefix" -type f | wc -l) installed files, nothing of LLVM"
