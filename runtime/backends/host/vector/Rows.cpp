#include "runtime/backends/host/vector/Rows.h"
#include "runtime/backends/host/vector/VectorMath.h"

namespace {

void largest(const float *x, int64_t n, float *value, int64_t *index) {
  Vec top = splat(-__builtin_inff());
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    top = maximum(load(x + i), top);
  float best = maxLanes(top);
  for (; i < n; ++i)
    best = x[i] > best ? x[i] : best;
  *value = best;
  *index = 0;
  for (i = 0; i < n; ++i)
    if (x[i] == best) {
      *index = i;
      return;
    }
}

template <bool keep> float sumExponentials(const float *x, float *y, int64_t n, float shift) {
  Vec a{}, b{};
  auto take = [&](Vec &sum, int64_t i) {
    Vec e = exponential(load(x + i) - shift);
    if (keep)
      store(y + i, e);
    sum += e;
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    take(a, i);
    take(b, i + lanes);
  }
  for (; i + lanes <= n; i += lanes)
    take(a, i);
  if (i < n) {
    Vec e = exponential(loadPart(x + i, n - i, -__builtin_inff()) - shift);
    if (keep)
      storePart(y + i, e, n - i);
    b += e;
  }
  return sumLanes(a + b);
}

float sumExp(const float *x, int64_t n, float shift) {
  return sumExponentials<false>(x, nullptr, n, shift);
}

float expAndSum(const float *x, float *y, int64_t n, float shift) {
  return sumExponentials<true>(x, y, n, shift);
}

void scale(float *y, int64_t n, float factor) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    store(y + i, load(y + i) * factor);
  for (; i < n; ++i)
    y[i] *= factor;
}

void add(const float *x, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    store(y + i, load(y + i) + load(x + i));
  for (; i < n; ++i)
    y[i] += x[i];
}

/// The same for so many rows at a time, which share what is read of a.
template <int rows> void squareSome(const omnibal::rt::SquaredRows &q, int64_t first) {
  constexpr int wide = 2;
  const float *x = q.x + first * q.xStride, *factors = q.factors + first * q.depth;
  Vec sums[rows][wide] = {};
  int64_t i = 0;
  for (; i + wide * lanes <= q.n; i += wide * lanes) {
    Vec y[rows][wide];
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < wide; ++k)
        y[row][k] = load(x + row * q.xStride + i + k * lanes);
    for (int64_t r = 0; r < q.depth; ++r) {
      Vec of[wide];
      for (int k = 0; k < wide; ++k)
        of[k] = load(q.a + r * q.aStride + i + k * lanes);
      for (int row = 0; row < rows; ++row)
        for (int k = 0; k < wide; ++k)
          y[row][k] += splat(factors[row * q.depth + r]) * of[k];
    }
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < wide; ++k)
        sums[row][k] += y[row][k] * y[row][k];
  }
  for (; i < q.n; i += lanes)
    for (int row = 0; row < rows; ++row) {
      Vec y = loadPart(x + row * q.xStride + i, q.n - i);
      for (int64_t r = 0; r < q.depth; ++r)
        y += splat(factors[row * q.depth + r]) * loadPart(q.a + r * q.aStride + i, q.n - i);
      sums[row][0] += y * y;
    }
  for (int row = 0; row < rows; ++row)
    q.sums[first + row] += sumLanes(sums[row][0] + sums[row][1]);
}

void addSquares(const omnibal::rt::SquaredRows &q) {
  int64_t row = 0;
  for (; row + 4 <= q.rows; row += 4)
    squareSome<4>(q, row);
  for (; row < q.rows; ++row)
    squareSome<1>(q, row);
}

template <bool inverse>
void rotateRow(const float *x0, const float *x1, const float *c0, const float *c1, const float *s0,
               const float *s1, float *y0, float *y1, int64_t n) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vec a = load(x0 + i), b = load(x1 + i);
    Vec first = inverse ? b * load(s1 + i) : -(b * load(s0 + i));
    Vec second = inverse ? -(a * load(s0 + i)) : a * load(s1 + i);
    store(y0 + i, a * load(c0 + i) + first);
    store(y1 + i, b * load(c1 + i) + second);
  }
  for (; i < n; ++i) {
    float a = x0[i], b = x1[i];
    y0[i] = a * c0[i] + (inverse ? b * s1[i] : -(b * s0[i]));
    y1[i] = b * c1[i] + (inverse ? -(a * s0[i]) : a * s1[i]);
  }
}

void rotate(const float *x0, const float *x1, const float *c0, const float *c1, const float *s0,
            const float *s1, float *y0, float *y1, int64_t n, bool inverse) {
  if (inverse)
    rotateRow<true>(x0, x1, c0, c1, s0, s1, y0, y1, n);
  else
    rotateRow<false>(x0, x1, c0, c1, s0, s1, y0, y1, n);
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const RowTable rowTable = {largest, sumExp, expAndSum, scale, add, addSquares, rotate};
}
