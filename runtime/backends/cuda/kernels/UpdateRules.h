//===- UpdateRules.h - What an update does with one value, and its constants ------------------===//
//
// Only .cu files include this header.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_UPDATERULES_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_UPDATERULES_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Update.h"
#include "runtime/device/UpdateConstants.h"

namespace omnibal::rt::cuda {

/// Of the groups of parameters: lr / bias correction 1, and 1 - lr * decay or, for SGD, the decay.
struct Rates {
  float stepSize[mostUpdateRates], shrink[mostUpdateRates];
};

/// With at most mostUpdateRates rates.
inline Rates ratesOf(const UpdateOptions &options, const UpdateFactors &factors) {
  Rates rates = {};
  for (size_t r = 0; r < options.rates.size(); ++r) {
    const UpdateFactors f = atRate(factors, options, options.rates[r]);
    rates.stepSize[r] = f.stepSize;
    rates.shrink[r] = options.kind == OptimizerKind::Sgd ? f.decay : f.shrink;
  }
  return rates;
}

/// Multiplies the gradients by the step's scale, too, if there is one; false where that is not a
/// number: then nothing is done.
__device__ __forceinline__ bool takeScale(UpdateFactors &f, const float *deviceScale) {
  if (!deviceScale)
    return true;
  f.gradientScale *= *deviceScale;
  return *deviceScale == *deviceScale;
}

/// One value of each rule: p and the moments change by g, which is scaled already.
struct AdamW {
  static constexpr int moments = 2;
  static __device__ __forceinline__ void step(const UpdateFactors &f, float stepSize, float shrink,
                                              float &p, float g, float &m, float &v) {
    m = m + f.take1 * (g - m);
    v = f.keep2 * v + f.take2 * g * g;
    p = p * shrink - stepSize * (m / (sqrtf(v) * f.rootScale + f.epsilon));
  }
};

struct Lion {
  static constexpr int moments = 1;
  static __device__ __forceinline__ void step(const UpdateFactors &f, float stepSize, float shrink,
                                              float &p, float g, float &m, float &) {
    const float blend = m + f.take1 * (g - m);
    m = m + f.take2 * (g - m);
    p = p * shrink - stepSize * (static_cast<float>(blend > 0) - static_cast<float>(blend < 0));
  }
};

struct Sgd {
  static constexpr int moments = 1;
  static __device__ __forceinline__ void step(const UpdateFactors &f, float stepSize, float decay,
                                              float &p, float g, float &m, float &) {
    g += decay * p;
    m = f.keep1 * m + g;
    p = p - stepSize * (f.nesterov ? g + f.keep1 * m : m);
  }
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_UPDATERULES_H
