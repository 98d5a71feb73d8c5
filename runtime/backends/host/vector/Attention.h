//===- Attention.h - Blocked attention of a segment's queries to keys of one head --------===//
//
// A task owns everything that it writes: in the forward a range of queries of some query heads that
// share a key head, in the backward all queries and keys of a segment for one key head. So no
// result depends on threads.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_ATTENTION_H
#define RUNTIME_BACKENDS_HOST_VECTOR_ATTENTION_H

#include "runtime/backends/host/vector/Isa.h"
#include <cstddef>
#include <cstdint>

namespace omnibal::rt {

/// The kinds are in the order of the attribute `mask`. With Listed, the keys of each query are
/// given.
enum class MaskKind { Full, Causal, Sliding, Prefix, Blocks, Chunked, Listed };

/// [tokens, heads, features] in memory.
struct Heads {
  float *data = nullptr;
  int64_t token = 0, head = 0, feature = 0; ///< strides
  float *at(int64_t t, int64_t h) const { return data + t * token + h * head; }
};

struct AttentionTask {
  Heads q, k, v, out;
  Heads lse;                       ///< features unused
  Heads dout, dq, dk, dv;          ///< backward only
  int64_t size = 0, valueSize = 0; ///< features of q and k, of v
  float scale = 1;
  MaskKind mask = MaskKind::Full;
  int64_t window = 0;
  const int32_t *types = nullptr; ///< of the first token; prefix mask only
  int64_t typeStride = 1;
  const float *sinks = nullptr; ///< forward: a logit of each query head beside its scores; or none
  int64_t sinkStride = 1;
  int64_t lastType = 0; ///< prefix mask: queries of types 0 to this see all of the prefix
  /// Blocks, chunked and listed masks: the keys that each token sees, of the first token, relative
  /// to the segment's first key; null with other masks.
  const int32_t *low = nullptr, *high = nullptr;
  float softcap = 0;                ///< scores s become softcap * tanh(s / softcap); 0: they stay
  int64_t begin = 0, end = 0;       ///< the segment's tokens
  int64_t keyBegin = 0, keyEnd = 0; ///< its keys: the same tokens but with listed masks
  int64_t queryBegin = 0, queryEnd = 0; ///< forward: the task's queries, within the segment
  int64_t keyHead = 0, firstHead = 0, heads = 0; ///< query heads [firstHead, firstHead + heads)
  float *scratch = nullptr;
};

struct AttentionForwardTable {
  /// Floats of scratch that a task needs.
  int64_t (*scratchFloats)(int64_t size, int64_t valueSize, int64_t heads, int64_t queries);
  void (*run)(const AttentionTask &);
};
OMNIBAL_DECLARE_VECTOR_TABLE(AttentionForwardTable, attentionForwardTable)

struct AttentionBackwardTable {
  int64_t (*scratchFloats)(int64_t size, int64_t valueSize);
  void (*run)(const AttentionTask &);
};
OMNIBAL_DECLARE_VECTOR_TABLE(AttentionBackwardTable, attentionBackwardTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_ATTENTION_H
