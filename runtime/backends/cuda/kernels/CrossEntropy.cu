//===- CrossEntropy.cu - A block a row: one pass for the statistics, one for the gradient -----===//
#include "runtime/backends/cuda/kernels/LogitRows.h"

namespace omnibal::rt::cuda {
namespace {

template <int n, typename T, typename G>
__global__ void __launch_bounds__(rowThreads, 2)
    crossEntropy(CrossEntropyShape s, const T *logits, const int32_t *targets,
                 const int32_t *tokens, float *loss, G *gradient, int32_t *prediction) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t token = tokens ? tokens[r] : r;
    const int32_t target = targets[token];
    const T *row = logits + r * s.logitsRow;
    G *slopes = gradient ? gradient + r * s.gradientRow : nullptr;
    if (target < 0) {
      if (slopes)
        zeroRow<n>(slopes, s.width);
      if (threadIdx.x == 0) {
        loss[token] = 0;
        if (prediction)
          prediction[token] = -1;
      }
      continue;
    }
    const float at = toFloat(row[target]); // before the gradient overwrites it
    const CrossEntropyRow all = statistics<n>(row, s.width, 0);
    const float total = s.smoothing > 0 ? rowTotal<n>(row, s.width) : 0.f;
    const float norm = all.top + logf(all.sum), width = static_cast<float>(s.width);
    if (slopes) {
      const float weight = s.rowWeights ? s.rowWeights[token] : 1.f;
      writeGradient<n>(row, slopes, s.width, all, target,
                       {weight * (1 + 2 * s.z * norm), weight * (s.smoothing / width),
                        weight * (1 - s.smoothing)});
    }
    if (threadIdx.x == 0) {
      float value = all.top - at + logf(all.sum);
      if (s.smoothing > 0)
        value += s.smoothing * (at - total / width);
      if (s.z > 0)
        value += s.z * norm * norm;
      loss[token] = value;
      if (prediction)
        prediction[token] = all.largest;
    }
  }
}

template <int n, typename T>
__global__ void __launch_bounds__(rowThreads)
    chunk(CrossEntropyShape s, const T *logits, const int32_t *targets, const int32_t *tokens,
          CrossEntropyRow *state) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t target = targets[tokens ? tokens[r] : r];
    if (target < 0)
      continue;
    const T *row = logits + r * s.logitsRow;
    const CrossEntropyRow here = statistics<n>(row, s.width, s.firstClass);
    if (threadIdx.x != 0)
      continue;
    CrossEntropyRow all = s.firstClass == 0 ? emptyRow() : state[r];
    merge(all, here.top, here.sum, here.largest);
    if (target >= s.firstClass && target < s.firstClass + s.width)
      all.target = toFloat(row[target - s.firstClass]);
    state[r] = all;
  }
}

__global__ void __launch_bounds__(rowThreads)
    finishLoss(int64_t rows, const CrossEntropyRow *state, const int32_t *targets,
               const int32_t *tokens, float *loss, int32_t *prediction) {
  const int64_t r = int64_t(blockIdx.x) * rowThreads + threadIdx.x;
  if (r >= rows)
    return;
  const int64_t token = tokens ? tokens[r] : r;
  const bool labeled = targets[token] >= 0;
  loss[token] = labeled ? state[r].top - state[r].target + logf(state[r].sum) : 0.f;
  if (prediction)
    prediction[token] = labeled ? state[r].largest : -1;
}

template <int n, typename T, typename G>
__global__ void __launch_bounds__(rowThreads)
    chunkGradient(CrossEntropyShape s, const T *logits, const int32_t *targets,
                  const int32_t *tokens, const CrossEntropyRow *state, G *gradient) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t target = targets[tokens ? tokens[r] : r];
    G *slopes = gradient + r * s.gradientRow;
    if (target < 0)
      zeroRow<n>(slopes, s.width);
    else
      writeGradient<n>(logits + r * s.logitsRow, slopes, s.width, state[r], target - s.firstClass);
  }
}

/// A chunk knows neither the mean of its row nor, before the last one, the row's sum.
bool hasTerms(const CrossEntropyShape &s) { return s.smoothing != 0 || s.z != 0 || s.rowWeights; }

} // namespace

cudaError_t launchCrossEntropy(const CrossEntropyShape &s, const void *logits,
                               const int32_t *targets, const int32_t *tokens, float *loss,
                               void *gradient, int32_t *prediction, cudaStream_t stream) {
  return choose(s, logits, gradient, [&](auto *x, auto *g, auto packs) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
    using G = std::remove_pointer_t<decltype(g)>;
    constexpr int n = decltype(packs)::value;
    OMNIBAL_LAUNCH((crossEntropy<n, T, G>), dim3(gridFor(s.rows)), dim3(rowThreads), stream, s, x,
                   targets, tokens, loss, g, prediction);
  });
}

cudaError_t launchCrossEntropyChunk(const CrossEntropyShape &s, const void *logits,
                                    const int32_t *targets, const int32_t *tokens,
                                    CrossEntropyRow *state, cudaStream_t stream) {
  if (hasTerms(s))
    return cudaErrorInvalidValue;
  return choose(s, logits, nullptr, [&](auto *x, auto *, auto packs) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
    constexpr int n = decltype(packs)::value;
    OMNIBAL_LAUNCH((chunk<n, T>), dim3(gridFor(s.rows)), dim3(rowThreads), stream, s, x, targets,
                   tokens, state);
  });
}

cudaError_t launchCrossEntropyLoss(int64_t rows, const CrossEntropyRow *state,
                                   const int32_t *targets, const int32_t *tokens, float *loss,
                                   int32_t *prediction, cudaStream_t stream) {
  if (rows == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(finishLoss, dim3(static_cast<unsigned>(ceilDiv(rows, rowThreads))),
                 dim3(rowThreads), stream, rows, state, targets, tokens, loss, prediction);
  return cudaGetLastError();
}

cudaError_t launchCrossEntropyGradient(const CrossEntropyShape &s, const void *logits,
                                       const int32_t *targets, const int32_t *tokens,
                                       const CrossEntropyRow *state, void *gradient,
                                       cudaStream_t stream) {
  if (hasTerms(s))
    return cudaErrorInvalidValue;
  return choose(s, logits, gradient, [&](auto *x, auto *g, auto packs) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
    using G = std::remove_pointer_t<decltype(g)>;
    constexpr int n = decltype(packs)::value;
    OMNIBAL_LAUNCH((chunkGradient<n, T, G>), dim3(gridFor(s.rows)), dim3(rowThreads), stream, s, x,
                   targets, tokens, state, g);
  });
}

} // namespace omnibal::rt::cuda
