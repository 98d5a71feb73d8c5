//===- TensorCore.h - Matrix products of a warp, and copies into shared memory behind its back ===//
//
// mma.sync m16n8k16 with bfloat16 factors and float32 sums, for compute capability 8.0 and newer.
// Lane l has row l / 4 (and 8 further) and columns l % 4 * 2, + 1 of a result [16, 8].
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_TENSORCORE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_TENSORCORE_H

#include "runtime/backends/cuda/kernels/Device.h"

#ifdef OMNIBAL_CUDA_EMULATION
/// Whether blocks of the kernel may have so many bytes of dynamic shared memory.
#define OMNIBAL_ALLOW_SHARED(kernel, bytes) ((bytes) <= 227 * 1024)
#define OMNIBAL_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...)                             \
  ::omnibal::emulation::enqueue(stream, grid, block, bytes, [=] { kernel(__VA_ARGS__); })
#else
#define OMNIBAL_ALLOW_SHARED(kernel, bytes)                                                        \
  (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
#define OMNIBAL_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...)                             \
  kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__)
#endif

namespace omnibal::rt::cuda {

/// A block's dynamic shared memory, aligned to 16 bytes.
__device__ __forceinline__ unsigned char *dynamicMemory() {
#ifdef OMNIBAL_CUDA_EMULATION
  return static_cast<unsigned char *>(::omnibal::emulation::dynamicShared());
#else
  extern __shared__ __align__(16) unsigned char memory[];
  return memory;
#endif
}

#ifndef OMNIBAL_CUDA_EMULATION
__device__ __forceinline__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

/// Loads four 8 x 8 matrices of bfloat16; lane l gives the address of row l % 8 of matrix l / 8. Of
/// each matrix, lane l gets row l / 4, columns l % 4 * 2, + 1; if transposed, it gets column l / 4
/// of those two rows.
template <bool transposed>
__device__ __forceinline__ void loadMatrices(uint32_t (&to)[4], const unsigned char *row) {
#ifdef OMNIBAL_CUDA_EMULATION
  ::omnibal::emulation::loadMatrices(to, row, transposed, __LINE__);
#else
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(row))
                 : "memory");
#endif
}

/// sums [16, 8] += a [16, 16] b [16, 8]
__device__ __forceinline__ void multiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
#ifdef OMNIBAL_CUDA_EMULATION
  const uint32_t b[2] = {b0, b1};
  ::omnibal::emulation::multiplyAdd(sums, a, b, __LINE__);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// 16 bytes from global to shared memory, or zeros; there after waitForCopies.
__device__ __forceinline__ void copyAsync(void *to, const void *from, bool inside) {
#ifdef OMNIBAL_CUDA_EMULATION
  ::omnibal::emulation::copyAsync(to, inside ? from : nullptr);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
#endif
}

/// The copies of this thread since the last call are a group.
__device__ __forceinline__ void closeCopies() {
#ifdef OMNIBAL_CUDA_EMULATION
  ::omnibal::emulation::closeCopies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// All groups of this thread but the `open` newest are there.
template <int open> __device__ __forceinline__ void waitForCopies() {
#ifdef OMNIBAL_CUDA_EMULATION
  ::omnibal::emulation::waitForCopies(open);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
#endif
}

/// Two values in bfloat16, `low` at the lower address.
__device__ __forceinline__ uint32_t packPair(float low, float high) {
#ifdef OMNIBAL_CUDA_EMULATION
  return __float2bfloat16_rn(low).bits | uint32_t(__float2bfloat16_rn(high).bits) << 16;
#else
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

/// 2^x to about 2 units in the last place; 0 for x = -inf.
__device__ __forceinline__ float quickExp2(float x) {
#ifdef OMNIBAL_CUDA_EMULATION
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_TENSORCORE_H
