//===- Attention.h - softmax(scale q k^T + mask) v over packed samples, and its gradients ----===//
//
// The kernels take any head size, grouped queries and any feature strides; no T x T matrix exists.
// Storage is float32 or bfloat16, and all arithmetic is float32. A block owns what it writes and
// walks what it reads in order, so the same input gives the same bits. Docs: docs/kernels.md,
// `attention`.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTION_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTION_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// The kinds are in the order of the attribute `mask`. With Listed, the keys of each query are
/// given.
enum class AttentionMask { Full, Causal, Sliding, Prefix, Blocks, Chunked, Listed };

struct AttentionShape {
  int64_t tokens = 0, heads = 0, keyHeads = 0;
  int64_t size = 0, valueSize = 0; ///< features of q and k, of v and out
  HeadStrides q, k, v, out;
  HeadStrides dout, dq, dk, dv;      ///< backward only
  int64_t lseToken = 0, lseHead = 1; ///< strides of lse
  float scale = 1;
  AttentionMask mask = AttentionMask::Full;
  float softcap = 0;  ///< scores s become softcap * tanh(s / softcap); 0: they stay
  int64_t window = 0; ///< Sliding; Blocks, Prefix if > 0: query - key < window; Chunked: its tokens
  /// Blocks: of these types are a block's tokens. Prefix: queries of types 0 to `lastType` see it.
  int64_t firstType = 0, lastType = 0x7fffffff;
  int64_t keys = 0, keyRows = 0; ///< Listed: rows of k and v; of one entry of `begins` and `ends`
  int64_t segmentRows = 0;       ///< > 0: equal segments; 0: `borders` tells them
  int64_t borderCount = 0;       ///< entries of `borders`
  int64_t sinkHead = 1;          ///< stride of `sinks`
  Element type = Element::F32;
};

/// Device memory. A row outside all borders sees nothing: out 0, lse -inf, gradients 0.
struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *out = nullptr;
  float *lse = nullptr;             ///< log-sum-exp of the scaled masked scores
  const int32_t *borders = nullptr; ///< dense cu_seqlens, or null with segmentRows
  const int32_t *types = nullptr;   ///< dense; Prefix, Blocks only
  const float *sinks = nullptr;     ///< forward: a logit of each head beside its scores; or null
  /// Listed: query i sees the keys from begins[i] * keyRows to ends[i] * keyRows - 1; dense.
  const int32_t *begins = nullptr, *ends = nullptr;
  const void *dout = nullptr; ///< from here on backward only
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void *workspace = nullptr; ///< attentionWorkspaceBytes, aligned to 16 bytes
};

/// Writes out and lse.
cudaError_t launchAttention(const AttentionShape &shape, const AttentionData &data,
                            cudaStream_t stream);

inline int64_t attentionWorkspaceBytes(const AttentionShape &shape) {
  return shape.tokens * (8 + 4 * shape.heads);
}

/// Writes dq, dk and dv from q, k, v, out, lse and dout.
cudaError_t launchAttentionBackward(const AttentionShape &shape, const AttentionData &data,
                                    cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ATTENTION_ATTENTION_H
