//===- Preference.h - The loss of pairs of answers, and its gradient --------------------------===//
//
// The segments between rising borders come in pairs, the chosen answer first; an empty one, or one
// alone, is no pair. A segment's log-probability is minus the sum of its losses. Results are dense,
// and 0 but at the first row of a pair.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_PREFERENCE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_PREFERENCE_H

#include <cstdint>
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct PreferenceShape {
  int64_t rows = 0, borders = 0;
  float beta = 0, smoothing = 0;
};

cudaError_t launchPreferenceLoss(const PreferenceShape &shape, const float *losses,
                                 const int32_t *borders, const float *reference, float *loss,
                                 float *chosen, float *rejected, float *preferred,
                                 cudaStream_t stream);

/// Of the rows' losses. `rowWeights`, null for ones: what the loss of a pair is multiplied by, at
/// its first row.
cudaError_t launchPreferenceGradient(const PreferenceShape &shape, const float *losses,
                                     const int32_t *borders, const float *reference,
                                     const float *rowWeights, float *dlosses, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_PREFERENCE_H
