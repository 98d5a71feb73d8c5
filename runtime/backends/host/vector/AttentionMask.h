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

/// True if a key block holds a token that the prefix rule shows to all.
static bool hasPrefixKey(const AttentionTask &t, int64_t keyBegin, int64_t keyEnd) {
  if (t.mask != MaskKind::Prefix)
    return false;
  for (int64_t k = keyBegin; k < keyEnd; ++k)
    if (typeOf(t, k) == 0)
      return true;
  return false;
}

/// True if tokens look back as far as the window, and the keys that they see are not listed.
OMNIBAL_INLINE bool isWindowed(const AttentionTask &t) {
  return t.mask == MaskKind::Sliding || (t.mask == MaskKind::Prefix && t.window > 0);
}

/// Does the same as the function below where the keys that tokens see are listed.
static Visible visibleByReach(const AttentionTask &t, int64_t q0, int64_t q1, int64_t k0,
                              int64_t k1) {
  bool any = false, all = true;
  for (int64_t q = q0; q < q1; ++q) {
    const int64_t low = t.keyBegin + t.low[q], high = t.keyBegin + t.high[q];
    any = any || (k0 < high && k1 > low);
    all = all && k0 >= low && k1 <= high;
  }
  return all ? Visible::All : any ? Visible::Some : Visible::None;
}

/// Queries [q0, q1) and keys [k0, k1), both not empty and of the same segment.
OMNIBAL_INLINE Visible visible(const AttentionTask &t, int64_t q0, int64_t q1, int64_t k0,
                               int64_t k1, bool prefixKeys) {
  if (t.mask == MaskKind::Full)
    return Visible::All;
  if (t.low)
    return visibleByReach(t, q0, q1, k0, k1);
  if (k0 > q1 - 1)
    return prefixKeys ? Visible::Some : Visible::None;
  bool all = k1 - 1 <= q0;
  if (isWindowed(t)) {
    if (q0 - (k1 - 1) >= t.window)
      return prefixKeys ? Visible::Some : Visible::None;
    all = all && q1 - 1 - k0 < t.window;
  }
  return all ? Visible::All : Visible::Some;
}

/// True if in this block pairs need computing only where the key is not after the query.
OMNIBAL_INLINE bool onlyPast(const AttentionTask &t, Visible sight, bool prefixKeys) {
  return sight == Visible::Some && t.mask != MaskKind::Full && t.mask != MaskKind::Blocks &&
         t.mask != MaskKind::Listed && !prefixKeys;
}

OMNIBAL_INLINE VecI iota(int64_t first) {
  int32_t values[lanes];
  for (int i = 0; i < lanes; ++i)
    values[i] = static_cast<int32_t>(first) + i;
  VecI v;
  std::memcpy(&v, values, sizeof v);
  return v;
}

/// Keys from `low` on and before `high`, relative to the segment: what a query sees but for keys of
/// a prefix.
struct Reach {
  VecI low, high;
};

/// Returns the reach of the queries from `token` on, one per lane; `token` is within the segment.
OMNIBAL_INLINE Reach reachOfLanes(const AttentionTask &t, int64_t token) {
  if (t.low) {
    int32_t low[lanes], high[lanes];
    for (int l = 0; l < lanes; ++l) {
      const bool inside = token + l < t.end;
      low[l] = inside ? t.low[token + l] : 0;
      high[l] = inside ? t.high[token + l] : 0;
    }
    Reach reach;
    std::memcpy(&reach.low, low, sizeof reach.low);
    std::memcpy(&reach.high, high, sizeof reach.high);
    return reach;
  }
  const VecI query = iota(token - t.begin);
  if (isWindowed(t))
    return {query - static_cast<int32_t>(t.window) + 1, query + 1};
  return {VecI{}, query + 1};
}

/// Returns the reach of one query, the same in all lanes.
OMNIBAL_INLINE Reach reachOf(const AttentionTask &t, int64_t token) {
  const VecI query = VecI{} + static_cast<int32_t>(token - t.begin);
  if (t.low)
    return {VecI{} + t.low[token], VecI{} + t.high[token]};
  if (isWindowed(t))
    return {query - static_cast<int32_t>(t.window) + 1, query + 1};
  return {VecI{}, query + 1};
}

/// True if a query sees all keys of the prefix.
OMNIBAL_INLINE bool seesPrefix(const AttentionTask &t, int64_t token) {
  return typeOf(t, token) >= 0 && typeOf(t, token) <= t.lastType;
}

/// All bits set where a query must not see a key, whose place is relative to the segment.
OMNIBAL_INLINE VecI hidden(const Reach &reach, VecI key, VecI prefixPair) {
  return ((key < reach.low) | (key >= reach.high)) & ~prefixPair;
}

/// softcap * tanh(score / softcap): the series near 0, 1 - 2 / (e^2x + 1) elsewhere.
OMNIBAL_INLINE Vec capped(Vec score, float softcap) {
  const Vec x = score / softcap, square = x * x;
  Vec series = splat(62.f / 2835) * square - 17.f / 315;
  series = series * square + 2.f / 15;
  series = series * square - 1.f / 3;
  series = series * square * x + x;
  const Vec far = 1.f - 2.f / (exponential(x + x) + 1.f);
  return (absolute(x) < splat(0.25f) ? series : far) * softcap;
}

} // namespace
#endif // RUNTIME_BACKENDS_HOST_VECTOR_ATTENTIONMASK_H
