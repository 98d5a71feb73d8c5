//===- AttentionBackward.cpp - Gradients of attention, key block by key block ------------===//
//
// For each block of keys the gradients of K and V are summed in scratch over all query blocks that
// see it; dQ is accumulated in place. Scores are computed as S[query][key], so queries and output
// gradients are used as they lie in memory; only K and V are packed, once per key block.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/vector/AttentionMask.h"
#include "runtime/backends/host/vector/Micro.h"

namespace {

constexpr int64_t queryBlock = 48, keyBlock = 96; // multiples of tileRows; keyBlock of 2 * lanes
static_assert(queryBlock % tileRows == 0 && keyBlock % tileRows == 0);
static_assert(keyBlock % (2 * lanes) == 0);

struct Buffers {
  float *keysT, *valuesT;       ///< [size or valueSize][keyBlock]
  float *keys;                  ///< [keyBlock][cols]
  float *keyGrads, *valueGrads; ///< [keyBlock][cols or valueCols]
  float *queries, *queryGrads;  ///< [queryBlock][cols], where memory does not suit
  float *outGrads;              ///< [queryBlock][valueCols]
  float *weights, *scoreGrads;  ///< [queryBlock][keyBlock]
  float *logSums, *deltas;      ///< [queryBlock]
};

int64_t scratchFloats(int64_t size, int64_t valueSize) {
  int64_t cols = roundTo(size, lanes), valueCols = roundTo(valueSize, lanes);
  return keyBlock * (3 * cols + 2 * valueCols) + queryBlock * (2 * cols + valueCols) +
         2 * queryBlock * keyBlock + 2 * queryBlock;
}

Buffers layOut(const AttentionTask &t, int64_t cols, int64_t valueCols) {
  Buffers b;
  float *at = t.scratch;
  auto take = [&](int64_t floats) {
    float *p = at;
    at += floats;
    return p;
  };
  b.keysT = take(keyBlock * cols);
  b.valuesT = take(keyBlock * valueCols);
  b.keys = take(keyBlock * cols);
  b.keyGrads = take(keyBlock * cols);
  b.valueGrads = take(keyBlock * valueCols);
  b.queries = take(queryBlock * cols);
  b.queryGrads = take(queryBlock * cols);
  b.outGrads = take(queryBlock * valueCols);
  b.weights = take(queryBlock * keyBlock);
  b.scoreGrads = take(queryBlock * keyBlock);
  b.logSums = take(queryBlock);
  b.deltas = take(queryBlock);
  return b;
}

/// logSums = lse (+inf for a row that sees nothing, so that its weights are 0); deltas = dO . O.
void rowStatistics(const AttentionTask &t, const Buffers &b, const float *outGrads, int64_t row,
                   int64_t head, int64_t q0, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float lse = *t.lse.at(q0 + i, head);
    b.logSums[i] = lse == -__builtin_inff() ? __builtin_inff() : lse;
    const float *out = t.out.at(q0 + i, head), *grad = outGrads + i * row;
    Vec sum{};
    float rest = 0;
    int64_t f = 0;
    if (t.out.feature == 1)
      for (; f + lanes <= t.valueSize; f += lanes)
        sum += load(out + f) * load(grad + f);
    for (; f < t.valueSize; ++f)
      rest += out[f * t.out.feature] * grad[f];
    b.deltas[i] = sumLanes(sum) + rest;
  }
}

/// weights: scores -> probabilities; scoreGrads: dP -> gradient of the unscaled scores. `caps`: the
/// scores are capped.
template <bool caps>
void softmaxGradient(const AttentionTask &t, const Buffers &b, int64_t q0, int64_t n, int64_t k0,
                     int64_t allKeys, Visible sight, bool past) {
  for (int64_t i = 0; i < n; ++i) {
    // Past the last key that this query sees, zeros as far as the products read.
    const int64_t reach = q0 + i + 1 + tileRows - k0;
    const int64_t keys = past && reach < allKeys ? reach : allKeys;
    float *weights = b.weights + i * keyBlock, *grads = b.scoreGrads + i * keyBlock;
    const Vec shift = splat(b.logSums[i]), delta = splat(b.deltas[i]);
    auto scoreOf = [&](Vec product) {
      if constexpr (caps)
        return capped(product * t.scale, t.softcap);
      else
        return product * t.scale;
    };
    auto slopeOf = [&](Vec score) { // of the score, by the product
      const Vec part = score / t.softcap;
      return (1.f - part * part) * t.scale;
    };
    auto gradient = [&](Vec p, Vec dP, Vec score) {
      if constexpr (caps)
        return p * (dP - delta) * slopeOf(score);
      else
        return p * (dP - delta) * t.scale;
    };
    if (sight == Visible::All) {
      for (int64_t j = 0; j < keys; j += lanes) {
        const Vec score = scoreOf(load(weights + j)), p = exponential(score - shift);
        store(weights + j, p);
        store(grads + j, gradient(p, load(grads + j), score));
      }
      continue;
    }
    const Reach seen = reachOf(t, q0 + i);
    const bool ofPrefix = t.mask == MaskKind::Prefix && seesPrefix(t, q0 + i);
    for (int64_t j = 0; j < keys; j += lanes) {
      VecI pair{};
      if (ofPrefix) {
        int32_t flags[lanes];
        for (int l = 0; l < lanes; ++l)
          flags[l] = j + l < keys && typeOf(t, k0 + j + l) == 0 ? -1 : 0;
        std::memcpy(&pair, flags, sizeof pair);
      }
      const Vec score = scoreOf(load(weights + j));
      Vec p = exponential(score - shift);
      VecI hide = hidden(seen, iota(k0 - t.keyBegin + j), pair);
      p = hide ? Vec{} : p;
      Vec grad = gradient(p, load(grads + j), score);
      store(weights + j, p);
      store(grads + j, hide ? Vec{} : grad);
    }
  }
}

void addRows(const float *from, int64_t fromRow, float *to, int64_t token, int64_t feature,
             int64_t tokens, int64_t features) {
  for (int64_t i = 0; i < tokens; ++i)
    for (int64_t f = 0; f < features; ++f)
      to[i * token + f * feature] += from[i * fromRow + f];
}

void copyRows(const float *from, int64_t fromRow, float *to, int64_t token, int64_t feature,
              int64_t tokens, int64_t features) {
  for (int64_t i = 0; i < tokens; ++i) {
    if (feature == 1) {
      std::memcpy(to + i * token, from + i * fromRow, features * sizeof(float));
      continue;
    }
    for (int64_t f = 0; f < features; ++f)
      to[i * token + f * feature] = from[i * fromRow + f];
  }
}

void queryStep(const AttentionTask &t, const Buffers &b, int64_t head, int64_t q0, int64_t n,
               int64_t k0, int64_t keys, Visible sight, bool past, int64_t cols,
               int64_t valueCols) {
  Needed forScores, forKeys, forQueries;
  if (past) {
    forScores.rowsBegin = forKeys.depthBegin = q0 - k0;
    forQueries.depthEnd = q0 - k0;
  }
  // As they lie in memory if whole tiles of whole vectors can be read and written there.
  const bool wholeRows = n % rowStep == 0;
  const float *queries = t.q.at(q0, head), *outGrads = t.dout.at(q0, head);
  int64_t queryRow = t.q.token, outRow = t.dout.token;
  if (!wholeRows || t.q.feature != 1 || cols != t.size) {
    packRows(queries, t.q.token, t.q.feature, n, t.size, b.queries, cols, roundTo(n, rowStep));
    queries = b.queries;
    queryRow = cols;
  }
  if (!wholeRows || t.dout.feature != 1 || valueCols != t.valueSize) {
    packRows(outGrads, t.dout.token, t.dout.feature, n, t.valueSize, b.outGrads, valueCols,
             roundTo(n, rowStep));
    outGrads = b.outGrads;
    outRow = valueCols;
  }
  rowStatistics(t, b, outGrads, outRow, head, q0, n);
  product<Layout<0, 1>>(queries, queryRow, b.keysT, keyBlock, b.weights, keyBlock, n, keys, t.size,
                        false, forScores);
  product<Layout<0, 1>>(outGrads, outRow, b.valuesT, keyBlock, b.scoreGrads, keyBlock, n, keys,
                        t.valueSize, false, forScores);
  if (t.softcap > 0)
    softmaxGradient<true>(t, b, q0, n, k0, keys, sight, past);
  else
    softmaxGradient<false>(t, b, q0, n, k0, keys, sight, past);
  product<Layout<1, keyBlock>>(b.weights, 0, outGrads, outRow, b.valueGrads, valueCols, keys,
                               valueCols, n, true, forKeys);
  product<Layout<1, keyBlock>>(b.scoreGrads, 0, queries, queryRow, b.keyGrads, cols, keys, cols, n,
                               true, forKeys);
  float *queryGrads = t.dq.at(q0, head);
  if (wholeRows && t.dq.feature == 1 && cols == t.size) {
    product<Layout<keyBlock, 1>>(b.scoreGrads, 0, b.keys, cols, queryGrads, t.dq.token, n, cols,
                                 keys, true, forQueries);
    return;
  }
  product<Layout<keyBlock, 1>>(b.scoreGrads, 0, b.keys, cols, b.queryGrads, cols, n, cols, keys,
                               false, forQueries);
  addRows(b.queryGrads, cols, queryGrads, t.dq.token, t.dq.feature, n, t.size);
}

void run(const AttentionTask &t) {
  const int64_t cols = roundTo(t.size, lanes), valueCols = roundTo(t.valueSize, lanes);
  const Buffers b = layOut(t, cols, valueCols);
  for (int64_t h = t.firstHead; h < t.firstHead + t.heads; ++h)
    for (int64_t i = t.begin; i < t.end; ++i)
      for (int64_t f = 0; f < t.size; ++f)
        t.dq.at(i, h)[f * t.dq.feature] = 0;

  for (int64_t k0 = t.keyBegin; k0 < t.keyEnd; k0 += keyBlock) {
    const int64_t keys = t.keyEnd - k0 < keyBlock ? t.keyEnd - k0 : keyBlock;
    const bool prefixKeys = hasPrefixKey(t, k0, k0 + keys);
    const float *k = t.k.at(k0, t.keyHead), *v = t.v.at(k0, t.keyHead);
    packTransposed(k, t.k.token, t.k.feature, keys, t.size, b.keysT, keyBlock, keyBlock);
    packTransposed(v, t.v.token, t.v.feature, keys, t.valueSize, b.valuesT, keyBlock, keyBlock);
    packRows(k, t.k.token, t.k.feature, keys, t.size, b.keys, cols, keys);
    std::memset(b.keyGrads, 0, keyBlock * cols * sizeof(float));
    std::memset(b.valueGrads, 0, keyBlock * valueCols * sizeof(float));
    for (int64_t h = t.firstHead; h < t.firstHead + t.heads; ++h)
      for (int64_t q0 = t.begin; q0 < t.end; q0 += queryBlock) {
        const int64_t n = t.end - q0 < queryBlock ? t.end - q0 : queryBlock;
        Visible sight = visible(t, q0, q0 + n, k0, k0 + keys, prefixKeys);
        if (sight != Visible::None)
          queryStep(t, b, h, q0, n, k0, keys, sight, onlyPast(t, sight, prefixKeys), cols,
                    valueCols);
      }
    copyRows(b.keyGrads, cols, t.dk.at(k0, t.keyHead), t.dk.token, t.dk.feature, keys, t.size);
    copyRows(b.valueGrads, valueCols, t.dv.at(k0, t.keyHead), t.dv.token, t.dv.feature, keys,
             t.valueSize);
  }
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const AttentionBackwardTable attentionBackwardTable = {scratchFloats, run};
}
