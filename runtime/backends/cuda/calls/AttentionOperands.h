//===- AttentionOperands.h - What `attention` and `cross_attention` have in common -----------===//
#ifndef RUNTIME_BACKENDS_CUDA_CALLS_ATTENTIONOPERANDS_H
#define RUNTIME_BACKENDS_CUDA_CALLS_ATTENTIONOPERANDS_H

#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/Attention.h"

namespace omnibal::rt::cuda {

inline HeadStrides headsOf(const TensorView &v) {
  return {v.strides[0], v.strides[1], v.strides[2]};
}

/// Sizes, strides and addresses of the operands of AttentionSite or CrossAttentionSite.
template <typename Site>
void takeOperands(const Site &site, std::span<const TensorView> views, AttentionShape &s,
                  AttentionData &d) {
  const TensorView &q = views[site.q], &k = views[site.k], &v = views[site.v];
  s.tokens = q.shape[0];
  s.heads = q.shape[1];
  s.keyHeads = k.shape[1];
  s.size = q.shape[2];
  s.valueSize = v.shape[2];
  s.q = headsOf(q);
  s.k = headsOf(k);
  s.v = headsOf(v);
  s.out = headsOf(views[site.out]);
  s.lseToken = views[site.lse].strides[0];
  s.lseHead = views[site.lse].strides[1];
  s.scale = site.scale;
  s.type = elementOf(q.dtype);
  d.q = q.data;
  d.k = k.data;
  d.v = v.data;
  d.out = views[site.out].data;
  d.lse = static_cast<float *>(views[site.lse].data);
}

/// The same of the gradients' operands.
template <typename Site>
void takeGradients(const Site &site, std::span<const TensorView> views, AttentionShape &s,
                   AttentionData &d) {
  s.dout = headsOf(views[site.dout]);
  s.dq = headsOf(views[site.dq]);
  s.dk = headsOf(views[site.dk]);
  s.dv = headsOf(views[site.dv]);
  d.dout = views[site.dout].data;
  d.dq = views[site.dq].data;
  d.dk = views[site.dk].data;
  d.dv = views[site.dv].data;
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CALLS_ATTENTIONOPERANDS_H
