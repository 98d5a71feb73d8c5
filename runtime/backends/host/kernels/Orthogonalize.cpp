#include "runtime/backends/host/Orthogonalize.h"
#include "runtime/backends/host/Optimizer.h"
#include "runtime/backends/host/kernels/Gemm.h"
#include <cmath>
#include <utility>

namespace omnibal::rt {
namespace {

/// Of a x + b (x x^T) x + c (x x^T)^2 x, and how often it is applied.
constexpr float linear = 3.4445F, cubic = -4.7750F, quintic = 2.0315F;
constexpr int newtonSchulzSteps = 5;
/// A matrix of zeros stays one.
constexpr double leastNorm = 1e-7;

/// Runs body(begin, end) over all of [0, n), in pieces that do not depend on the threads.
template <typename Body> void forPieces(int64_t n, ThreadPool &pool, Body body) {
  constexpr int64_t piece = 65536;
  pool.parallelFor((n + piece - 1) / piece,
                   [&](int64_t task, int) { body(task * piece, std::min(n, (task + 1) * piece)); });
}

/// to = factor * from, of which a product is then added.
void scaled(float *to, const float *from, float factor, int64_t n, ThreadPool &pool) {
  forPieces(n, pool, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = factor * from[i];
  });
}

Status add(const Matrix &a, const Matrix &b, const Matrix &c, float alpha, bool accumulate,
           ThreadPool &pool) {
  Product product;
  product.a = a, product.b = b, product.c = c;
  product.alpha = alpha, product.accumulate = accumulate;
  return multiply(product, pool);
}

} // namespace

Status orthogonalize(float *x, int64_t rows, int64_t cols, std::span<float> scratch,
                     ThreadPool &pool) {
  const int64_t elements = rows * cols, side = std::min(rows, cols);
  const FloatRun all{x, elements};
  const double norm = std::sqrt(squaredNorm({&all, 1}, pool));
  scale({&all, 1}, 1 / std::max(norm, leastNorm), pool);
  float *next = scratch.data(), *gram = next + elements, *square = gram + side * side;
  const Matrix grams{gram, side, side, side, 1}, squares{square, side, side, side, 1};
  // The smaller side comes first, as products of x with itself have that size.
  auto wide = [&](float *data) {
    const Matrix matrix{data, rows, cols, cols, 1};
    return rows <= cols ? matrix : matrix.transposed();
  };
  float *from = x;
  for (int step = 0; step < newtonSchulzSteps; ++step) {
    const Matrix now = wide(from), then = wide(next);
    OMNIBAL_RETURN_IF_ERROR(add(now, now.transposed(), grams, 1, false, pool));
    scaled(square, gram, cubic, side * side, pool);
    OMNIBAL_RETURN_IF_ERROR(add(grams, grams, squares, quintic, true, pool));
    scaled(next, from, linear, elements, pool);
    OMNIBAL_RETURN_IF_ERROR(add(squares, now, then, 1, true, pool));
    std::swap(from, next);
  }
  if (from != x)
    scaled(x, from, 1, elements, pool);
  return Status::ok();
}

Status updateMatrix(const UpdatedTensor &t, const UpdateOptions &options, std::span<float> scratch,
                    ThreadPool &pool) {
  const UpdateRate &rate = options.rates[t.rate];
  const auto momentum = static_cast<float>(options.momentum);
  const auto gradientScale = static_cast<float>(options.gradientScale);
  float *direction = scratch.data();
  forPieces(t.elements, pool, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float g = t.grad[i] * gradientScale;
      t.moment1[i] += (1 - momentum) * (g - t.moment1[i]);
      direction[i] = g + momentum * (t.moment1[i] - g);
      if (options.zeroGradients)
        t.grad[i] = 0;
    }
  });
  OMNIBAL_RETURN_IF_ERROR(
      orthogonalize(direction, t.rows, t.cols, scratch.subspan(t.elements), pool));
  const auto shrink = static_cast<float>(1 - rate.learningRate * rate.weightDecay);
  const auto stepSize = static_cast<float>(
      rate.learningRate * 0.2 * std::sqrt(static_cast<double>(std::max(t.rows, t.cols))));
  forPieces(t.elements, pool, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      t.param[i] = t.param[i] * shrink - stepSize * direction[i];
    if (t.copy)
      for (int64_t i = begin; i < end; ++i)
        t.copy[i] = BFloat16::fromFloat(t.param[i]);
  });
  return Status::ok();
}

} // namespace omnibal::rt
