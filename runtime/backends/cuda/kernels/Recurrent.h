//===- Recurrent.h - Linear attention by the gated delta rule, and its gradients -------------===//
//
// The kernels go token by token, over packed samples or equal segments. Storage is float32 or
// bfloat16, and all arithmetic and all sums are float32. A block owns what it writes and adds in
// order, so the same input gives the same bits. Docs: docs/kernels.md, `gated_delta`.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_RECURRENT_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_RECURRENT_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct GatedDeltaShape {
  int64_t tokens = 0, heads = 0;
  int64_t size = 0, valueSize = 0; ///< features of q and k, of v and out; side by side
  HeadStrides q, k, v, out;
  HeadStrides dout, dq, dk, dv;           ///< backward only
  HeadStrides decay, beta, ddecay, dbeta; ///< without features
  float scale = 1;
  int64_t segmentRows = 0; ///< > 0: equal segments; 0: `borders` tells them
  int64_t borderCount = 0; ///< entries of `borders`
  Element type = Element::F32;
};

/// Device memory. Rows outside all borders become 0.
struct GatedDeltaData {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *decay = nullptr, *beta = nullptr;
  void *out = nullptr;
  const int32_t *borders = nullptr; ///< dense cu_seqlens, or null with segmentRows
  const void *dout = nullptr;       ///< from here on backward only
  void *dq = nullptr, *dk = nullptr, *dv = nullptr, *ddecay = nullptr, *dbeta = nullptr;
  void *workspace = nullptr; ///< gatedDeltaWorkspaceBytes, aligned to 16 bytes
};

cudaError_t launchGatedDelta(const GatedDeltaShape &shape, const GatedDeltaData &data,
                             cudaStream_t stream);

/// A state of 8 columns every 64 tokens, and sums of what has no columns.
inline int64_t gatedDeltaWorkspaceBytes(const GatedDeltaShape &shape) {
  return 4 * shape.tokens * shape.heads * ((shape.size + 7) / 8 + 2 * shape.size + 2);
}

cudaError_t launchGatedDeltaBackward(const GatedDeltaShape &shape, const GatedDeltaData &data,
                                     cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_RECURRENT_H
