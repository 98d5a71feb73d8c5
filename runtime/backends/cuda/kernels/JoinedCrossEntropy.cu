//===- JoinedCrossEntropy.cu - A block a row of a part's logits, a thread a row of numbers ----===//
#include "runtime/backends/cuda/kernels/JoinedCrossEntropy.h"
#include "runtime/backends/cuda/kernels/LogitRows.h"

namespace omnibal::rt::cuda {
namespace {

/// What all parts state of a row, together.
struct JoinedRow {
  float top = -INFINITY, sum = 0, at = 0, total = 0;

  __device__ float norm() const { return top + logf(sum); }
};

__device__ JoinedRow joinedRow(const JoinedRows &s, int64_t token) {
  JoinedRow row;
  const float *numbers = s.numbers + token * s.row;
  for (int64_t part = 0; part < s.parts; ++part)
    row.top = fmaxf(row.top, numbers[part * s.part]);
  for (int64_t part = 0; part < s.parts; ++part) {
    const float *own = numbers + part * s.part;
    row.sum += own[s.number] * expf(own[0] - row.top);
    row.at += own[2 * s.number];
    row.total += s.totals ? own[3 * s.number] : 0.f;
  }
  return row;
}

template <int n, typename T>
__global__ void __launch_bounds__(rowThreads)
    wordStatistics(CrossEntropyShape s, const T *logits, const int32_t *targets,
                   const int32_t *tokens, StatedRows stated, int32_t *prediction) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t token = tokens ? tokens[r] : r;
    const int64_t target = targets[token];
    const T *row = logits + r * s.logitsRow;
    CrossEntropyRow all = {0.f, 0.f, 0.f, 0};
    float total = 0;
    if (target >= 0) {
      all = statistics<n>(row, s.width, s.firstClass);
      total = stated.totals ? rowTotal<n>(row, s.width) : 0.f;
    }
    if (threadIdx.x != 0)
      continue;
    const bool isOwn = target >= s.firstClass && target < s.firstClass + s.width;
    float *numbers = stated.numbers + token * stated.row;
    numbers[0] = all.top;
    numbers[stated.number] = all.sum;
    numbers[2 * stated.number] = isOwn ? toFloat(row[target - s.firstClass]) : 0.f;
    if (stated.totals)
      numbers[3 * stated.number] = total;
    if (prediction)
      prediction[token] = s.width > 0 ? all.largest : 0;
  }
}

__global__ void __launch_bounds__(rowThreads)
    joinedCrossEntropy(int64_t tokens, JoinedRows joined, JoinedLoss terms, const int32_t *targets,
                       float *loss) {
  const int64_t token = int64_t(blockIdx.x) * rowThreads + threadIdx.x;
  if (token >= tokens)
    return;
  float value = 0;
  if (targets[token] >= 0) {
    const JoinedRow row = joinedRow(joined, token);
    value = row.top - row.at + logf(row.sum);
    if (terms.smoothing > 0)
      value += terms.smoothing * (row.at - row.total / static_cast<float>(terms.words));
    if (terms.z > 0)
      value += terms.z * row.norm() * row.norm();
  }
  loss[token] = value;
}

__global__ void __launch_bounds__(rowThreads)
    joinedPrediction(int64_t tokens, JoinedRows joined, const int32_t *predictions,
                     int64_t partStride, const int32_t *targets, int32_t *prediction) {
  const int64_t token = int64_t(blockIdx.x) * rowThreads + threadIdx.x;
  if (token >= tokens)
    return;
  int32_t word = -1;
  float top = -INFINITY;
  for (int64_t part = 0; part < joined.parts && targets[token] >= 0; ++part) {
    const float largest = joined.numbers[part * joined.part + token * joined.row];
    if (largest > top) {
      top = largest;
      word = predictions[part * partStride + token];
    }
  }
  prediction[token] = word;
}

template <int n, typename T, typename G>
__global__ void __launch_bounds__(rowThreads)
    joinedGradient(CrossEntropyShape s, JoinedRows joined, float words, const T *logits,
                   const int32_t *targets, const int32_t *tokens, G *gradient) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t token = tokens ? tokens[r] : r;
    const int64_t target = targets[token];
    G *slopes = gradient + r * s.gradientRow;
    if (target < 0) {
      zeroRow<n>(slopes, s.width);
      continue;
    }
    const JoinedRow row = joinedRow(joined, token);
    const float weight = s.rowWeights ? s.rowWeights[token] : 1.f;
    writeGradient<n>(logits + r * s.logitsRow, slopes, s.width, {row.top, row.sum, 0.f, 0},
                     target - s.firstClass,
                     {weight * (1 + 2 * s.z * row.norm()), weight * (s.smoothing / words),
                      weight * (1 - s.smoothing)});
  }
}

/// Calls run(grid) where there is anything to do.
template <typename Run> cudaError_t forTokens(int64_t tokens, Run run) {
  if (tokens == 0)
    return cudaSuccess;
  run(dim3(static_cast<unsigned>(ceilDiv(tokens, rowThreads))));
  return cudaGetLastError();
}

} // namespace

cudaError_t launchWordStatistics(const CrossEntropyShape &s, const void *logits,
                                 const int32_t *targets, const int32_t *tokens,
                                 const StatedRows &stated, int32_t *prediction,
                                 cudaStream_t stream) {
  return choose(s, logits, nullptr, [&](auto *x, auto *, auto packs) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
    constexpr int n = decltype(packs)::value;
    OMNIBAL_LAUNCH((wordStatistics<n, T>), dim3(gridFor(s.rows)), dim3(rowThreads), stream, s, x,
                   targets, tokens, stated, prediction);
  });
}

cudaError_t launchJoinedCrossEntropy(int64_t tokens, const JoinedRows &joined,
                                     const JoinedLoss &terms, const int32_t *targets, float *loss,
                                     cudaStream_t stream) {
  return forTokens(tokens, [&](dim3 grid) {
    OMNIBAL_LAUNCH(joinedCrossEntropy, grid, dim3(rowThreads), stream, tokens, joined, terms,
                   targets, loss);
  });
}

cudaError_t launchJoinedPrediction(int64_t tokens, const JoinedRows &joined,
                                   const int32_t *predictions, int64_t partStride,
                                   const int32_t *targets, int32_t *prediction,
                                   cudaStream_t stream) {
  return forTokens(tokens, [&](dim3 grid) {
    OMNIBAL_LAUNCH(joinedPrediction, grid, dim3(rowThreads), stream, tokens, joined, predictions,
                   partStride, targets, prediction);
  });
}

cudaError_t launchJoinedGradient(const CrossEntropyShape &s, const JoinedRows &joined,
                                 int64_t words, const void *logits, const int32_t *targets,
                                 const int32_t *tokens, void *gradient, cudaStream_t stream) {
  return choose(s, logits, gradient, [&](auto *x, auto *g, auto packs) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
    using G = std::remove_pointer_t<decltype(g)>;
    constexpr int n = decltype(packs)::value;
    OMNIBAL_LAUNCH((joinedGradient<n, T, G>), dim3(gridFor(s.rows)), dim3(rowThreads), stream, s,
                   joined, static_cast<float>(words), x, targets, tokens, g);
  });
}

} // namespace omnibal::rt::cuda
