#include "runtime/backends/host/vector/MatrixProduct.h"
#include "runtime/backends/host/vector/Micro.h"

namespace {
using omnibal::rt::Lines;
using omnibal::rt::ProductBlock;

constexpr int panelVectors = 2;
constexpr int64_t panelCols = panelVectors * lanes;
constexpr int64_t ahead = 4; ///< lines that packing asks for in advance

using Eight = float __attribute__((vector_size(32)));

OMNIBAL_INLINE Eight loadEight(const float *p) {
  Eight v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
OMNIBAL_INLINE void storeEight(float *p, Eight v) { std::memcpy(p, &v, sizeof v); }

/// to[k * toRow + j] = from[j * fromRow + k] for j, k < 8.
OMNIBAL_INLINE void turnEight(const float *from, int64_t fromRow, float *to, int64_t toRow) {
  Eight r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    r[i] = loadEight(from + i * fromRow);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    storeEight(to + i * toRow, __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    storeEight(to + (i + 4) * toRow,
               __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

/// The columns from `whole` on, which do not fill a panel.
void packLastPanel(const Lines &b, int64_t depth, int64_t cols, int64_t whole, float *panel) {
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t j = 0; j < panelCols; ++j)
      panel[k * panelCols + j] =
          whole + j >= cols
              ? 0.f
              : b.data[b.transposed ? (whole + j) * b.stride + k : k * b.stride + whole + j];
}

/// Several panels side by side, so that whole stretches of a row are read at once.
void packRowsOfRight(const Lines &b, int64_t depth, int64_t cols, float *panels) {
  constexpr int64_t group = 8 * panelCols;
  for (int64_t first = 0; first < cols; first += group) {
    const int64_t end = cols - first < group ? cols : first + group;
    for (int64_t k = 0; k < depth; ++k) {
      const float *line = b.data + k * b.stride;
      for (int64_t j = first; j < end; j += panelCols) {
        float *to = panels + j * depth + k * panelCols;
        __builtin_prefetch(line + ahead * b.stride + j);
        __builtin_prefetch(line + ahead * b.stride + j + panelCols / 2);
#pragma GCC unroll 2
        for (int v = 0; v < panelVectors; ++v)
          store(to + v * lanes, load(line + j + v * lanes));
      }
    }
  }
}

void packColumnsOfRight(const Lines &b, int64_t depth, int64_t cols, float *panels) {
  const int64_t turned = depth / 8 * 8;
  for (int64_t j = 0; j < cols; j += panelCols)
    for (int64_t part = 0; part < panelCols; part += 8) {
      const float *lines = b.data + (j + part) * b.stride;
      float *to = panels + j * depth + part;
      for (int64_t k = 0; k < turned; k += 8) {
        if (k % 16 == 0)
          for (int i = 0; i < 8; ++i)
            __builtin_prefetch(lines + (i + 8) * b.stride + k);
        turnEight(lines + k, b.stride, to + k * panelCols, panelCols);
      }
      for (int64_t k = turned; k < depth; ++k)
        for (int i = 0; i < 8; ++i)
          to[k * panelCols + i] = lines[i * b.stride + k];
    }
}

void pack(const Lines &b, int64_t depth, int64_t cols, float *panels) {
  const int64_t whole = cols / panelCols * panelCols;
  if (b.transposed)
    packColumnsOfRight(b, depth, whole, panels);
  else
    packRowsOfRight(b, depth, whole, panels);
  if (whole < cols)
    packLastPanel(b, depth, cols, whole, panels + whole * depth);
}

/// Lines a multiple of the pages apart fall into the same few sets of a cache.
OMNIBAL_INLINE bool collides(int64_t stride) { return stride % 1024 == 0; }

OMNIBAL_INLINE int64_t copiedRow(int64_t depth) { return roundTo(depth, 16) + 16; }

int64_t leftFloats(int64_t rows, int64_t depth) {
  return roundTo(rows, tileRows) * copiedRow(depth) + tileRows * panelCols;
}

/// Rows [first, rows) of a, dense and filled up with zeros to whole steps.
void copyLeft(const ProductBlock &b, int64_t first, float *to) {
  const int64_t row = copiedRow(b.depth);
  for (int64_t i = first; i < b.rows; ++i, to += row)
    std::memcpy(to, b.a.data + i * b.a.stride, b.depth * sizeof(float));
  std::memset(to, 0, (roundTo(b.rows, rowStep) - b.rows) * row * sizeof(float));
}

/// A transposed left side as panels of tileRows rows, [panel][depth][tileRows].
void packLeft(const ProductBlock &b, float *to) {
  const int64_t whole = b.rows / tileRows * tileRows, rest = b.rows - whole;
  for (int64_t k = 0; k < b.depth; ++k) {
    const float *line = b.a.data + k * b.a.stride;
    for (int64_t i = 0; i < whole; i += tileRows) {
      __builtin_prefetch(line + ahead * b.a.stride + i);
      std::memcpy(to + i * b.depth + k * tileRows, line + i, tileRows * sizeof(float));
    }
    float *last = to + whole * b.depth + k * tileRows;
    for (int64_t i = 0; rest > 0 && i < tileRows; ++i)
      last[i] = i < rest ? line[whole + i] : 0.f;
  }
}

template <typename L, int rows>
OMNIBAL_INLINE void tile(const float *a, int64_t aRow, const float *panel, float *c, int64_t cRow,
                         int64_t depth, float alpha, bool add) {
  Vec sum[rows][panelVectors] = {};
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    __builtin_prefetch(c + i * cRow);
    __builtin_prefetch(c + i * cRow + panelCols / 2);
  }
  addProducts<L, rows, panelVectors>(sum, a, aRow, panel, panelCols, depth);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < panelVectors; ++j) {
      float *to = c + i * cRow + j * lanes;
      store(to, add ? load(to) + sum[i][j] * alpha : sum[i][j] * alpha);
    }
}

/// Rows [i, i + count) of the block, count <= tileRows, whose left side lies at `a`.
template <typename L>
void rowOfTiles(const ProductBlock &b, const float *a, int64_t aRow, int64_t i, int64_t count,
                float *edge) {
  for (int64_t j = 0; j < b.cols; j += panelCols) {
    const float *panel = b.panels + j / panelCols * b.panelStride;
    const int64_t cols = b.cols - j < panelCols ? b.cols - j : panelCols;
    // A tile that reaches beyond the block is made beside it.
    const bool inside = cols == panelCols && count % rowStep == 0;
    float *const place = b.c + i * b.cRow + j;
    float *const c = inside ? place : edge;
    const int64_t cRow = inside ? b.cRow : panelCols;
    if (!inside && b.add)
      for (int64_t r = 0; r < count; ++r)
        std::memcpy(edge + r * panelCols, place + r * b.cRow, cols * sizeof(float));
    if (count > 2 * rowStep)
      tile<L, tileRows>(a, aRow, panel, c, cRow, b.depth, b.alpha, b.add);
    else if (count > rowStep)
      tile<L, 2 * rowStep>(a, aRow, panel, c, cRow, b.depth, b.alpha, b.add);
    else
      tile<L, rowStep>(a, aRow, panel, c, cRow, b.depth, b.alpha, b.add);
    if (!inside)
      for (int64_t r = 0; r < count; ++r)
        std::memcpy(place + r * b.cRow, edge + r * panelCols, cols * sizeof(float));
  }
}

void run(const ProductBlock &b) {
  float *const edge = b.scratch, *const packed = b.scratch + tileRows * panelCols;
  std::memset(edge, 0, tileRows * panelCols * sizeof(float));
  const float *a = b.a.data;
  int64_t aRow = b.a.stride, copiedFrom = b.rows;
  if (b.a.transposed) {
    packLeft(b, packed);
  } else {
    // The last rows are read in whole steps.
    copiedFrom = collides(aRow) ? 0 : b.rows % rowStep ? b.rows / tileRows * tileRows : b.rows;
    copyLeft(b, copiedFrom, packed);
  }
  for (int64_t i = 0; i < b.rows; i += tileRows) {
    const int64_t count = b.rows - i < tileRows ? b.rows - i : tileRows;
    if (b.a.transposed)
      rowOfTiles<Layout<1, tileRows>>(b, packed + i * b.depth, 0, i, count, edge);
    else if (i >= copiedFrom)
      rowOfTiles<Layout<0, 1>>(b, packed + (i - copiedFrom) * copiedRow(b.depth),
                               copiedRow(b.depth), i, count, edge);
    else
      rowOfTiles<Layout<0, 1>>(b, a + i * aRow, aRow, i, count, edge);
  }
}

void addColumns(const float *x, int64_t row, int64_t rows, double *sums) {
  double local[16];
  std::memcpy(local, sums, sizeof local);
  for (int64_t i = 0; i < rows; ++i)
    for (int l = 0; l < 16; ++l)
      local[l] += double(x[i * row + l]);
  std::memcpy(sums, local, sizeof local);
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const ProductTable productTable = {panelCols, pack, leftFloats, run, addColumns};
}
