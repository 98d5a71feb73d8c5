//===- AttentionMask.h - Which query sees which key, by blocks and by vectors ------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_ATTENTIONMASK_H
#define RUNTIME_BACKENDS_HOST_VECTOR_ATTENTIONMASK_H

#include "runtime/backends/host/vector/Attention.h"
#include "runtime/backends/host/vector/VectorMath.h"

namespace {
using omnibal::rt::AttentionTask;
using omnibal::rt::MaskKind;

enum class Visible { None, Some, All };

OMNIBAL_INLINE int32_t typeOf(const AttentionTask &t, int64_t token) {
  return t.types[token * t.typeStride];
}

/// Whether a key block holds a token that the prefix rule shows to all.
static bool hasPrefixKey(const AttentionTask &t, int64_t keyBegin, int64_t keyEnd) {
  if (t.mask != MaskKind::Prefix)
    return false;
  for (int64_t k = keyBegin; k < keyEnd; ++k)
    if (typeOf(t, k) == 0)
      return true;
  return false;
}

/// Queries [q0, q1) and keys [k0, k1), both not empty and of the same segment.
OMNIBAL_INLINE Visible visible(const AttentionTask &t, int64_t q0, int64_t q1, int64_t k0,
                               int64_t k1, bool prefixKeys) {
  if (t.mask == MaskKind::Full)
    return Visible::All;
  if (k0 > q1 - 1)
    return prefixKeys ? Visible::Some : Visible::None;
  bool all = k1 - 1 <= q0;
  if (t.mask == MaskKind::Sliding) {
    if (q0 - (k1 - 1) >= t.window)
      return Visible::None;
    all = all && q1 - 1 - k0 < t.window;
  }
  return all ? Visible::All : Visible::Some;
}

/// Whether in this block pairs need computing only where the key is not after the query.
OMNIBAL_INLINE bool onlyPast(const AttentionTask &t, Visible sight, bool prefixKeys) {
  return sight == Visible::Some && t.mask != MaskKind::Full && !prefixKeys;
}

OMNIBAL_INLINE VecI iota(int64_t first) {
  int32_t values[lanes];
  for (int i = 0; i < lanes; ++i)
    values[i] = static_cast<int32_t>(first) + i;
  VecI v;
  std::memcpy(&v, values, sizeof v);
  return v;
}

/// All bits set where a query must not see a key. Positions are relative to the segment.
OMNIBAL_INLINE VecI hidden(const AttentionTask &t, VecI query, VecI key, VecI prefixPair) {
  VecI future = key > query;
  if (t.mask == MaskKind::Sliding)
    return future | (query - key >= static_cast<int32_t>(t.window));
  if (t.mask == MaskKind::Prefix)
    return future & ~prefixPair;
  return future;
}

} // namespace
#endif // RUNTIME_BACKENDS_HOST_VECTOR_ATTENTIONMASK_H
