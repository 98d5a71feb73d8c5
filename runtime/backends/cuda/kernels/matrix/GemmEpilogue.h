//===- GemmEpilogue.h - What follows a product: activations, places of batches ---------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMMEPILOGUE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMMEPILOGUE_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/matrix/Gemm.h"
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

/// Returns the derivative of the activation at x.
__device__ __forceinline__ float derivative(GemmActivation kind, float x) {
  switch (kind) {
  case GemmActivation::None:
    return 1.f;
  case GemmActivation::Gelu: // Phi(x) + x phi(x)
    return 0.5f * (1.f + erff(x * 0.707106781f)) + x * expf(x * x * -0.5f) * 0.398942280f;
  case GemmActivation::GeluTanh: { // x s(2u), s the logistic function
    const float s = 1.f / (1.f + expf(-2.f * 0.797884561f * (x + x * x * x * 0.044715f)));
    return s + x * s * (1.f - s) * (1.595769122f + x * x * 0.214064448f);
  }
  case GemmActivation::Silu: {
    const float s = 1.f / (1.f + expf(-x));
    return s + x * s * (1.f - s);
  }
  case GemmActivation::QuickGelu: {
    const float s = 1.f / (1.f + expf(-1.702f * x));
    return s + 1.702f * x * s * (1.f - s);
  }
  case GemmActivation::Relu:
    return x > 0.f ? 1.f : 0.f;
  }
  return 1.f;
}

/// Returns where batch `index` of an operand begins.
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
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMMEPILOGUE_H
