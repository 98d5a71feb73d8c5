//===- ScalarFunctions.h - Activations in float64 ----------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_SCALARFUNCTIONS_H
#define DIALECTS_OMNIBAL_IR_SCALARFUNCTIONS_H

#include <cmath>
#include <numbers>

namespace omnibal::scalar {

/// Constants of quick_gelu and of the tanh form of gelu, as PyTorch has them.
constexpr double quickGeluFactor = 1.702, tanhGeluCubic = 0.044715;
const double tanhGeluScale = std::sqrt(2 / std::numbers::pi);

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double quickGelu(double x) { return x * sigmoid(quickGeluFactor * x); }
inline double gelu(double x, bool tanh) {
  if (tanh)
    return 0.5 * x * (1 + std::tanh(tanhGeluScale * (x + tanhGeluCubic * x * x * x)));
  return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
}
inline double geluDerivative(double x, bool tanh) {
  if (tanh) {
    double t = std::tanh(tanhGeluScale * (x + tanhGeluCubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * tanhGeluScale * (1 + 3 * tanhGeluCubic * x * x);
  }
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

} // namespace omnibal::scalar
#endif // DIALECTS_OMNIBAL_IR_SCALARFUNCTIONS_H
