//===- AttentionOperands.h - What `attention` and `cross_attention` have in common -----------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_ATTENTIONOPERANDS_H
#define RUNTIME_BACKENDS_HOST_KERNELS_ATTENTIONOPERANDS_H

#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Attention.h"
#include "runtime/device/calls/AttentionOperands.h"

namespace omnibal::rt {

inline Heads headsOf(const TensorView &v) {
  return {dataOf<float>(v), v.strides[0], v.strides[1], v.rank > 2 ? v.strides[2] : 0};
}

/// Rows [begin, end) of [T, H, D] or [T, H].
inline void fillHeads(const TensorView &view, int64_t begin, int64_t end, float value) {
  const Heads heads = headsOf(view);
  const int64_t features = view.rank > 2 ? view.shape[2] : 1;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t h = 0; h < view.shape[1]; ++h)
      for (int64_t f = 0; f < features; ++f)
        heads.at(t, h)[f * heads.feature] = value;
}

/// Operands and sizes that all calls of attention have; the mask and the rows are the caller's.
inline AttentionTask taskOf(const AttentionOperands &call, std::span<const TensorView> views,
                            bool backward) {
  AttentionTask task;
  task.q = headsOf(views[call.q]);
  task.k = headsOf(views[call.k]);
  task.v = headsOf(views[call.v]);
  task.out = headsOf(views[call.out]);
  task.lse = headsOf(views[call.lse]);
  if (backward) {
    task.dout = headsOf(views[call.dout]);
    task.dq = headsOf(views[call.dq]);
    task.dk = headsOf(views[call.dk]);
    task.dv = headsOf(views[call.dv]);
  }
  task.size = views[call.q].shape[2];
  task.valueSize = views[call.v].shape[2];
  task.scale = call.scale;
  return task;
}

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_KERNELS_ATTENTIONOPERANDS_H
