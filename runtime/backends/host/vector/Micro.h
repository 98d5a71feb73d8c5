//===- Micro.h - Small products of packed blocks, the inner loops of attention -----------===//
//
// C[m][n] (+)= sum_k A(m, k) * B[k][n]. A is read one value at a time with constant or free
// strides, B in whole vectors with any row stride. Row counts are rounded up to rowStep and columns
// to the vector width: the caller pads.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_MICRO_H
#define RUNTIME_BACKENDS_HOST_VECTOR_MICRO_H

#include "runtime/backends/host/vector/VectorMath.h"

namespace {

// 12 x 2 accumulators of 32 registers, or 6 x 2 of 16.
constexpr int tileRows = vectorBytes == 64 ? 12 : 6;
constexpr int rowStep = tileRows / 3;

constexpr int64_t roundTo(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// Says where A's values lie: rowStride and depthStride are in elements; 0 means that they are
/// given at run time.
template <int rowStride, int depthStride> struct Layout {
  static constexpr int row = rowStride, depth = depthStride;
};

/// sum += A * B over `depth`, for a tile that stays in registers.
template <typename L, int rows, int vectors>
OMNIBAL_INLINE void addProducts(Vec (&sum)[rows][vectors], const float *a, int64_t aRow,
                                const float *b, int64_t bRow, int64_t depth) {
  const int64_t stride = L::row ? L::row : aRow;
  for (int64_t k = 0; k < depth; ++k) {
    // The processor's own fetching ahead stops at the end of a page.
    __builtin_prefetch(b + 8 * bRow);
    if (vectors * vectorBytes > 64)
      __builtin_prefetch(b + 8 * bRow + 16);
    Vec right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j)
      right[j] = load(b + j * lanes);
    // Two base pointers per six rows keep the addresses within base + index * scale.
    const float *base = a;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      Vec left = splat(L::row ? a[i * stride] : base[(i % 3) * stride]);
      if (!L::row && i % 3 == 2)
        base += 3 * stride;
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        sum[i][j] += left * right[j];
    }
    a += L::depth;
    b += bRow;
  }
}

template <typename L, int rows, int vectors>
OMNIBAL_INLINE void microTile(const float *a, int64_t aRow, const float *b, int64_t bRow, float *c,
                              int64_t cRow, int64_t depth, bool accumulate) {
  Vec sum[rows][vectors];
  if (accumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        sum[i][j] = load(c + i * cRow + j * lanes);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        sum[i][j] = Vec{};
  }
  addProducts<L, rows, vectors>(sum, a, aRow, b, bRow, depth);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j)
      store(c + i * cRow + j * lanes, sum[i][j]);
}

/// Which part of a product matters when a causal mask hides the rest: bounds that move with the
/// column or the row of a tile. What lies outside is not computed (C) or not read (A, B).
struct Needed {
  static constexpr int64_t all = int64_t{1} << 40;
  int64_t rowsEnd = all;    ///< columns [j, j + n) need rows below rowsEnd + j + n
  int64_t rowsBegin = all;  ///< columns from j on need rows from j - rowsBegin on
  int64_t depthEnd = all;   ///< rows [i, i + n) need depth below depthEnd + i + n
  int64_t depthBegin = all; ///< rows from i on need depth from i - depthBegin on
};

template <typename L, int vectors>
OMNIBAL_INLINE void microColumns(const float *a, int64_t aRow, const float *b, int64_t bRow,
                                 float *c, int64_t cRow, int64_t begin, int64_t rows, int64_t depth,
                                 bool accumulate, const Needed &needed) {
  const int64_t stride = L::row ? L::row : aRow;
  for (int64_t i = begin; i < rows; i += tileRows) {
    const int64_t from = i - needed.depthBegin > 0 ? i - needed.depthBegin : 0;
    const int64_t limit = needed.depthEnd + i + tileRows;
    const int64_t count = (limit < depth ? limit : depth) - from;
    const float *left = a + i * stride + from * L::depth, *right = b + from * bRow;
    const int64_t rest = rows - i;
    if (rest > 2 * rowStep)
      microTile<L, tileRows, vectors>(left, aRow, right, bRow, c + i * cRow, cRow, count,
                                      accumulate);
    else if (rest > rowStep)
      microTile<L, 2 * rowStep, vectors>(left, aRow, right, bRow, c + i * cRow, cRow, count,
                                         accumulate);
    else
      microTile<L, rowStep, vectors>(left, aRow, right, bRow, c + i * cRow, cRow, count,
                                     accumulate);
  }
}

/// `aRow` is used only where the layout leaves the row stride free.
template <typename L>
void product(const float *a, int64_t aRow, const float *b, int64_t bRow, float *c, int64_t cRow,
             int64_t rows, int64_t cols, int64_t depth, bool accumulate,
             const Needed &needed = {}) {
  auto rowsEnd = [&](int64_t j) {
    const int64_t end = needed.rowsEnd + j;
    return end < rows ? end : rows;
  };
  auto rowsBegin = [&](int64_t j) {
    const int64_t first = j - needed.rowsBegin;
    return first > 0 ? first / tileRows * tileRows : 0;
  };
  int64_t j = 0;
  for (; j + lanes < cols; j += 2 * lanes)
    microColumns<L, 2>(a, aRow, b + j, bRow, c + j, cRow, rowsBegin(j), rowsEnd(j + 2 * lanes),
                       depth, accumulate, needed);
  if (j < cols)
    microColumns<L, 1>(a, aRow, b + j, bRow, c + j, cRow, rowsBegin(j), rowsEnd(j + lanes), depth,
                       accumulate, needed);
}

/// to[f * toRow + t] = from[t * token + f * feature] for t < tokens, 0 up to padded.
OMNIBAL_INLINE void packTransposed(const float *from, int64_t token, int64_t feature,
                                   int64_t tokens, int64_t features, float *to, int64_t toRow,
                                   int64_t padded) {
  constexpr int64_t strip = 8; // lines of `from` held in cache while their features spread out
  for (int64_t t0 = 0; t0 < tokens; t0 += strip) {
    int64_t n = tokens - t0 < strip ? tokens - t0 : strip;
    if (n == strip && feature == 1) {
      for (int64_t f = 0; f < features; ++f)
#pragma GCC unroll 8
        for (int64_t t = 0; t < strip; ++t)
          to[f * toRow + t0 + t] = from[(t0 + t) * token + f];
      continue;
    }
    for (int64_t f = 0; f < features; ++f)
      for (int64_t t = 0; t < n; ++t)
        to[f * toRow + t0 + t] = from[(t0 + t) * token + f * feature];
  }
  for (int64_t f = 0; f < features; ++f)
    for (int64_t t = tokens; t < padded; ++t)
      to[f * toRow + t] = 0;
}

/// to[t * toRow + f] = from[...]; zeros up to paddedTokens and toRow.
OMNIBAL_INLINE void packRows(const float *from, int64_t token, int64_t feature, int64_t tokens,
                             int64_t features, float *to, int64_t toRow, int64_t paddedTokens) {
  for (int64_t t = 0; t < tokens; ++t) {
    const float *line = from + t * token;
    if (feature == 1)
      std::memcpy(to + t * toRow, line, features * sizeof(float));
    else
      for (int64_t f = 0; f < features; ++f)
        to[t * toRow + f] = line[f * feature];
    for (int64_t f = features; f < toRow; ++f)
      to[t * toRow + f] = 0;
  }
  if (paddedTokens > tokens)
    std::memset(to + tokens * toRow, 0, (paddedTokens - tokens) * toRow * sizeof(float));
}

} // namespace
#endif // RUNTIME_BACKENDS_HOST_VECTOR_MICRO_H
