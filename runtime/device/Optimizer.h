//===- Optimizer.h - What an update and the sums around it work on ------------------------===//
#ifndef RUNTIME_DEVICE_OPTIMIZER_H
#define RUNTIME_DEVICE_OPTIMIZER_H

#include "runtime/device/NormBlocks.h"
#include "runtime/device/UpdateRates.h"
#include "runtime/support/BFloat16.h"
#include <cstdint>

namespace omnibal::rt {

/// One parameter of an update.
struct AdamWTensor {
  float *param = nullptr;
  float *grad = nullptr;
  float *moment1 = nullptr;
  float *moment2 = nullptr;
  int64_t elements = 0;
  int32_t rate = 0;         ///< number in AdamWOptions::rates
  BFloat16 *copy = nullptr; ///< receives `param` rounded, if there is one
};

struct AdamWOptions {
  std::vector<UpdateRate> rates = decayAndNone(1e-3, 0.01); ///< at most mostUpdateRates
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  int64_t step = 1;          ///< 1 at the first update; sets the bias corrections
  double gradientScale = 1;  ///< multiplies every gradient first (1 / count, clipping)
  bool zeroGradients = true; ///< leaves zeros in `grad`, ready for the next step's sums
  bool scaleOfStep = false;  ///< see Backend::adamW
};

/// A run of float32 values; gradients of squaredNorm and scale.
struct FloatRun {
  float *data = nullptr;
  int64_t elements = 0;
  /// Values of its first block that lie before it, in other runs: they have sums of their own.
  int64_t phase = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_OPTIMIZER_H
