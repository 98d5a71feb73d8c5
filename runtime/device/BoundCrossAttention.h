//===- BoundCrossAttention.h - Operands and attributes of attention to pictures --------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_BOUNDCROSSATTENTION_H
#define RUNTIME_DEVICE_BOUNDCROSSATTENTION_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"

namespace omnibal::rt {

/// Indices of the operands of `cross_attention` or `cross_attention_backward`, -1 for those that
/// the call lacks.
struct BoundCrossAttention {
  BoundCrossAttention(CallReader &call, bool backward);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int q, k, v, out, lse, dout = -1, dq = -1, dk = -1, dv = -1, begins, ends;
  float scale;
  int64_t rows;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_BOUNDCROSSATTENTION_H
