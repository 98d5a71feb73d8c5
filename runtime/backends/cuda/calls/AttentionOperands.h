//===- AttentionOperands.h - What `attention` and `cross_attention` have in common -----------===//
#ifndef RUNTIME_BACKENDS_CUDA_CALLS_ATTENTIONOPERANDS_H
#define RUNTIME_BACKENDS_CUDA_CALLS_ATTENTIONOPERANDS_H

#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/attention/Attention.h"
#include "runtime/device/calls/AttentionOperands.h"

namespace omnibal::rt::cuda {

inline HeadStrides headsOf(const TensorView &v) {
  return {v.strides[0], v.strides[1], v.strides[2]};
}

/// Sizes, strides and addresses of the operands that all calls of attention have.
inline void takeOperands(const AttentionOperands &call, std::span<const TensorView> views,
                         AttentionShape &s, AttentionData &d) {
  const TensorView &q = views[call.q], &k = views[call.k], &v = views[call.v];
  s.tokens = q.shape[0];
  s.heads = q.shape[1];
  s.keyHeads = k.shape[1];
  s.size = q.shape[2];
  s.valueSize = v.shape[2];
  s.q = headsOf(q);
  s.k = headsOf(k);
  s.v = headsOf(v);
  s.out = headsOf(views[call.out]);
  s.lseToken = views[call.lse].strides[0];
  s.lseHead = views[call.lse].strides[1];
  s.scale = call.scale;
  s.type = elementOf(q.dtype);
  d.q = q.data;
  d.k = k.data;
  d.v = v.data;
  d.out = views[call.out].data;
  d.lse = static_cast<float *>(views[call.lse].data);
}

/// The same of the gradients' operands.
inline void takeGradients(const AttentionOperands &call, std::span<const TensorView> views,
                          AttentionShape &s, AttentionData &d) {
  s.dout = headsOf(views[call.dout]);
  s.dq = headsOf(views[call.dq]);
  s.dk = headsOf(views[call.dk]);
  s.dv = headsOf(views[call.dv]);
  d.dout = views[call.dout].data;
  d.dq = views[call.dq].data;
  d.dk = views[call.dk].data;
  d.dv = views[call.dv].data;
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CALLS_ATTENTIONOPERANDS_H
