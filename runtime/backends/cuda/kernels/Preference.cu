//===- Preference.cu - A block a pair; sums in double ----------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Preference.h"
#include <cmath>

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 128;

struct Results {
  float *loss, *chosen, *rejected, *preferred;
};

__global__ void __launch_bounds__(threads) zeroRows(int64_t rows, Results results) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= rows)
    return;
  results.loss[i] = 0;
  if (results.chosen)
    results.chosen[i] = results.rejected[i] = results.preferred[i] = 0;
}

/// -log sigmoid(x)
__device__ double lossOf(double x) { return log1p(exp(-fabs(x))) + fmax(-x, 0.0); }

/// Returns the reward of the rows [begin, end), the same in every thread of the block.
__device__ double rewardOf(const PreferenceShape &s, const float *losses, const float *reference,
                           int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t t = begin + threadIdx.x; t < end; t += threads)
    sum += static_cast<double>(losses[t]);
  sum = blockSum<threads>(sum);
  return s.beta * (-sum - static_cast<double>(reference[begin]));
}

/// With `dlosses` the gradient, else the results.
__global__ void __launch_bounds__(threads)
    preference(PreferenceShape s, const float *losses, const int32_t *borders,
               const float *reference, Results results, const float *rowWeights, float *dlosses) {
  for (int64_t i = 2 * int64_t(blockIdx.x); i + 2 < s.borders; i += 2 * int64_t(gridDim.x)) {
    const int64_t begin = borders[i], middle = borders[i + 1], end = borders[i + 2];
    if (begin >= middle || middle >= end)
      continue;
    const double better = rewardOf(s, losses, reference, begin, middle);
    const double worse = rewardOf(s, losses, reference, middle, end);
    const double margin = better - worse, smoothing = s.smoothing;
    if (dlosses) {
      const double slope = (1 - smoothing) / (1 + exp(margin)) - smoothing / (1 + exp(-margin));
      const double weight = rowWeights ? static_cast<double>(rowWeights[begin]) : 1;
      const auto each = static_cast<float>(s.beta * slope * weight);
      for (int64_t t = begin + threadIdx.x; t < end; t += threads)
        dlosses[t] = t < middle ? each : -each;
    } else if (threadIdx.x == 0) {
      results.loss[begin] =
          static_cast<float>((1 - smoothing) * lossOf(margin) + smoothing * lossOf(-margin));
      results.chosen[begin] = static_cast<float>(better);
      results.rejected[begin] = static_cast<float>(worse);
      results.preferred[begin] = better > worse ? 1.f : 0.f;
    }
  }
}

cudaError_t launch(const PreferenceShape &s, const float *losses, const int32_t *borders,
                   const float *reference, const Results &results, const float *rowWeights,
                   float *dlosses, cudaStream_t stream) {
  if (s.rows == 0)
    return cudaSuccess;
  const Results zeros = dlosses ? Results{dlosses, nullptr, nullptr, nullptr} : results;
  OMNIBAL_LAUNCH(zeroRows, dim3(static_cast<unsigned>(ceilDiv(s.rows, threads))), dim3(threads),
                 stream, s.rows, zeros);
  const int64_t pairs = (s.borders - 1) / 2;
  if (pairs > 0)
    OMNIBAL_LAUNCH(preference, dim3(gridFor(pairs)), dim3(threads), stream, s, losses, borders,
                   reference, results, rowWeights, dlosses);
  return cudaGetLastError();
}

} // namespace

cudaError_t launchPreferenceLoss(const PreferenceShape &s, const float *losses,
                                 const int32_t *borders, const float *reference, float *loss,
                                 float *chosen, float *rejected, float *preferred,
                                 cudaStream_t stream) {
  return launch(s, losses, borders, reference, {loss, chosen, rejected, preferred}, nullptr, nullptr,
                stream);
}

cudaError_t launchPreferenceGradient(const PreferenceShape &s, const float *losses,
                                     const int32_t *borders, const float *reference,
                                     const float *rowWeights, float *dlosses, cudaStream_t stream) {
  return launch(s, losses, borders, reference, {}, rowWeights, dlosses, stream);
}

} // namespace omnibal::rt::cuda
