//===- Reduce.h - Sums and extremes along any dimensions --------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_REDUCE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_REDUCE_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

enum class ReduceKind { Sum, Mean, Max, Min, Prod };

/// `to` has stride 0 in the reduced dimensions. The types are equal, or bfloat16 is reduced into
/// float32; bfloat16 is reduced in float32. Over no terms the result is the neutral element (0 for
/// the mean), and nothing is added if accumulating.
struct ReduceShape {
  StridedPair strides;
  Element to = Element::F32, from = Element::F32;
  ReduceKind kind = ReduceKind::Sum;
  bool accumulate = false;
};

/// The order of a sum depends on the shape only.
cudaError_t launchReduce(const ReduceShape &shape, void *to, const void *from, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_REDUCE_H
