#include "runtime/training/RunOptions.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace omnibal::rt {

bool RunOptions::isCheckpointTime(std::chrono::duration<double> sinceLast) const {
  const std::chrono::duration<double, std::ratio<60>> wanted(checkpointMinutes);
  return checkpointEvery == 0 && checkpointMinutes > 0 && sinceLast >= wanted;
}

double learningRateAt(const RunOptions &o, int64_t step, int64_t steps) {
  if (step < o.warmupSteps)
    return o.learningRate * static_cast<double>(step + 1) / static_cast<double>(o.warmupSteps);
  if (o.schedule == LearningRateSchedule::Constant)
    return o.learningRate;
  double span = static_cast<double>(std::max<int64_t>(1, steps - o.warmupSteps));
  double progress = std::min(1.0, static_cast<double>(step - o.warmupSteps) / span);
  double factor = o.schedule == LearningRateSchedule::Linear
                      ? 1 - progress
                      : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return o.learningRate * (o.minLearningRateRatio + (1 - o.minLearningRateRatio) * factor);
}

} // namespace omnibal::rt
