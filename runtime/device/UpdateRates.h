//===- UpdateRates.h - What groups of parameters are updated with -------------------------===//
#ifndef RUNTIME_DEVICE_UPDATERATES_H
#define RUNTIME_DEVICE_UPDATERATES_H

#include <cstdint>
#include <vector>

namespace omnibal::rt {

/// A step's numbers for the parameters of one group.
struct UpdateRate {
  double learningRate = 1e-3, weightDecay = 0.01;
};

/// As many fit into the parameters of a CUDA kernel.
inline constexpr int64_t mostUpdateRates = 256;

/// Of two groups: what decays, and what does not.
inline std::vector<UpdateRate> decayAndNone(double learningRate, double weightDecay) {
  return {{learningRate, weightDecay}, {learningRate, 0}};
}

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_UPDATERATES_H
