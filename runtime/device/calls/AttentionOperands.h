//===- AttentionOperands.h - What all calls of attention have in common ----------------------===//
#ifndef RUNTIME_DEVICE_CALLS_ATTENTIONOPERANDS_H
#define RUNTIME_DEVICE_CALLS_ATTENTIONOPERANDS_H

#include "runtime/device/CallReader.h"
#include "runtime/device/CheckedKernel.h"

namespace omnibal::rt {

/// Indices of the operands of attention and its gradient; those of gradients are -1 where the call
/// has none.
struct AttentionOperands {
  AttentionOperands(CallReader &call, bool backward);

  int q, k, v, out, lse, dout = -1, dq = -1, dk = -1, dv = -1;
  float scale;

protected:
  /// Checks types and that shapes fit together: q [T, H, D], k [S, K, D], v [S, K, E],
  /// out [T, H, E], lse [T, H], where K divides H, and gradients as what they belong to. With
  /// `toItself` S is T.
  Status checkShapes(const CheckedKernel &kernel, std::span<const TensorView> views,
                     bool toItself) const;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLS_ATTENTIONOPERANDS_H
