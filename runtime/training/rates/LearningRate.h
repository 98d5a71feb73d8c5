//===- LearningRate.h - How the learning rate goes over a run -----------------------------===//
#ifndef RUNTIME_TRAINING_RATES_LEARNINGRATE_H
#define RUNTIME_TRAINING_RATES_LEARNINGRATE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace omnibal::rt {

enum class LearningRateSchedule {
  Constant,
  Linear,
  Cosine,
  WarmupStableDecay, ///< constant up to the last decaySteps
  CosineRestarts,    ///< as many cosines in a row as there are cycles
  Polynomial         ///< the part that is left, to a power
};

/// How the last steps of WarmupStableDecay go down, by Transformers' names.
enum class DecayShape { Linear, Cosine, OneMinusSqrt };

struct LearningRateOptions {
  double peak = 1e-4;
  double leastRatio = 0; ///< the end, as a part of the peak
  LearningRateSchedule schedule = LearningRateSchedule::Constant;
  int64_t warmupSteps = 0;
  // What one schedule reads; none: its usual value. WarmupStableDecay needs its steps.
  std::optional<int64_t> decaySteps = std::nullopt;
  std::optional<DecayShape> decayShape = std::nullopt; ///< cosine
  std::optional<int64_t> cycles = std::nullopt;        ///< 1
  std::optional<double> power = std::nullopt;          ///< 1
};

/// As flags, logs and manifests have them.
const std::map<std::string, LearningRateSchedule> &learningRateSchedules();
const std::map<std::string, DecayShape> &decayShapes();
std::string nameOf(LearningRateSchedule schedule);
std::string nameOf(DecayShape shape);

/// What is wrong with the flags of a schedule; an empty string if all is well.
std::string problemOf(const LearningRateOptions &options);
/// The same of a run of `steps`.
std::string problemOf(const LearningRateOptions &options, int64_t steps);

/// Learning rate of step `step` (from 0) of `steps`.
double learningRateAt(const LearningRateOptions &options, int64_t step, int64_t steps);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_RATES_LEARNINGRATE_H
