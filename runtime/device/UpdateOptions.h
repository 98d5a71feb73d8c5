//===- UpdateOptions.h - What an update does, but for its tensors ----------------------------===//
//
// In C++17, as the kernels of cuda read it.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_UPDATEOPTIONS_H
#define RUNTIME_DEVICE_UPDATEOPTIONS_H

#include "runtime/device/OptimizerKind.h"
#include "runtime/device/UpdateRates.h"
#include <cstdint>
#include <vector>

namespace omnibal::rt {

struct UpdateOptions {
  OptimizerKind kind = OptimizerKind::AdamW;
  std::vector<UpdateRate> rates = decayAndNone(1e-3, 0.01); ///< at most mostUpdateRates
  double beta1 = 0.9, beta2 = 0.999;                        ///< of AdamW, also in Muon, and of Lion
  double epsilon = 1e-8;     ///< of AdamW, also in Muon; Adafactor's least root of a variance
  double momentum = 0.9;     ///< of SGD and Muon
  bool nesterov = false;     ///< of SGD; Muon's momentum always is
  double beta2Decay = -0.8;  ///< of Adafactor: variances keep 1 - step^beta2Decay of what they were
  double epsilon2 = 1e-3;    ///< of Adafactor: no parameter's root mean square counts less
  double updateClip = 1;     ///< of Adafactor: the largest root mean square of an update
  int64_t step = 1;          ///< 1 at the first update; sets the bias corrections
  double gradientScale = 1;  ///< multiplies every gradient first (1 / count, clipping)
  bool zeroGradients = true; ///< leaves zeros in `grad`, ready for the next step's sums
  bool scaleOfStep = false;  ///< see Backend::update
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_UPDATEOPTIONS_H
