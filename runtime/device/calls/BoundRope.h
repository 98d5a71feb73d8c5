//===- BoundRope.h - Operands and attributes of a `rope` call ---------------------------------===//
//
// One reading of the contract (docs/kernels.md) for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_CALLS_BOUNDROPE_H
#define RUNTIME_DEVICE_CALLS_BOUNDROPE_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"

namespace omnibal::rt {

/// Indices of the call's operands.
struct BoundRope {
  explicit BoundRope(CallReader &call);
  Status checkOperands(const CheckedKernel &kernel, std::span<const TensorView> views) const;

  int x, positions, cosine, sine, out;
  bool interleaved, inverse;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_BOUNDROPE_H
