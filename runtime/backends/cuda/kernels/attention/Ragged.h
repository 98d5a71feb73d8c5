//===- Ragged.h - Where packed samples lie, for a library of fused attention ------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_RAGGED_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_RAGGED_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// Samples are cut into pieces of equally many. A piece has a line of lengths and, for each of
/// `tensors`, a line of offsets: the first row's place in elements. Beyond the last sample lengths
/// are 0 and offsets those of the end.
struct RaggedShape {
  static constexpr int mostTensors = 9, mostCleared = 3;
  int64_t tokens = 0;
  int64_t segmentRows = 0, borderCount = 0; ///< as in AttentionShape
  int64_t pieces = 0, samples = 0;          ///< samples of a piece
  int tensors = 0;
  int64_t token[mostTensors] = {}; ///< strides

  /// Tensors whose rows behind the last sample are overwritten.
  struct Cleared {
    void *data = nullptr;
    int64_t heads = 0, size = 0;
    HeadStrides strides;
    bool lse = false; ///< float32, with -inf; otherwise bfloat16, with 0
  } cleared[mostCleared];
  int clearedCount = 0;

  /// Values of a line: 256 bytes and multiples of it.
  int64_t line() const { return (samples + 1 + 63) / 64 * 64; }
  int64_t bytes() const { return pieces * (tensors + 1) * line() * 4; }
};

/// Writes all lines, [pieces][1 + tensors][line()], lengths first, and clears.
cudaError_t launchRagged(const RaggedShape &shape, const int32_t *borders, int32_t *lines,
                         cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_RAGGED_H
