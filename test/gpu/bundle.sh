#!/usr/bin/env bash
# Everything that run_suite.sh and run_bench.sh need on a machine with a GPU but without LLVM and packages:
#
#   test/gpu/bundle.sh [BUILD [BUNDLE]]      default: build, gpu-bundle; writes BUNDLE/ and BUNDLE.tar.xz
#
# BUILD holds omnibal-compile. The runtime, the plugin and the test binaries are built here for sm_90 (OMNIBAL_GPU_ARCH)
# in BUNDLE.build, models are exported into BUNDLE.models; needs nvcc, and pip for cuDNN's headers (BUNDLE.wheels, 600 MB). Shared libraries that such a machine may lack are packed too.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
build="$(realpath "${1:-$root/build}")"
bundle="$(realpath -m "${2:-gpu-bundle}")"
targets=(omnibal-run omnibal-batch gpu-kernel-test gpu-conformance gpu-backend-test bench_device_kernels)

# libarchive as a static library: the shared one would bring 35 MB of libraries that tar files do not need.
static="$(pkg-config --variable=libdir libarchive)/libarchive.a"
options=()
[[ -f $static ]] && options+=("-Dpkgcfg_lib_OMNIBAL_DATA_archive=$static")

# cuDNN's headers and its frontend's; the library itself is the GPU machine's.
wheels="$bundle.wheels"
if [[ ! -f $wheels/include/cudnn_frontend.h ]]; then
  "${OMNIBAL_PYTHON:-python3}" -m pip install -q --no-deps --target "$wheels" \
    nvidia-cudnn-cu13==9.19.0.56 nvidia-cudnn-frontend==1.32.0 nvidia-cuda-nvrtc==13.5.37
fi

export CUDACXX="${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
cmake -G Ninja -S "$root" -B "$bundle.build" -DCMAKE_BUILD_TYPE=Release -DOMNIBAL_BUILD_COMPILER=OFF -DOMNIBAL_CUDA=ON \
  -DOMNIBAL_CUDNN=ON -DOMNIBAL_CUDA_WHEELS="$wheels" \
  -DCMAKE_CUDA_ARCHITECTURES="${OMNIBAL_GPU_ARCH:-90}" "${options[@]}" >"$bundle.build.log"
cmake --build "$bundle.build" --target "${targets[@]}" omnibal_cuda omnibal_cudnn

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/tools" "$bundle/lib"
cp "$bundle.build/lib/libomnibal_cuda.so" "$bundle.build/lib/libomnibal_cudnn.so" "$bundle/lib/"
for tool in "${targets[@]}"; do
  cp "$bundle.build/bin/$tool" "$bundle/tools/"
  # A wrapper, so that only our tools see the packed libraries.
  cat >"$bundle/bin/$tool" <<'WRAPPER'
#!/usr/bin/env bash
here="$(cd "$(dirname "$0")/.." && pwd)"
export OMNIBAL_PLUGINS="${OMNIBAL_PLUGINS:-$here/lib}"
export LD_LIBRARY_PATH="$here/lib:${CUDA_HOME:-/usr/local/cuda}/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/tools/$(basename "$0")" "$@"
WRAPPER
  chmod +x "$bundle/bin/$tool"
done
strip "$bundle"/tools/* "$bundle"/lib/*.so
# What belongs to the system or the driver stays out.
ldd "$bundle"/tools/* "$bundle"/lib/*.so | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s|cuda|nvidia[^/]*))\.so' |
  xargs -r -I{} cp -Ln {} "$bundle/lib/"
"${OMNIBAL_PYTHON:-python3}" "$root/test/gpu/programs.py" --bin "$build/bin" --models "$bundle.models" "$bundle/programs"
XZ_OPT=-9 tar -C "$(dirname "$bundle")" -cJf "$bundle.tar.xz" "$(basename "$bundle")"
du -h "$bundle.tar.xz"
