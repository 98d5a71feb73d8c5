// Bounds against exhaustive packing of a few samples, the LP against all patterns.
#include "runtime/batching/pack/LowerBound.h"
#include "runtime/batching/Balance.h"
#include "runtime/batching/pack/ConfigurationLp.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace omnibal::rt {
namespace {

/// Fewest groups by trying everything.
class Exhaustive {
public:
  Exhaustive(const SampleLengths &lengths, Caps caps) : lengths(lengths), caps(caps) {
    best = lengths.size();
    place(0);
  }
  int64_t best;

private:
  void place(int64_t sample) {
    if (static_cast<int64_t>(groups.size()) >= best)
      return;
    if (sample == lengths.size()) {
      best = static_cast<int64_t>(groups.size());
      return;
    }
    int64_t v = lengths.tiles[sample], t = lengths.tokens[sample];
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].tiles + v > caps.tiles || groups[g].tokens + t > caps.tokens)
        continue;
      groups[g].tiles += v;
      groups[g].tokens += t;
      place(sample + 1);
      groups[g].tiles -= v;
      groups[g].tokens -= t;
    }
    groups.push_back({v, t});
    place(sample + 1);
    groups.pop_back();
  }

  const SampleLengths &lengths;
  Caps caps;
  std::vector<GroupLoad> groups;
};

TEST(LowerBound, NeverAboveTheOptimumAndOftenAtIt) {
  std::mt19937_64 random(11);
  int reached = 0, tries = 300, byLp = 0, optimal = 0;
  for (int i = 0; i < tries; ++i) {
    Caps caps{static_cast<int32_t>(4 + random() % 8), static_cast<int32_t>(50 + random() % 200)};
    SampleLengths lengths;
    int64_t n = 1 + static_cast<int64_t>(random() % 9);
    for (int64_t s = 0; s < n; ++s) {
      lengths.tiles.push_back(static_cast<int32_t>(random() % (caps.tiles * 2 / 3 + 1)));
      lengths.tokens.push_back(static_cast<int32_t>(random() % (caps.tokens * 2 / 3 + 1)));
    }
    int64_t optimum = Exhaustive(lengths, caps).best;
    BatchOptions options;
    options.tilesCap = caps.tiles;
    options.tokensCap = caps.tokens;
    auto batches = balance(lengths, options);
    ASSERT_TRUE(batches);
    EXPECT_LE(batches->lowerBound, optimum);
    EXPECT_LE(simpleBound(Histogram(lengths, caps), caps).groups, optimum);
    EXPECT_GE(batches->groups(), optimum);
    reached += batches->lowerBound == optimum;
    byLp += batches->boundMethod == "configuration-lp";
    optimal += batches->groups() == optimum;
  }
  EXPECT_GT(reached, tries * 3 / 4);
  EXPECT_GT(optimal, tries * 9 / 10);
  EXPECT_GT(byLp, 0) << "the configuration bound is never tested";
}

TEST(LowerBound, HandCounts) {
  // Ten samples of 5 tiles: no two in 9. The 3s fit beside them.
  Histogram five({{3, 10, 10}, {5, 10, 10}});
  EXPECT_EQ(simpleBound(five, {9, 4096}).groups, 10);
  EXPECT_EQ(simpleBound(five, {9, 4096}).method, "big-item");
  // 80 tiles in groups of 40, 200 tokens in groups of 30.
  EXPECT_EQ(simpleBound(five, {40, 4096}).groups, 2);
  EXPECT_EQ(simpleBound(five, {40, 30}).groups, 7);
  EXPECT_EQ(simpleBound(five, {40, 30}).method, "sum");
  // Martello and Toth: 6 over 7 of 10 are alone, the 4s do not fit beside 7 and go in pairs.
  EXPECT_EQ(simpleBound(Histogram({{4, 1, 6}, {7, 1, 6}}), {10, 100}).groups, 9);
}

/// All patterns that fit, maximal or not.
void patternsOf(const std::vector<LpType> &types, size_t type, int32_t tiles, double tokens,
                std::vector<int32_t> &counts, std::vector<std::vector<int32_t>> &patterns) {
  if (type == types.size()) {
    patterns.push_back(counts);
    return;
  }
  for (int32_t k = 0; k * types[type].tiles <= tiles && k * types[type].tokens <= tokens; ++k) {
    counts.push_back(k);
    patternsOf(types, type + 1, tiles - k * types[type].tiles, tokens - k * types[type].tokens,
               counts, patterns);
    counts.pop_back();
  }
}

TEST(ConfigurationLp, OptimalAgainstAllPatterns) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 60; ++i) {
    int32_t tilesCap = 6 + static_cast<int32_t>(random() % 10), tokensCap = 60;
    std::vector<LpType> types;
    for (size_t t = 0; t < 2 + random() % 4; ++t)
      types.push_back({static_cast<int32_t>(1 + random() % (tilesCap / 2)),
                       static_cast<double>(10 + random() % 30),
                       static_cast<double>(1 + random() % 1000)});
    LpSolution lp = solveConfigurationLp(types, tilesCap, tokensCap);
    std::vector<std::vector<int32_t>> patterns;
    std::vector<int32_t> counts;
    patternsOf(types, 0, tilesCap, tokensCap, counts, patterns);

    // The solution is feasible: patterns fit and cover the counts.
    std::vector<double> covered(types.size(), 0);
    double value = 0;
    for (size_t p = 0; p < lp.patterns.size(); ++p) {
      int64_t tiles = 0;
      double tokens = 0;
      for (auto [type, times] : lp.patterns[p]) {
        tiles += int64_t(times) * types[type].tiles;
        tokens += times * types[type].tokens;
        covered[type] += times * lp.uses[p];
      }
      EXPECT_TRUE(tiles <= tilesCap && tokens <= tokensCap);
      value += lp.uses[p];
    }
    for (size_t t = 0; t < types.size(); ++t)
      EXPECT_GE(covered[t], types[t].count * (1 - 1e-6));
    EXPECT_NEAR(value, lp.value, 1e-6 * value);

    // The prices prove it optimal: no pattern at all is worth more than one, and their sum is the
    // value.
    double most = 0, sum = 0;
    for (const std::vector<int32_t> &pattern : patterns) {
      double worth = 0;
      for (size_t t = 0; t < types.size(); ++t)
        worth += pattern[t] * lp.prices[t];
      most = std::max(most, worth);
    }
    for (size_t t = 0; t < types.size(); ++t)
      sum += types[t].count * lp.prices[t];
    EXPECT_LE(lp.bound, sum / std::max(1.0, most) * (1 + 1e-6));
    EXPECT_NEAR(lp.bound, lp.value, 1e-5 * lp.value);
  }
}

TEST(ConfigurationLp, CoarseUnitsLoseLittle) {
  // Three of 1365 tokens are 4095: rounded up to units of 64 only two would fit.
  std::vector<LpType> types = {{1, 1365, 900}};
  EXPECT_NEAR(solveConfigurationLp(types, 16, 4096, 64).value, 300, 1);
}

} // namespace
} // namespace omnibal::rt
