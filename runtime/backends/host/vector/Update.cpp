#include "runtime/backends/host/vector/Update.h"
#include "runtime/backends/host/vector/VectorMath.h"

namespace {
using omnibal::rt::AdamWFactors;

void adamW(float *__restrict param, float *__restrict grad, float *__restrict moment1,
           float *__restrict moment2, int64_t n, const AdamWFactors &factors) {
  const AdamWFactors f = factors;
  for (int64_t i = 0; i < n; ++i) {
    float g = grad[i] * f.gradientScale;
    float m = moment1[i] + f.take1 * (g - moment1[i]);
    float v = f.keep2 * moment2[i] + f.take2 * g * g;
    float denominator = __builtin_sqrtf(v) * f.rootScale + f.epsilon;
    moment1[i] = m;
    moment2[i] = v;
    param[i] = param[i] * f.shrink - f.stepSize * (m / denominator);
  }
  if (f.zeroGradients)
    std::memset(grad, 0, n * sizeof(float));
}

/// 16 sums side by side, so that the order does not depend on the instruction set.
double squares(const float *x, int64_t n) {
  double sums[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l)
      sums[l] += double(x[i + l]) * double(x[i + l]);
  for (int l = 0; i < n; ++i, ++l)
    sums[l] += double(x[i]) * double(x[i]);
  for (int width = 8; width > 0; width /= 2)
    for (int l = 0; l < width; ++l)
      sums[l] += sums[l + width];
  return sums[0];
}

} // namespace

namespace omnibal::rt::OMNIBAL_ISA {
const UpdateTable updateTable = {adamW, squares};
}
