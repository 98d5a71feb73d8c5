#include "runtime/training/rates/LearningRate.h"
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace omnibal::rt {
namespace {

using nlohmann::json;

LearningRateOptions optionsOf(const json &settings, double peak) {
  LearningRateOptions o;
  o.peak = peak;
  o.schedule = learningRateSchedules().at(settings["schedule"]);
  o.warmupSteps = settings["warmup_steps"];
  o.leastRatio = settings.value("least", 0.0);
  if (settings.contains("decay_steps"))
    o.decaySteps = settings["decay_steps"];
  if (settings.contains("shape"))
    o.decayShape = decayShapes().at(settings["shape"]);
  if (settings.contains("cycles"))
    o.cycles = settings["cycles"];
  if (settings.contains("power"))
    o.power = settings["power"];
  return o;
}

/// test/scripts/schedule_reference.py
TEST(LearningRate, SchedulesArePyTorchsAndTransformers) {
  std::ifstream file(OMNIBAL_TEST_DATA "/schedules/rates.json");
  const json reference = json::parse(file);
  const int64_t steps = reference["steps"];
  for (const auto &[name, settings] : reference["cases"].items()) {
    const LearningRateOptions o = optionsOf(settings, reference["peak"]);
    EXPECT_EQ(problemOf(o), "") << name;
    EXPECT_EQ(problemOf(o, steps), "") << name;
    ASSERT_EQ(settings["rates"].size(), static_cast<size_t>(steps)) << name;
    for (int64_t s = 0; s < steps; ++s)
      EXPECT_NEAR(learningRateAt(o, s, steps), settings["rates"][s].get<double>(), 1e-15)
          << name << ", step " << s;
  }
}

TEST(LearningRate, FlagsOfOtherSchedulesAreRefused) {
  LearningRateOptions o;
  o.cycles = 3;
  EXPECT_EQ(problemOf(o), "--lr-cycles goes with --schedule-lr cosine-restarts, and the schedule "
                          "is constant");
  o.schedule = LearningRateSchedule::CosineRestarts;
  EXPECT_EQ(problemOf(o), "");
  o.schedule = LearningRateSchedule::WarmupStableDecay;
  o.cycles.reset();
  EXPECT_EQ(problemOf(o), "--schedule-lr wsd needs --decay-steps, how many steps the decay at the "
                          "end takes");
  o.warmupSteps = 4, o.decaySteps = 7;
  EXPECT_EQ(problemOf(o, 11), "");
  EXPECT_EQ(problemOf(o, 10), "warm-up and decay take 4 and 7 steps, more than the run's 10 "
                              "(--warmup-steps, --decay-steps, --steps)");
}

} // namespace
} // namespace omnibal::rt
