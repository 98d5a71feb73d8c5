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

float sumExp(const float *x, int64_t n, float shift) {
  Vec a{}, b{};
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a += exponential(load(x + i) - shift);
    b += exponential(load(x + i + lanes) - shift);
  }
  for (; i + lanes <= n; i += lanes)
    a += exponential(load(x + i) - shift);
  if (i < n)
    b += exponential(loadPart(x + i, n - i, -__builtin_inff()) - shift);
  return sumLanes(a + b);
}

void expScaled(const float *x, float *y, int64_t n, float shift, float factor) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    store(y + i, exponential(load(x + i) - shift) * factor);
  if (i < n)
    storePart(y + i, exponential(loadPart(x + i, n - i) - shift) * factor, n - i);
}

void add(const float *x, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    store(y + i, load(y + i) + load(x + i));
  for (; i < n; ++i)
    y[i] += x[i];
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
const RowTable rowTable = {largest, sumExp, expScaled, add, rotate};
}
