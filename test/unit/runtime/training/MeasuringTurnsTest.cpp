// A simulated machine whose speed changes while loads are measured on it.
#include "runtime/training/calibration/MeasuringTurns.h"
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <map>

namespace omnibal::rt {
namespace {

/// Seconds of one repeat of each load while nothing disturbs.
const std::vector<double> repeatSeconds = {1.0, 1.1, 0.5, 0.7, 0.8, 0.9};

/// By load the median of what its repeats take, where a repeat that begins at a time is longer by
/// the factor that `slowness` gives for it.
std::vector<double> measured(int rounds, const std::function<double(double)> &slowness) {
  std::vector<Seconds> shares;
  for (double seconds : repeatSeconds)
    shares.emplace_back(8 * seconds);
  std::map<size_t, std::vector<double>> repeats;
  double now = 0;
  for (const MeasuringTurn &turn : measuringTurns(shares, rounds))
    do {
      const double taken = repeatSeconds[turn.load] * slowness(now);
      repeats[turn.load].push_back(taken);
      now += taken;
    } while (now < turn.end.count());
  std::vector<double> medians;
  for (auto &[load, times] : repeats) {
    std::sort(times.begin(), times.end());
    const size_t half = times.size() / 2;
    medians.push_back(times.size() % 2 ? times[half] : (times[half - 1] + times[half]) / 2);
  }
  return medians;
}

/// How far the ratios of the measured times are from the true ones: largest over smallest.
double distortion(const std::vector<double> &times) {
  std::vector<double> factors;
  for (size_t load = 0; load < times.size(); ++load)
    factors.push_back(times[load] / repeatSeconds[load]);
  return *std::max_element(factors.begin(), factors.end()) /
             *std::min_element(factors.begin(), factors.end()) -
         1;
}

TEST(MeasuringTurns, EveryLoadHasItsShareInEveryRound) {
  const std::vector<Seconds> shares = {Seconds(4), Seconds(8)};
  const auto turns = measuringTurns(shares, 4);
  ASSERT_EQ(turns.size(), 8u);
  const std::vector<std::pair<size_t, double>> expected = {{0, 1}, {1, 3}, {1, 5},  {0, 6},
                                                           {0, 7}, {1, 9}, {1, 11}, {0, 12}};
  for (size_t turn = 0; turn < turns.size(); ++turn) {
    EXPECT_EQ(turns[turn].load, expected[turn].first);
    EXPECT_DOUBLE_EQ(turns[turn].end.count(), expected[turn].second);
  }
}

TEST(MeasuringTurns, AMachineThatBecomesSlowerDoesSoForAllLoads) {
  auto tenPercentSlowerAtTheEnd = [](double now) { return 1 + 0.1 * now / 40; };
  EXPECT_GT(distortion(measured(1, tenPercentSlowerAtTheEnd)), 0.07);
  EXPECT_LT(distortion(measured(4, tenPercentSlowerAtTheEnd)), 0.02);
}

TEST(MeasuringTurns, WhatRunsForAWhileSpoilsNoLoad) {
  auto halfSpeedForNineSeconds = [](double now) { return now > 9 && now < 18 ? 2.0 : 1.0; };
  EXPECT_GT(distortion(measured(1, halfSpeedForNineSeconds)), 0.9);
  EXPECT_LT(distortion(measured(4, halfSpeedForNineSeconds)), 1e-9);
}

} // namespace
} // namespace omnibal::rt
