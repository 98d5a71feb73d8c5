//===- PartitionTest.cpp - Cuts against brute force --------------------------------------===//
#include "runtime/planner/model/Partition.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace omnibal::planner;

namespace {

Problem problemOf(const std::vector<int64_t> &times, int64_t stages) {
  Problem problem;
  for (size_t i = 0; i < times.size(); ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.forwardNs = times[i];
    layer.paramBytes = 1000 - times[i];
    layer.remat = {{"keep", 0, 0, 0}};
    problem.layers.push_back(layer);
  }
  problem.cluster.stages = stages;
  return problem;
}

int64_t largestSum(const std::vector<int64_t> &weights, const std::vector<int64_t> &cuts) {
  int64_t largest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    int64_t sum = 0;
    for (int64_t l = cuts[s]; l < cuts[s + 1]; ++l)
      sum += weights[l];
    largest = std::max(largest, sum);
  }
  return largest;
}

/// Least largest sum over all ways to cut, by enumeration.
int64_t bruteForce(const std::vector<int64_t> &weights, int64_t stages, size_t from = 0) {
  if (stages == 1) {
    int64_t sum = 0;
    for (size_t i = from; i < weights.size(); ++i)
      sum += weights[i];
    return sum;
  }
  int64_t best = INT64_MAX, head = 0;
  for (size_t i = from; i + stages <= weights.size(); ++i) {
    head += weights[i];
    best = std::min(best, std::max(head, bruteForce(weights, stages - 1, i + 1)));
  }
  return best;
}

TEST(Partition, LayerCountsDifferByAtMostOne) {
  Problem problem = problemOf(std::vector<int64_t>(11, 1), 4);
  EXPECT_EQ(cutsByLayerCount(problem), (std::vector<int64_t>{0, 3, 6, 9, 11}));
}

TEST(Partition, BalancedCutsEqualBruteForce) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> times(3 + random() % 8), parameters;
    for (int64_t &time : times)
      time = 1 + random() % 100;
    int64_t stages = 1 + random() % times.size();
    Problem problem = problemOf(times, stages);
    for (const Layer &layer : problem.layers)
      parameters.push_back(layer.paramBytes);
    for (auto [cuts, weights] : {std::pair(cutsByTime(problem), times),
                                 std::pair(cutsByParameters(problem), parameters)}) {
      ASSERT_EQ(static_cast<int64_t>(cuts.size()), stages + 1);
      EXPECT_EQ(cuts.front(), 0);
      EXPECT_EQ(cuts.back(), static_cast<int64_t>(times.size()));
      for (int64_t s = 0; s < stages; ++s)
        EXPECT_LT(cuts[s], cuts[s + 1]);
      EXPECT_EQ(largestSum(weights, cuts), bruteForce(weights, stages));
    }
  }
}

/// What dynamic programming over all cuts gives, ties to the earliest ones.
std::vector<int64_t> byDynamicProgramming(const std::vector<int64_t> &weights, int64_t stages) {
  int64_t n = static_cast<int64_t>(weights.size());
  auto sum = [&](int64_t a, int64_t b) {
    return std::accumulate(weights.begin() + a, weights.begin() + b, int64_t{0});
  };
  std::vector<std::vector<int64_t>> best(stages + 1, std::vector<int64_t>(n + 1, INT64_MAX));
  std::vector<std::vector<int64_t>> from(stages + 1, std::vector<int64_t>(n + 1, 0));
  best[0][0] = 0;
  for (int64_t k = 1; k <= stages; ++k)
    for (int64_t i = k; i <= n; ++i)
      for (int64_t j = k - 1; j < i; ++j)
        if (int64_t largest = std::max(best[k - 1][j], sum(j, i)); largest < best[k][i]) {
          best[k][i] = largest;
          from[k][i] = j;
        }
  std::vector<int64_t> cuts(stages + 1, n);
  for (int64_t k = stages; k > 0; --k)
    cuts[k - 1] = from[k][cuts[k]];
  return cuts;
}

TEST(Partition, IsWhatDynamicProgrammingGives) {
  std::mt19937_64 engine(7);
  for (int round = 0; round < 2000; ++round) {
    Problem problem;
    int64_t layers = 1 + static_cast<int64_t>(engine() % 14);
    problem.cluster.stages = 1 + static_cast<int64_t>(engine() % layers);
    std::vector<int64_t> weights;
    for (int64_t l = 0; l < layers; ++l) {
      weights.push_back(static_cast<int64_t>(engine() % 5)); // many ties, many zeros
      Layer layer;
      layer.paramBytes = weights.back();
      problem.layers.push_back(layer);
    }
    ASSERT_EQ(cutsByParameters(problem), byDynamicProgramming(weights, problem.cluster.stages))
        << round;
  }
}

} // namespace
