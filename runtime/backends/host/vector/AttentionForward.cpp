//===- AttentionForward.cpp - Online-softmax attention with queries in the vector lanes --===//
//
// Scores are computed transposed, S^T[key][query]: maxima and sums over keys are then plain vector
// operations, and S^T is at once the left operand of the product with V. A key block is packed once
// for all the task's queries and heads.
//
//===-------------------------------------------------------------------------------------------===//

#include "runtime/backends/host/vector/AttentionMask.h"
#include "runtime/backends/host/vector/Micro.h"

namespace {

constexpr int64_t queryBlock = 96, keyBlock = 96; // multiples of tileRows and of 2 * lanes
static_assert(queryBlock % tileRows == 0 && queryBlock % (2 * lanes) == 0);
static_assert(keyBlock % tileRows == 0);

/// Running state of one query block of one head, in scratch.
struct State {
  float *queries; ///< [size][queryBlock]
  float *sums;    ///< [queryBlock][value columns]
  float *top;     ///< running maximum of each query
  float *total;   ///< running sum of exponentials
};

int64_t stateFloats(int64_t size, int64_t valueCols) { return queryBlock * (size + valueCols + 2); }

int64_t scratchFloats(int64_t size, int64_t valueSize, int64_t heads, int64_t queries) {
  int64_t valueCols = roundTo(valueSize, lanes);
  int64_t blocks = (queries + queryBlock - 1) / queryBlock;
  return heads * blocks * stateFloats(size, valueCols) + keyBlock * (size + valueCols) +
         keyBlock * queryBlock + queryBlock;
}

State stateAt(float *memory, int64_t size, int64_t valueCols) {
  State s;
  s.queries = memory;
  s.sums = s.queries + size * queryBlock;
  s.top = s.sums + queryBlock * valueCols;
  s.total = s.top + queryBlock;
  return s;
}

/// Applies mask and scale to the scores, updates maxima and sums, leaves the exponentials in
/// `scores` and the factor for what was summed before in `decay`; true if any factor is not 1.
bool softmaxStep(const AttentionTask &t, float *scores, const State &s, float *decay,
                 int64_t queries, int64_t q0, int64_t k0, int64_t allKeys, Visible sight,
                 bool past) {
  const float low = -__builtin_inff();
  const float scoreScale = t.softcap > 0 ? 1.f : t.scale; // capped scores are scaled already
  bool changed = false;
  for (int64_t i = 0; i < queries; i += lanes) {
    float *column = scores + i;
    // Past the last key that these queries see, zeros as far as the product with V reads.
    const int64_t reach = q0 + i + lanes + tileRows - k0;
    const int64_t keys = past && reach < allKeys ? reach : allKeys;
    Vec top = load(s.top + i), before = top;
    if (t.softcap > 0)
      for (int64_t j = 0; j < keys; ++j)
        store(column + j * queryBlock, capped(load(column + j * queryBlock) * t.scale, t.softcap));
    if (sight == Visible::Some) {
      const Reach seen = reachOfLanes(t, q0 + i);
      VecI ofPrefix{};
      if (t.mask == MaskKind::Prefix) {
        int32_t flags[lanes];
        for (int l = 0; l < lanes; ++l)
          flags[l] = q0 + i + l < t.end && seesPrefix(t, q0 + i + l) ? -1 : 0;
        std::memcpy(&ofPrefix, flags, sizeof ofPrefix);
      }
      for (int64_t j = 0; j < keys; ++j) {
        VecI key = VecI{} + static_cast<int32_t>(k0 - t.keyBegin + j);
        VecI pair{};
        if (t.mask == MaskKind::Prefix && typeOf(t, k0 + j) == 0)
          pair = ofPrefix;
        Vec score = load(column + j * queryBlock) * scoreScale;
        score = hidden(seen, key, pair) ? splat(low) : score;
        store(column + j * queryBlock, score);
        top = maximum(score, top);
      }
    } else {
      Vec second = top;
      int64_t j = 0;
      for (; j + 2 <= keys; j += 2) {
        top = maximum(load(column + j * queryBlock) * scoreScale, top);
        second = maximum(load(column + (j + 1) * queryBlock) * scoreScale, second);
      }
      if (j < keys)
        top = maximum(load(column + j * queryBlock) * scoreScale, top);
      top = maximum(top, second);
    }
    Vec shift = top == low ? Vec{} : top; // nothing seen yet: all exponentials become 0
    Vec factor = exponential(before - shift);
    Vec total = load(s.total + i) * factor, second{};
    const float scale = sight == Visible::Some ? 1.f : scoreScale;
    int64_t j = 0;
    for (; j + 2 <= keys; j += 2) {
      Vec p0 = exponential(load(column + j * queryBlock) * scale - shift);
      Vec p1 = exponential(load(column + (j + 1) * queryBlock) * scale - shift);
      store(column + j * queryBlock, p0);
      store(column + (j + 1) * queryBlock, p1);
      total += p0;
      second += p1;
    }
    if (j < keys) {
      Vec p = exponential(load(column + j * queryBlock) * scale - shift);
      store(column + j * queryBlock, p);
      total += p;
    }
    store(s.top + i, top);
    store(s.total + i, total + second);
    store(decay + i, factor);
    VecI differs = factor != 1.f;
    for (int l = 0; l < lanes; ++l)
      changed |= differs[l] != 0;
  }
  return changed;
}

/// One more score for a row, of a key without value; returns the factor of what was summed before.
float addSink(float sink, float &top, float &total) {
  const float largest = sink > top ? sink : top;
  const float kept = __builtin_expf(top - largest);
  total = total * kept + __builtin_expf(sink - largest);
  top = largest;
  return kept;
}

void finish(const AttentionTask &t, const State &s, int64_t head, int64_t q0, int64_t queries,
            int64_t valueCols) {
  for (int64_t i = 0; i < queries; ++i) {
    float total = s.total[i], top = s.top[i];
    const float kept =
        t.sinks && total != 0 ? addSink(t.sinks[head * t.sinkStride], top, total) : 1;
    float *out = t.out.at(q0 + i, head);
    const float inverse = total > 0 || total != total ? kept / total : 0.f;
    const float *sums = s.sums + i * valueCols;
    if (t.out.feature == 1) {
      int64_t f = 0;
      for (; f + lanes <= t.valueSize; f += lanes)
        store(out + f, load(sums + f) * inverse);
      for (; f < t.valueSize; ++f)
        out[f] = sums[f] * inverse;
    } else {
      for (int64_t f = 0; f < t.valueSize; ++f)
        out[f * t.out.feature] = sums[f] * inverse;
    }
    *t.lse.at(q0 + i, head) = total == 0 ? -__builtin_inff() : top + __builtin_logf(total);
  }
}

void run(const AttentionTask &t) {
  const int64_t valueCols = roundTo(t.valueSize, lanes);
  const int64_t queries = t.queryEnd - t.queryBegin;
  const int64_t blocks = (queries + queryBlock - 1) / queryBlock;
  const int64_t stateSize = stateFloats(t.size, valueCols);
  float *states = t.scratch;
  float *keysT = states + t.heads * blocks * stateSize; // [size][keyBlock]
  float *values = keysT + keyBlock * t.size;            // [keyBlock][valueCols]
  float *scores = values + keyBlock * valueCols;        // [keyBlock][queryBlock]
  float *decay = scores + keyBlock * queryBlock;

  auto blockQueries = [&](int64_t block) {
    int64_t rest = queries - block * queryBlock;
    return rest < queryBlock ? rest : queryBlock;
  };
  for (int64_t h = 0; h < t.heads; ++h)
    for (int64_t block = 0; block < blocks; ++block) {
      State s = stateAt(states + (h * blocks + block) * stateSize, t.size, valueCols);
      packTransposed(t.q.at(t.queryBegin + block * queryBlock, t.firstHead + h), t.q.token,
                     t.q.feature, blockQueries(block), t.size, s.queries, queryBlock, queryBlock);
      std::memset(s.sums, 0, queryBlock * valueCols * sizeof(float));
      for (int64_t i = 0; i < queryBlock; ++i) {
        s.top[i] = -__builtin_inff();
        s.total[i] = 0;
      }
    }

  for (int64_t k0 = t.keyBegin; k0 < t.keyEnd; k0 += keyBlock) {
    const int64_t keys = t.keyEnd - k0 < keyBlock ? t.keyEnd - k0 : keyBlock;
    const bool prefixKeys = hasPrefixKey(t, k0, k0 + keys);
    if (visible(t, t.queryBegin, t.queryEnd, k0, k0 + keys, prefixKeys) == Visible::None)
      continue;
    packTransposed(t.k.at(k0, t.keyHead), t.k.token, t.k.feature, keys, t.size, keysT, keyBlock,
                   roundTo(keys, rowStep));
    const float *v = t.v.at(k0, t.keyHead);
    int64_t vRow = t.v.token;
    if (t.v.feature != 1 || valueCols != t.valueSize) {
      packRows(v, t.v.token, t.v.feature, keys, t.valueSize, values, valueCols, keys);
      v = values;
      vRow = valueCols;
    }
    for (int64_t h = 0; h < t.heads; ++h)
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t q0 = t.queryBegin + block * queryBlock, n = blockQueries(block);
        Visible sight = visible(t, q0, q0 + n, k0, k0 + keys, prefixKeys);
        if (sight == Visible::None)
          continue;
        State s = stateAt(states + (h * blocks + block) * stateSize, t.size, valueCols);
        const bool past = onlyPast(t, sight, prefixKeys);
        Needed forScores, forSums;
        if (past)
          forScores.rowsEnd = forSums.depthEnd = q0 - k0;
        product<Layout<1, keyBlock>>(keysT, 0, s.queries, queryBlock, scores, queryBlock, keys, n,
                                     t.size, false, forScores);
        if (softmaxStep(t, scores, s, decay, n, q0, k0, keys, sight, past))
          for (int64_t i = 0; i < n; ++i)
            for (int64_t f = 0; f < valueCols; f += lanes)
              store(s.sums + i * valueCols + f, load(s.sums + i * valueCols + f) * decay[i]);
        product<Layout<1, queryBlock>>(scores, 0, v, vRow, s.sums, valueCols, n, valueCols, keys,
                                       true, forSums);
      }
  }
  for (int64_t h = 0; h < t.heads; ++h)
    for (int64_t block = 0; block < blocks; ++block)
      finish(t, stateAt(states + (h * blocks + block) * stateSize, t.size, valueCols),
             t.firstHead + h, t.queryBegin + block * queryBlock, blockQueries(block), valueCols);
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const AttentionForwardTable attentionForwardTable = {scratchFloats, run};
}
