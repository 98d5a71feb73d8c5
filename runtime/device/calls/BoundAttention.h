//===- BoundAttention.h - Operands and attributes of an attention call -----------------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDATTENTION_H
#define RUNTIME_DEVICE_CALLS_BOUNDATTENTION_H

#include "runtime/device/calls/AttentionOperands.h"

namespace omnibal::rt {

/// Indices of the further operands of `attention` or `attention_backward`, -1 for those that the
/// call lacks. `maskIndex` counts full, causal, sliding, prefix, blocks, chunked. Operands and
/// attributes that do not fit together are an error of `call`.
struct BoundAttention : AttentionOperands {
  BoundAttention(CallReader &call, bool backward);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int borders, types, sinks = -1;
  float softcap;
  int maskIndex;
  int64_t window, segmentRows, firstType, lastType;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDATTENTION_H
