//===- JoinedCrossEntropy.h - The loss of a head whose words are divided among parts ----------===//
//
// A part states a few numbers of each row of its logits. Those of all parts give the loss, and what
// a part needs to turn its logits into their gradients. Rows, tokens, `targets`, `loss` and
// `prediction` are as in CrossEntropy.h, and so are rows of a negative target.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_JOINEDCROSSENTROPY_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_JOINEDCROSSENTROPY_H

#include "runtime/backends/cuda/kernels/CrossEntropy.h"

namespace omnibal::rt::cuda {

/// Of a token: the largest logit, the sum of e^(logit - largest), the target's logit (0 if another
/// part has it) and, with `totals`, the sum of the logits.
struct StatedRows {
  float *numbers = nullptr;
  int64_t row = 0, number = 0; ///< strides
  bool totals = false;
};

/// The part has the words from shape.firstClass on. `prediction` (the word of the largest logit)
/// may be null. All numbers of a row of a negative target are 0.
cudaError_t launchWordStatistics(const CrossEntropyShape &shape, const void *logits,
                                 const int32_t *targets, const int32_t *tokens,
                                 const StatedRows &stated, int32_t *prediction,
                                 cudaStream_t stream);

/// What all parts have stated, part by part.
struct JoinedRows {
  const float *numbers = nullptr;
  int64_t part = 0, row = 0, number = 0; ///< strides
  int64_t parts = 0;
  bool totals = false;
};

/// Of the whole head.
struct JoinedLoss {
  int64_t words = 0;
  float smoothing = 0, z = 0; ///< as in CrossEntropyShape
};

cudaError_t launchJoinedCrossEntropy(int64_t tokens, const JoinedRows &joined,
                                     const JoinedLoss &terms, const int32_t *targets, float *loss,
                                     cudaStream_t stream);

/// `predictions` are [parts, tokens]. Of equal logits the word is that of the first part.
cudaError_t launchJoinedPrediction(int64_t tokens, const JoinedRows &joined,
                                   const int32_t *predictions, int64_t partStride,
                                   const int32_t *targets, int32_t *prediction,
                                   cudaStream_t stream);

/// The gradient of a part's logits, with the terms of `shape`; may be in place.
cudaError_t launchJoinedGradient(const CrossEntropyShape &shape, const JoinedRows &joined,
                                 int64_t words, const void *logits, const int32_t *targets,
                                 const int32_t *tokens, void *gradient, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_JOINEDCROSSENTROPY_H
