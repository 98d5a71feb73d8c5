//===- UpdateConstants.h - What a step's options make of a rule's constants -------------------===//
//
// One computation for all backends.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_UPDATECONSTANTS_H
#define RUNTIME_DEVICE_UPDATECONSTANTS_H

#include "runtime/device/UpdateFactors.h"
#include "runtime/device/UpdateOptions.h"
#include <cmath>

namespace omnibal::rt {

/// 1 - beta^step, by which Adam's moments are too small; other rules have no such correction.
inline double correctionOf(const UpdateOptions &options, double beta) {
  return isAdam(options.kind) ? 1 - std::pow(beta, static_cast<double>(options.step)) : 1;
}

/// What all parameters have in common.
inline UpdateFactors factorsOf(const UpdateOptions &options) {
  const bool isSgd = options.kind == OptimizerKind::Sgd;
  UpdateFactors factors = {};
  factors.gradientScale = static_cast<float>(options.gradientScale);
  factors.keep1 = static_cast<float>(isSgd ? options.momentum : options.beta1);
  factors.take1 = static_cast<float>(1 - options.beta1);
  factors.keep2 = static_cast<float>(options.beta2);
  factors.take2 = static_cast<float>(1 - options.beta2);
  factors.rootScale = static_cast<float>(1 / std::sqrt(correctionOf(options, options.beta2)));
  factors.epsilon = static_cast<float>(options.epsilon);
  factors.nesterov = options.nesterov;
  factors.zeroGradients = options.zeroGradients;
  return factors;
}

/// With those of a group of parameters.
inline UpdateFactors atRate(UpdateFactors factors, const UpdateOptions &options,
                            const UpdateRate &rate) {
  factors.stepSize = static_cast<float>(rate.learningRate / correctionOf(options, options.beta1));
  factors.shrink = static_cast<float>(1 - rate.learningRate * rate.weightDecay);
  factors.decay = static_cast<float>(rate.weightDecay);
  return factors;
}

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_UPDATECONSTANTS_H
