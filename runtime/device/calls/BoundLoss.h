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

/// Indices of the operands of `cross_entropy`, -1 for those that the call lacks.
struct BoundCrossEntropy {
  explicit BoundCrossEntropy(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int logits, targets, loss, dlogits, prediction;
};

/// Indices of the operands of `linear_cross_entropy`, -1 for those that the call lacks.
struct BoundLinearCrossEntropy {
  explicit BoundLinearCrossEntropy(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;
  bool gradients() const { return dhidden >= 0 || dweight >= 0 || dbias >= 0; }

  int hidden, weight, targets, loss, scratch, bias, dhidden, dweight, dbias, prediction;
  float scale;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDLOSS_H
