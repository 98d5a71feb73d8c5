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

float squaresOfSum(const float *x, const float *rows, int64_t stride, const float *factors,
                   int64_t count, int64_t n) {
  constexpr int wide = 4;
  Vec sums[wide] = {};
  int64_t i = 0;
  for (; i + wide * lanes <= n; i += wide * lanes) {
    Vec y[wide];
    for (int k = 0; k < wide; ++k)
      y[k] = load(x + i + k * lanes);
    for (int64_t r = 0; r < count; ++r) {
      const Vec factor = splat(factors[r]);
      const float *row = rows + r * stride + i;
      for (int k = 0; k < wide; ++k)
        y[k] += factor * load(row + k * lanes);
    }
    for (int k = 0; k < wide; ++k)
      sums[k] += y[k] * y[k];
  }
  for (; i < n; i += lanes) {
    Vec y = loadPart(x + i, n - i);
    for (int64_t r = 0; r < count; ++r)
      y += splat(factors[r]) * loadPart(rows + r * stride + i, n - i);
    sums[0] += y * y;
  }
  return sumLanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
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
const RowTable rowTable = {largest, sumExp, expAndSum, scale, add, squaresOfSum, rotate};
}
