//===- Ragged.cu - A thread an entry of the lines, then the rows behind the last sample -------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/attention/Ragged.h"
#include <cmath>

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;
constexpr int blocks = 64; // few rows are behind the last sample

__device__ __forceinline__ int64_t borderOf(const RaggedShape &s, const int32_t *borders,
                                            int64_t sample) {
  if (s.segmentRows > 0) {
    const int64_t border = sample * s.segmentRows;
    return border < s.tokens ? border : s.tokens;
  }
  if (s.borderCount == 0)
    return 0;
  const int64_t border = borders[sample < s.borderCount ? sample : s.borderCount - 1];
  return border < s.tokens ? border : s.tokens;
}

__global__ void __launch_bounds__(threads)
    writeRagged(RaggedShape s, int64_t line, const int32_t *borders, int32_t *lines) {
  const int64_t first = blockIdx.x * int64_t{threads} + threadIdx.x;
  const int64_t step = gridDim.x * int64_t{threads};
  for (int64_t i = first; i < s.pieces * line; i += step) {
    const int64_t piece = i / line, at = i % line;
    const int64_t sample = piece * s.samples + (at < s.samples ? at : s.samples);
    const int64_t border = borderOf(s, borders, sample);
    int32_t *to = lines + piece * (s.tensors + 1) * line + at;
    *to = at < s.samples ? static_cast<int32_t>(borderOf(s, borders, sample + 1) - border) : 0;
    for (int t = 0; t < s.tensors; ++t)
      to[(t + 1) * line] = static_cast<int32_t>(border * s.token[t]);
  }
  const int64_t end = s.segmentRows > 0 ? s.tokens : borderOf(s, borders, s.borderCount - 1);
  for (int c = 0; c < s.clearedCount; ++c) {
    const RaggedShape::Cleared &it = s.cleared[c];
    const int64_t row = it.heads * it.size;
    for (int64_t i = first; i < (s.tokens - end) * row; i += step) {
      const int64_t place = (end + i / row) * it.strides.token +
                            i % row / it.size * it.strides.head + i % it.size * it.strides.feature;
      if (it.lse)
        static_cast<float *>(it.data)[place] = -INFINITY;
      else
        static_cast<bf16 *>(it.data)[place] = fromFloat<bf16>(0.f);
    }
  }
}

} // namespace

cudaError_t launchRagged(const RaggedShape &shape, const int32_t *borders, int32_t *lines,
                         cudaStream_t stream) {
  if (shape.tensors > RaggedShape::mostTensors || shape.clearedCount > RaggedShape::mostCleared ||
      shape.samples <= 0 || shape.pieces <= 0)
    return cudaErrorInvalidValue;
  OMNIBAL_LAUNCH(writeRagged, dim3(blocks), dim3(threads), stream, shape, shape.line(), borders,
                 lines);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
