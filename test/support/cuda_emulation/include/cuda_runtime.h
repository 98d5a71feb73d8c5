//===- cuda_runtime.h - What device code uses of CUDA C++, emulated ---------------------------===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H
#define TEST_SUPPORT_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H

#include "test/support/cuda_emulation/include/cuda_runtime_api.h"
#include <cmath>

#define OMNIBAL_CUDA_EMULATION 1
#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// A block runs alone, on one system thread: what its threads share is a static variable.
#define __shared__ static

#define __syncthreads() (void)::omnibal::emulation::blockBarrier(0, __LINE__)
#define __syncthreads_or(value) (::omnibal::emulation::blockBarrier((value) != 0, __LINE__) > 0)
#define __syncwarp()                                                                               \
  (void)::omnibal::emulation::exchange(0xffffffffu, 0, ::omnibal::emulation::lane(), __LINE__)
#define __shfl_sync(mask, value, source)                                                           \
  ::omnibal::emulation::shuffle(mask, value, (source) & 31, __LINE__)
#define __shfl_xor_sync(mask, value, bits)                                                         \
  ::omnibal::emulation::shuffle(mask, value, ::omnibal::emulation::lane() ^ (bits), __LINE__)
#define __shfl_down_sync(mask, value, distance)                                                    \
  ::omnibal::emulation::shuffle(mask, value,                                                       \
                                ::omnibal::emulation::lane() + (distance) > 31                     \
                                    ? ::omnibal::emulation::lane()                                 \
                                    : ::omnibal::emulation::lane() + (distance),                   \
                                __LINE__)
#define __shfl_up_sync(mask, value, distance)                                                      \
  ::omnibal::emulation::shuffle(mask, value,                                                       \
                                ::omnibal::emulation::lane() < (distance)                          \
                                    ? ::omnibal::emulation::lane()                                 \
                                    : ::omnibal::emulation::lane() - (distance),                   \
                                __LINE__)

#endif // TEST_SUPPORT_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H
