#!/usr/bin/env bash
# The runtime configures, builds, installs and runs with nothing of LLVM: with the system's own compiler, and with the
# packages hidden from CMake. Neither the compiled sources nor the installed programs touch a file of LLVM or MLIR.
#
#   runtime_alone.sh together|each SOURCE_FOLDER WORK_FOLDER
#
#   together   the sources of a library as one (CMake's unity build): quick. Names in their anonymous namespaces must differ.
#   each       every source by itself and without precompiled headers: it includes what it uses.
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
echo "runtime_alone: $(find "$work/prefix" -type f | wc -l) installed files, nothing of LLVM"
