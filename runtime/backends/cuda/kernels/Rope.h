//===- Rope.h - Rotary position embedding and its gradient -----------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ROPE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ROPE_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct RopeShape {
  int64_t tokens = 0, heads = 0, size = 0;
  int64_t turned = 0; ///< the first features of a head, even; the rest is copied
  HeadStrides x, out;
  int64_t cosineRow = 0, sineRow = 0; ///< strides of the tables' rows, which are dense
  Element type = Element::F32;        ///< of x and out: F32 or BF16; tables are F32
  bool interleaved = false, inverse = false;
};

/// out = x * cos + rotate_half(x) * sin by the tables' rows positions[t]; out may be x.
cudaError_t launchRope(const RopeShape &shape, const void *x, const int32_t *positions,
                       const float *cosine, const float *sine, void *out, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ROPE_H
