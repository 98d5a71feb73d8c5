//===- CrossEntropy.h - Loss and gradient of rows of logits, probabilities never stored ------===//
//
// Row r of the logits belongs to token r, or to tokens[r] where `tokens` is given (rows of tokens
// with a label only, gathered). `targets`, `loss` and `prediction` are dense and numbered by token.
// A negative target: loss 0, prediction -1, gradient 0. Gradients are of the sum of the losses.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_CROSSENTROPY_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_CROSSENTROPY_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct CrossEntropyShape {
  int64_t rows = 0, width = 0;            ///< classes in these logits
  int64_t logitsRow = 0, gradientRow = 0; ///< strides; rows are dense
  Element type = Element::F32;            ///< F32 or BF16, of logits and gradient
  int64_t firstClass = 0;                 ///< of a chunk of the vocabulary
  bool narrowGradient = false;            ///< BF16 from logits in F32; not in place
  /// Whole rows only: with L = log sum exp(x), the loss is
  /// L - (1 - smoothing) x[target] - smoothing mean(x) + z L^2.
  float smoothing = 0, z = 0;
  /// Whole rows only, by token: what a row's gradient is multiplied by; null: 1.
  const float *rowWeights = nullptr;
};

/// All classes at once. `gradient` may be `logits`, or null; `prediction` (arg max, the lowest of
/// equals) and `tokens` may be null. Every target is below `width`.
cudaError_t launchCrossEntropy(const CrossEntropyShape &shape, const void *logits,
                               const int32_t *targets, const int32_t *tokens, float *loss,
                               void *gradient, int32_t *prediction, cudaStream_t stream);

/// What is known of a row after some chunks of the vocabulary.
struct CrossEntropyRow {
  float top, sum;  ///< the largest logit, and the sum of e^(logit - top)
  float target;    ///< the target's logit, once its chunk was seen
  int32_t largest; ///< the class of `top`
};

/// Adds a chunk to `state`; the chunk with firstClass 0 comes first and begins anew.
cudaError_t launchCrossEntropyChunk(const CrossEntropyShape &shape, const void *logits,
                                    const int32_t *targets, const int32_t *tokens,
                                    CrossEntropyRow *state, cudaStream_t stream);

/// Loss and prediction (may be null) after the last chunk.
cudaError_t launchCrossEntropyLoss(int64_t rows, const CrossEntropyRow *state,
                                   const int32_t *targets, const int32_t *tokens, float *loss,
                                   int32_t *prediction, cudaStream_t stream);

/// The gradient of a chunk from its logits (recomputed or kept); may be in place.
cudaError_t launchCrossEntropyGradient(const CrossEntropyShape &shape, const void *logits,
                                       const int32_t *targets, const int32_t *tokens,
                                       const CrossEntropyRow *state, void *gradient,
                                       cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_CROSSENTROPY_H
