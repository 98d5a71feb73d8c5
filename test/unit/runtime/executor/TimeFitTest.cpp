#include "runtime/executor/TimeFit.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace omnibal::rt {
namespace {

constexpr TimeFit::Use everything = {true, true, true, true, true};

/// (V, N, sum of squares, labels) that do not lie on one line in any pair.
std::vector<TimedLoad> someLoads() {
  return {{8, 1000, 1000000, 400, 0}, {8, 1000, 250000, 400, 0}, {4, 500, 250000, 200, 0},
          {2, 750, 281250, 300, 0},   {6, 250, 62500, 100, 0},   {4, 1000, 500000, 200, 0}};
}

std::vector<TimedLoad> timed(std::vector<TimedLoad> loads, double fixed, double tile, double token,
                             double square, double label) {
  for (TimedLoad &l : loads)
    l.ns = fixed + tile * l.tiles + token * l.tokens + square * l.squaredTokens + label * l.labels;
  return loads;
}

TEST(TimeFit, FindsTheTermsThatMadeTheTimes) {
  TimeFit fit = fitTimes(timed(someLoads(), 5000, 1200, 30, 0.02, 70), everything);
  EXPECT_NEAR(fit.ns[TimeFit::Fixed], 5000, 0.01);
  EXPECT_NEAR(fit.ns[TimeFit::Tile], 1200, 0.01);
  EXPECT_NEAR(fit.ns[TimeFit::Token], 30, 1e-4);
  EXPECT_NEAR(fit.ns[TimeFit::Square], 0.02, 1e-7);
  EXPECT_NEAR(fit.ns[TimeFit::Label], 70, 1e-4);
  EXPECT_LT(fit.error, 1e-9);
  // A load that was not measured.
  EXPECT_NEAR(fit.at({1, 100, 10000, 10, 0}), 5000 + 1200 + 3000 + 200 + 700, 0.1);
}

TEST(TimeFit, TellsUnitsFromTheSquaresOfPictures) {
  // (V, squares of pictures) of a vision layer; N makes no difference to it.
  std::vector<TimedLoad> loads;
  for (auto [units, squares] : {std::pair{8, 64}, {8, 16}, {4, 16}, {2, 2}, {6, 36}, {4, 8}}) {
    TimedLoad load{units, 1000, 1000000, 400, 300.0 + 50 * units + 7 * squares, squares};
    loads.push_back(load);
  }
  TimeFit fit = fitTimes(loads, {true, true, false, false, false, true});
  EXPECT_NEAR(fit.ns[TimeFit::Fixed], 300, 1e-3);
  EXPECT_NEAR(fit.ns[TimeFit::Tile], 50, 1e-3);
  EXPECT_NEAR(fit.ns[TimeFit::TileSquare], 7, 1e-3);
  EXPECT_NEAR(fit.at({10, 1, 1, 1, 0, 52}), 300 + 500 + 364, 0.01);
  EXPECT_GT(fitTimes(loads, {true, true, false, false, false, false}).error, 0.01);
}

TEST(TimeFit, LeavesOutTermsThatCannotBe) {
  TimeFit fit = fitTimes(timed(someLoads(), 100, 50, 0, 0, 0), {true, false, true, false, false});
  EXPECT_EQ(fit.ns[TimeFit::Tile], 0);
  EXPECT_EQ(fit.ns[TimeFit::Square], 0);
  EXPECT_GT(fit.error, 0.01); // tokens do not explain it
}

TEST(TimeFit, NoCoefficientIsNegative) {
  // Falls with tokens at equal tiles: the free fit has a negative term.
  std::vector<TimedLoad> loads = {{4, 100, 0, 0, 500}, {4, 200, 0, 0, 400}, {8, 100, 0, 0, 900}};
  TimeFit fit = fitTimes(loads, {true, true, true, false, false});
  for (double ns : fit.ns)
    EXPECT_GE(ns, 0);
  EXPECT_EQ(fit.ns[TimeFit::Token], 0);
}

/// The squared relative error of a fit.
double errorOf(const std::vector<TimedLoad> &loads, const TimeFit &fit) {
  double sum = 0;
  for (const TimedLoad &l : loads)
    sum += std::pow(fit.at(l) / l.ns - 1, 2);
  return sum;
}

TEST(TimeFit, NoNeighborIsBetter) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(0.8, 1.2), scale(0, 1);
  for (int round = 0; round < 50; ++round) {
    auto loads = timed(someLoads(), 1e4 * scale(random), 5000 * scale(random), 40 * scale(random),
                       0.05 * scale(random), 90 * scale(random));
    for (TimedLoad &l : loads)
      l.ns *= noise(random);
    TimeFit fit = fitTimes(loads, everything);
    double best = errorOf(loads, fit);
    double units[] = {1e4, 5000, 40, 0.05, 90, 10};
    static_assert(std::size(units) == TimeFit::Terms);
    for (int t = 0; t < TimeFit::Terms; ++t)
      for (double step : {-1e-3, -1e-1, 1e-3, 1e-1}) {
        TimeFit other = fit;
        other.ns[t] = std::max(0.0, other.ns[t] + step * units[t]);
        EXPECT_GE(errorOf(loads, other), best * (1 - 1e-9)) << round << " " << t << " " << step;
      }
  }
}

TEST(TimeFit, FewOrNoMeasurements) {
  EXPECT_EQ(fitTimes({}, everything).at({1, 1, 1, 1, 0}), 0);
  std::vector<TimedLoad> nothing = {{1, 1, 1, 1, 0}};
  EXPECT_EQ(fitTimes(nothing, everything).at({1, 1, 1, 1, 0}), 0);
  std::vector<TimedLoad> one = {{2, 10, 100, 5, 300}};
  TimeFit fit = fitTimes(one, everything);
  EXPECT_NEAR(fit.at(one[0]), 300, 1e-6);
  // The same load twice: the terms cannot be told apart, the time still holds.
  std::vector<TimedLoad> twice = {{2, 10, 100, 5, 300}, {2, 10, 100, 5, 300}};
  EXPECT_NEAR(fitTimes(twice, everything).at(one[0]), 300, 1e-6);
}

} // namespace
} // namespace omnibal::rt
