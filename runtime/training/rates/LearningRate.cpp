#include "runtime/training/rates/LearningRate.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace omnibal::rt {
namespace {

template <typename Value>
std::string nameIn(const std::map<std::string, Value> &names, const Value &value) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const auto &entry) { return entry.second == value; });
  return found->first;
}

double halfCosine(double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * progress)); }

/// From 1 to 0.
double decayed(DecayShape shape, double progress) {
  switch (shape) {
  case DecayShape::Linear:
    return 1 - progress;
  case DecayShape::Cosine:
    return halfCosine(progress);
  case DecayShape::OneMinusSqrt:
    return 1 - std::sqrt(progress);
  }
  return 0;
}

double stableThenDecayed(const LearningRateOptions &o, int64_t step, int64_t steps) {
  const int64_t decay = o.decaySteps.value_or(0);
  const int64_t into = step - std::max(steps - decay, o.warmupSteps);
  if (into <= 0)
    return 1;
  return decayed(o.decayShape.value_or(DecayShape::Cosine),
                 std::min(1.0, static_cast<double>(into) / static_cast<double>(decay)));
}

/// The part of the way from the end to the peak.
double factorAt(const LearningRateOptions &o, int64_t step, int64_t steps) {
  const double span = static_cast<double>(std::max<int64_t>(1, steps - o.warmupSteps));
  const double progress = std::min(1.0, static_cast<double>(step - o.warmupSteps) / span);
  switch (o.schedule) {
  case LearningRateSchedule::Constant:
    return 1;
  case LearningRateSchedule::Linear:
    return 1 - progress;
  case LearningRateSchedule::Cosine:
    return halfCosine(progress);
  case LearningRateSchedule::WarmupStableDecay:
    return stableThenDecayed(o, step, steps);
  case LearningRateSchedule::CosineRestarts:
    return progress >= 1
               ? 0
               : halfCosine(std::fmod(static_cast<double>(o.cycles.value_or(1)) * progress, 1.0));
  case LearningRateSchedule::Polynomial:
    return std::pow(1 - progress, o.power.value_or(1));
  }
  return 1;
}

} // namespace

const std::map<std::string, LearningRateSchedule> &learningRateSchedules() {
  static const std::map<std::string, LearningRateSchedule> names = {
      {"constant", LearningRateSchedule::Constant},
      {"linear", LearningRateSchedule::Linear},
      {"cosine", LearningRateSchedule::Cosine},
      {"wsd", LearningRateSchedule::WarmupStableDecay},
      {"cosine-restarts", LearningRateSchedule::CosineRestarts},
      {"polynomial", LearningRateSchedule::Polynomial}};
  return names;
}

const std::map<std::string, DecayShape> &decayShapes() {
  static const std::map<std::string, DecayShape> names = {{"linear", DecayShape::Linear},
                                                          {"cosine", DecayShape::Cosine},
                                                          {"1-sqrt", DecayShape::OneMinusSqrt}};
  return names;
}

std::string nameOf(LearningRateSchedule schedule) {
  return nameIn(learningRateSchedules(), schedule);
}
std::string nameOf(DecayShape shape) { return nameIn(decayShapes(), shape); }

std::string problemOf(const LearningRateOptions &o) {
  const auto goesWith = [&](const char *flag, bool given, LearningRateSchedule schedule) {
    return given && o.schedule != schedule
               ? std::string(flag) + " goes with --schedule-lr " + nameOf(schedule) +
                     ", and the schedule is " + nameOf(o.schedule)
               : "";
  };
  for (std::string problem :
       {goesWith("--decay-steps", o.decaySteps.has_value(),
                 LearningRateSchedule::WarmupStableDecay),
        goesWith("--decay-shape", o.decayShape.has_value(),
                 LearningRateSchedule::WarmupStableDecay),
        goesWith("--lr-cycles", o.cycles.has_value(), LearningRateSchedule::CosineRestarts),
        goesWith("--lr-power", o.power.has_value(), LearningRateSchedule::Polynomial)})
    if (!problem.empty())
      return problem;
  return o.schedule == LearningRateSchedule::WarmupStableDecay && !o.decaySteps
             ? "--schedule-lr wsd needs --decay-steps, how many steps the decay at the end takes"
             : "";
}

std::string problemOf(const LearningRateOptions &o, int64_t steps) {
  if (o.schedule != LearningRateSchedule::WarmupStableDecay ||
      o.warmupSteps + o.decaySteps.value_or(0) <= steps)
    return "";
  return "warm-up and decay take " + std::to_string(o.warmupSteps) + " and " +
         std::to_string(o.decaySteps.value_or(0)) + " steps, more than the run's " +
         std::to_string(steps) + " (--warmup-steps, --decay-steps, --steps)";
}

double learningRateAt(const LearningRateOptions &o, int64_t step, int64_t steps) {
  if (step < o.warmupSteps)
    return o.peak * static_cast<double>(step + 1) / static_cast<double>(o.warmupSteps);
  const double factor = factorAt(o, step, steps);
  return factor == 1 ? o.peak : o.peak * (o.leastRatio + (1 - o.leastRatio) * factor);
}

} // namespace omnibal::rt
