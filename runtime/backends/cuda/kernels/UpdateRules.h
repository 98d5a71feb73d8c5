//===- UpdateRules.h - What an update does with one value, and its constants ------------------===//
//
// Only .cu files include this header.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_UPDATERULES_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_UPDATERULES_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Update.h"
#include <cmath>

namespace omnibal::rt::cuda {

struct Factors {
  float gradientScale, keep1, take1, keep2, take2, rootScale, epsilon;
  bool nesterov, zeroGradients;
};

/// Of the groups of parameters: lr / bias correction 1, and 1 - lr * decay or, for SGD, the decay.
struct Rates {
  float stepSize[mostUpdateRates], shrink[mostUpdateRates];
};

/// Of a step.
inline Factors factorsOf(const UpdateOptions &s) {
  const bool isSgd = s.kind == OptimizerKind::Sgd;
  const double correction2 =
      isAdam(s.kind) ? 1 - std::pow(s.beta2, static_cast<double>(s.step)) : 1;
  Factors f;
  f.gradientScale = static_cast<float>(s.gradientScale);
  f.keep1 = static_cast<float>(isSgd ? s.momentum : s.beta1);
  f.take1 = static_cast<float>(1 - s.beta1);
  f.keep2 = static_cast<float>(s.beta2);
  f.take2 = static_cast<float>(1 - s.beta2);
  f.rootScale = static_cast<float>(1 / std::sqrt(correction2));
  f.epsilon = static_cast<float>(s.epsilon);
  f.nesterov = s.nesterov;
  f.zeroGradients = s.zeroGradients;
  return f;
}

/// With at most mostUpdateRates rates.
inline Rates ratesOf(const UpdateOptions &s) {
  const double correction1 =
      isAdam(s.kind) ? 1 - std::pow(s.beta1, static_cast<double>(s.step)) : 1;
  Rates rates = {};
  for (size_t r = 0; r < s.rates.size(); ++r) {
    const auto [learningRate, decay] = s.rates[r];
    rates.stepSize[r] = static_cast<float>(learningRate / correction1);
    rates.shrink[r] =
        static_cast<float>(s.kind == OptimizerKind::Sgd ? decay : 1 - learningRate * decay);
  }
  return rates;
}

/// One value of each rule: p and the moments change by g, which is scaled already.
struct AdamW {
  static constexpr int moments = 2;
  static __device__ __forceinline__ void step(const Factors &f, float stepSize, float shrink,
                                              float &p, float g, float &m, float &v) {
    m = m + f.take1 * (g - m);
    v = f.keep2 * v + f.take2 * g * g;
    p = p * shrink - stepSize * (m / (sqrtf(v) * f.rootScale + f.epsilon));
  }
};

struct Lion {
  static constexpr int moments = 1;
  static __device__ __forceinline__ void step(const Factors &f, float stepSize, float shrink,
                                              float &p, float g, float &m, float &) {
    const float blend = m + f.take1 * (g - m);
    m = m + f.take2 * (g - m);
    p = p * shrink - stepSize * (static_cast<float>(blend > 0) - static_cast<float>(blend < 0));
  }
};

struct Sgd {
  static constexpr int moments = 1;
  static __device__ __forceinline__ void step(const Factors &f, float stepSize, float decay,
                                              float &p, float g, float &m, float &) {
    g += decay * p;
    m = f.keep1 * m + g;
    p = p - stepSize * (f.nesterov ? g + f.keep1 * m : m);
  }
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_UPDATERULES_H
