//===- Copy.h - Strided copies, conversions, sums in place, and fills -------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_COPY_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_COPY_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct CopyShape {
  StridedPair strides; ///< no two elements of `to` share a place
  Element to = Element::F32, from = Element::F32;
  bool accumulate = false; ///< to += from
};

/// Copies between equal types, or between float32 and bfloat16 in either direction (rounded to
/// nearest even). bool does not accumulate. Anything else is cudaErrorInvalidValue. bfloat16 is
/// added in float32.
cudaError_t launchCopy(const CopyShape &shape, void *to, const void *from, cudaStream_t stream);

struct FillShape {
  StridedPair strides; ///< `from` unused
  Element type = Element::F32;
  double value = 0;
};

cudaError_t launchFill(const FillShape &shape, void *to, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_COPY_H
