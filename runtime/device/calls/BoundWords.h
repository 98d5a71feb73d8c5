//===- BoundWords.h - Calls of a loss whose words are divided among parts ---------------------===//
//
// One reading of the contract (docs/kernels.md). A part has the logits of its own words. Of each
// row it states `result` [N, 3 or 4]; `statistics` [parts, N, 3 or 4] are those of all parts.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDWORDS_H
#define RUNTIME_DEVICE_CALLS_BOUNDWORDS_H

#include "runtime/device/calls/BoundLoss.h"

namespace omnibal::rt {

/// Which words a part has: those from `first` on, as many as its weight has rows, of `words`.
struct OwnWords {
  int64_t first = 0, words = 0;

  static OwnWords of(CallReader &call);
};

/// Operands of a call that computes logits of a part's words.
struct BoundPartLogits {
  explicit BoundPartLogits(CallReader &call);
  Status checkLogits(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int hidden, weight, targets, scratch, bias;
  float scale;
  OwnWords own;
};

struct BoundWordStatistics : BoundPartLogits {
  explicit BoundWordStatistics(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int result, prediction; ///< the latter is -1 where the call lacks it
  bool totals;
};

struct BoundJoinedCrossEntropy {
  explicit BoundJoinedCrossEntropy(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int statistics, targets, loss;
  int64_t words;
  LossTerms terms;
};

struct BoundJoinedPrediction {
  explicit BoundJoinedPrediction(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int statistics, predictions, targets, prediction;
};

struct BoundJoinedGradient : BoundPartLogits {
  explicit BoundJoinedGradient(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int statistics, rowWeights, dhidden, dweight, dbias; ///< but for the first -1 where absent
  LossTerms terms;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDWORDS_H
