//===- Device.h - What the .cu files share: packs, conversions, sums over warps and blocks ---===//
//
// Only .cu files include this header. They compile with nvcc, and as C++ against the emulated
// toolkit of test/support/cuda_emulation; for that reason a launch is written OMNIBAL_LAUNCH.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_DEVICE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_DEVICE_H

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifdef OMNIBAL_CUDA_EMULATION
#define OMNIBAL_LAUNCH(kernel, grid, block, stream, ...)                                           \
  ::omnibal::emulation::enqueue(stream, grid, block, 0, [=] { kernel(__VA_ARGS__); })
#else
#define OMNIBAL_LAUNCH(kernel, grid, block, stream, ...)                                           \
  kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#endif

namespace omnibal::rt::cuda {

using bf16 = __nv_bfloat16;
constexpr unsigned allLanes = 0xffffffffu;

/// n neighbors in memory, moved by one instruction.
template <typename T, int n> struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

template <int n, typename T> __device__ __forceinline__ Pack<T, n> loadPack(const T *from) {
  return *reinterpret_cast<const Pack<T, n> *>(from);
}
template <int n, typename T>
__device__ __forceinline__ void storePack(T *to, const Pack<T, n> &pack) {
  *reinterpret_cast<Pack<T, n> *>(to) = pack;
}

__device__ __forceinline__ float toFloat(float x) { return x; }
__device__ __forceinline__ float toFloat(bf16 x) { return __bfloat162float(x); }

/// A value in another storage type; only float and bf16 convert.
template <typename To, typename From> struct Convert;
template <typename T> struct Convert<T, T> {
  static __device__ __forceinline__ T of(T x) { return x; }
};
template <> struct Convert<float, bf16> {
  static __device__ __forceinline__ float of(bf16 x) { return __bfloat162float(x); }
};
template <> struct Convert<bf16, float> {
  static __device__ __forceinline__ bf16 of(float x) { return __float2bfloat16_rn(x); }
};
template <typename T> __device__ __forceinline__ T fromFloat(float x) {
  return Convert<T, float>::of(x);
}

/// The type in which values of a storage type are added.
template <typename T> struct Arithmetic {
  using Type = T;
};
template <> struct Arithmetic<bf16> {
  using Type = float;
};

template <typename T> __device__ __forceinline__ T warpSum(T x) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2)
    x += __shfl_xor_sync(allLanes, x, bits);
  return x;
}

/// Returns the sum over a block of `threads` threads in one dimension, in every thread, by a tree
/// whose shape is fixed. All threads call it.
template <int threads, typename T> __device__ T blockSum(T x) {
  static_assert(threads % 32 == 0 && threads <= 1024);
  __shared__ T parts[threads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x = warpSum(x);
  __syncthreads(); // the last call's readers are done
  if (lane == 0)
    parts[warp] = x;
  __syncthreads();
  return warpSum(lane < threads / 32 ? parts[lane] : T(0));
}

inline bool isAligned(const void *pointer, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
}

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Blocks for `work` blocks' work in a loop that strides by the grid.
inline unsigned gridFor(int64_t work) {
  constexpr int64_t most = int64_t(1) << 22;
  return static_cast<unsigned>(work < most ? work : most);
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_DEVICE_H
