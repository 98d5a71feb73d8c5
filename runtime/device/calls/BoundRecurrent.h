//===- BoundRecurrent.h - Operands and attributes of a call of the gated delta rule -----------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDRECURRENT_H
#define RUNTIME_DEVICE_CALLS_BOUNDRECURRENT_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"

namespace omnibal::rt {

/// Indices of the operands of `gated_delta` or `gated_delta_backward`, -1 for those that the call
/// lacks. What does not fit together is an error of `call`.
struct BoundGatedDelta {
  BoundGatedDelta(CallReader &call, bool backward);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int q, k, v, decay, beta, out = -1, borders;
  int dout = -1, dq = -1, dk = -1, dv = -1, ddecay = -1, dbeta = -1;
  float scale;
  int64_t segmentRows;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDRECURRENT_H
