//===- BoundCrossAttention.h - Operands and attributes of attention to pictures --------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDCROSSATTENTION_H
#define RUNTIME_DEVICE_CALLS_BOUNDCROSSATTENTION_H

#include "runtime/device/calls/AttentionOperands.h"

namespace omnibal::rt {

/// Indices of the further operands of `cross_attention` or `cross_attention_backward`.
struct BoundCrossAttention : AttentionOperands {
  BoundCrossAttention(CallReader &call, bool backward);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int begins, ends;
  int64_t rows;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDCROSSATTENTION_H
