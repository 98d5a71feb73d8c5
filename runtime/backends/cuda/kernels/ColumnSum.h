//===- ColumnSum.h - Sums over many rows: gradients of biases and of norms' factors -----------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_COLUMNSUM_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_COLUMNSUM_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// to[c] = or += the sum of from[r][c] over r, in float32.
struct ColumnSumShape {
  int64_t rows = 0, cols = 0;
  int64_t fromRow = 0, toStep = 1; ///< strides; a row of `from` is dense
  Element from = Element::F32;     ///< F32 or BF16
  bool accumulate = false;
};

/// Float32 values of scratch memory that a launch may use, whatever its shape.
constexpr int64_t columnSumScratch = int64_t(1) << 18;

/// Returns whether it is worth two launches; otherwise launchReduce serves.
constexpr bool columnSumServes(const ColumnSumShape &s) {
  return s.rows >= 2048 && s.cols > 0 && s.cols <= columnSumScratch / 8;
}

/// Sums of a few rows each, in one launch: what the blocks of a kernel have left.
struct ColumnSums {
  static constexpr int most = 8;
  struct Part {
    ColumnSumShape shape; ///< `from` is F32
    const float *from;
    float *to;
  };
  Part parts[most];
  int count = 0;
};

/// The order of a sum depends on the shape only.
cudaError_t launchColumnSum(const ColumnSumShape &shape, float *to, const void *from,
                            float *scratch, cudaStream_t stream);
cudaError_t launchColumnSums(const ColumnSums &sums, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_COLUMNSUM_H
