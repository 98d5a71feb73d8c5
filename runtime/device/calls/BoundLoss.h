//===- BoundLoss.h - Operands and attributes of the calls that compute losses -----------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDLOSS_H
#define RUNTIME_DEVICE_CALLS_BOUNDLOSS_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"

namespace omnibal::rt {

/// What is added to the cross entropy of a row x with target t and L = log sum exp(x): the loss is
/// L - (1 - smoothing) x[t] - smoothing mean(x) + z L^2.
struct LossTerms {
  float smoothing = 0, z = 0;

  static LossTerms of(CallReader &call);
};

/// A number of each word of a `weight`, for logits of `hidden`; `isWide`: it may be in float32
/// whatever hidden is.
Status checkOfWords(const CheckedKernel &kernel, const TensorView &view, const char *name,
                    const TensorView &hidden, const TensorView &weight, bool isWide);
/// A gradient of `like`, which may be in float32 whatever hidden is.
Status checkGradient(const CheckedKernel &kernel, const TensorView &view, const char *name,
                     const TensorView &hidden, const TensorView &like, const char *likeName);

/// Indices of the operands of `cross_entropy`, -1 for those that the call lacks.
struct BoundCrossEntropy {
  explicit BoundCrossEntropy(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int logits, targets, loss, dlogits, prediction;
  LossTerms terms;
};

/// Indices of the operands of `linear_cross_entropy`, -1 for those that the call lacks.
struct BoundLinearCrossEntropy {
  explicit BoundLinearCrossEntropy(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;
  bool gradients() const { return dhidden >= 0 || dweight >= 0 || dbias >= 0; }

  int hidden, weight, targets, loss, scratch, bias, dhidden, dweight, dbias, prediction, rowWeights;
  float scale;
  LossTerms terms;
};

/// Indices of the operands of `preference_loss` and `preference_loss_backward`.
struct BoundPreferenceLoss {
  BoundPreferenceLoss(CallReader &call, bool backward);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int losses, borders, reference, rowWeights; ///< read; the last is -1 where the call lacks it
  int loss = -1, chosen = -1, rejected = -1, preferred = -1; ///< forward
  int dlosses = -1;                                          ///< backward
  float beta, smoothing;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDLOSS_H
