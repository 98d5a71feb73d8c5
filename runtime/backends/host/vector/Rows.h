//===- Rows.h - Vectorized passes over one row -------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_ROWS_H
#define RUNTIME_BACKENDS_HOST_VECTOR_ROWS_H

#include "runtime/backends/host/vector/Isa.h"
#include <cstdint>

namespace omnibal::rt {

/// `rows` rows of n numbers, x; `depth` rows of as many, a; and for each row of x, `depth` factors.
struct SquaredRows {
  const float *x = nullptr;
  int64_t xStride = 0, rows = 0;
  const float *a = nullptr;
  int64_t aStride = 0, depth = 0, n = 0;
  const float *factors = nullptr;
  float *sums = nullptr;
};

struct RowTable {
  /// Largest value and its lowest index; n >= 1.
  void (*largest)(const float *x, int64_t n, float *value, int64_t *index);
  /// Sum of e^(x - shift).
  float (*sumExp)(const float *x, int64_t n, float shift);
  /// The same, and y = e^(x - shift); y may be x.
  float (*expAndSum)(const float *x, float *y, int64_t n, float shift);
  /// y *= factor.
  void (*scale)(float *y, int64_t n, float factor);
  /// y += x.
  void (*add)(const float *x, float *y, int64_t n);
  /// Adds, for each row of x, the squares of that row plus the rows of a by its factors.
  void (*addSquares)(const SquaredRows &);
  /// (y0, y1) = (x0 c0 - x1 s0, x1 c1 + x0 s1), or with `inverse` the transpose of that map. The
  /// rows of n values may be the same in x and y.
  void (*rotate)(const float *x0, const float *x1, const float *c0, const float *c1,
                 const float *s0, const float *s1, float *y0, float *y1, int64_t n, bool inverse);
};
OMNIBAL_DECLARE_VECTOR_TABLE(RowTable, rowTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_ROWS_H
