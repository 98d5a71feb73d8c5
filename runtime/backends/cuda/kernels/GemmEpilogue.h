//===- GemmEpilogue.h - What follows a product: activations, places of batches ---------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_GEMMEPILOGUE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_GEMMEPILOGUE_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Gemm.h"
#include <cmath>

namespace omnibal::rt::cuda {

__device__ __forceinline__ float activate(GemmActivation kind, float x) {
  switch (kind) {
  case GemmActivation::None:
    return x;
  case GemmActivation::Gelu:
    return x * 0.5f * (1.f + erff(x * 0.707106781f));
  case GemmActivation::GeluTanh: // 1 + tanh(u) = 2 / (1 + e^-2u)
    return x / (1.f + expf(-2.f * 0.797884561f * (x + x * x * x * 0.044715f)));
  case GemmActivation::Silu:
    return x / (1.f + expf(-x));
  case GemmActivation::QuickGelu:
    return x / (1.f + expf(-1.702f * x));
  case GemmActivation::Relu:
    return x > 0.f ? x : (x == x ? 0.f : x);
  }
  return x;
}

/// Where batch `index` of an operand begins.
__device__ __forceinline__ int64_t offsetOf(const GemmShape &s, const GemmShape::Operand &operand,
                                            int64_t index) {
  int64_t offset = 0;
  for (int d = s.batchRank - 1; d >= 0; --d) {
    offset += index % s.batch[d] * operand.batch[d];
    index /= s.batch[d];
  }
  return offset;
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_GEMMEPILOGUE_H
