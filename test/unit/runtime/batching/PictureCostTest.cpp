// Costs of attention within pictures: squares by hand, rows against all rows that there are.
#include "runtime/batching/AutoCaps.h"
#include "runtime/batching/rows/Imbalance.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace omnibal::rt {
namespace {

TEST(PictureCost, SquaresByHand) {
  // Pictures of 5 and 3 units, of 8, of none; then a table that does not say.
  SampleLengths known{{8, 8, 0}, {20, 20, 7}, {34, 64, 0}}, unknown{{8, 1}, {9, 9}};
  EXPECT_EQ(known.squaredTilesOf(0), 34);
  EXPECT_EQ(unknown.squaredTilesOf(0), 64); // one picture
  LoadSums sums;
  for (int64_t i : {0, 1, 2})
    sums.add(known, i);
  EXPECT_EQ(sums.tiles, 16);
  EXPECT_EQ(sums.tokens, 47);
  EXPECT_EQ(sums.squaredTokens, 849);
  EXPECT_EQ(sums.squaredTiles, 98);
  EXPECT_DOUBLE_EQ((LoadCost{3, 2, 0.5, 10}.of(sums)), 48 + 94 + 424.5 + 980);
  EXPECT_TRUE((LoadCost{0, 0, 0, 1}.isSet()));
}

TEST(PictureCost, TablesOfBothKindsInOne) {
  SampleLengths known{{8, 2}, {20, 3}, {34, 4}}, unknown{{8}, {9}}, all;
  all.add(unknown, 0);
  EXPECT_FALSE(all.knowsPictures());
  all.add(known, 0);
  all.add(unknown, 0);
  all.add(known, 1);
  EXPECT_EQ(all.squaredTiles,
            (std::vector<int64_t>{SampleLengths::unknown, 34, SampleLengths::unknown, 4}));
  EXPECT_EQ(all.tiles, (std::vector<int32_t>{8, 8, 8, 2}));
  EXPECT_EQ(all.tokens, (std::vector<int32_t>{9, 20, 9, 3}));
  EXPECT_EQ(all.squaredTilesOf(0), 64);
  EXPECT_EQ(all.squaredTilesOf(1), 34);
}

TEST(PictureCost, ImbalanceByHand) {
  // Equal units and tokens; one picture of 8 beside two of 4: 64 and 32.
  SampleLengths lengths{{8, 8}, {30, 30}, {64, 32}};
  Batches batches;
  batches.samples = {0, 1};
  batches.offsets = {0, 1, 2};
  LoadCost squares{0, 0, 0, 1}, mixed{1, 0.5, 0.01, 2};
  EXPECT_DOUBLE_EQ(statistics(lengths, batches, 2, squares).distRatioCost, 1 - 48. / 64);
  // 8 + 15 + 9 + 128 and 8 + 15 + 9 + 64.
  EXPECT_DOUBLE_EQ(statistics(lengths, batches, 2, mixed).distRatioCost, 1 - 128. / 160);
  EXPECT_EQ(statistics(lengths, batches, 2, {1, 1, 1}).distRatioCost, 0);
  EXPECT_DOUBLE_EQ(unbalancedStatistics(lengths, batches, 2, 1, squares).distRatioCost,
                   1 - 48. / 64);
  lengths.squaredTiles.clear(); // two samples of one picture
  EXPECT_EQ(statistics(lengths, batches, 2, squares).distRatioCost, 0);
}

/// A sample a group: `units` are the cap.
BatchOptions alone(int32_t ranks, LoadCost cost) {
  BatchOptions options;
  options.tilesCap = 8;
  options.tokensCap = 1000;
  options.ranks = ranks;
  options.cost = cost;
  return options;
}

TEST(PictureCost, LikePicturesRunTogether) {
  // Eight samples of eight units: two of each of four ways to cut them into pictures.
  SampleLengths lengths{
      std::vector<int32_t>(8, 8), std::vector<int32_t>(8, 100), {64, 8, 32, 64, 16, 32, 8, 16}};
  double without = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    BatchOptions options = alone(2, {1, 1, 1, 100});
    options.seed = seed;
    auto batches = balance(lengths, options);
    ASSERT_TRUE(batches) << batches.status().message();
    ASSERT_EQ(batches->groups(), 8);
    for (int64_t g = 0; g < 8; g += 2)
      EXPECT_EQ(lengths.squaredTiles[batches->samples[g]],
                lengths.squaredTiles[batches->samples[g + 1]]);
    LoadCost balanced = options.cost;
    options.cost.tileSquareNs = 0;
    without += statistics(lengths, *balance(lengths, options), 2, balanced).distRatioCost / 20;
  }
  EXPECT_GT(without, 0.05); // counts do not tell them apart
}

/// The least sum over rows of the largest cost, of all ways to divide the groups into rows: what
/// the ranks of all rows wait for.
double leastWait(std::vector<double> costs, int32_t ranks) {
  if (costs.empty())
    return 0;
  double best = INFINITY, first = costs.back();
  costs.pop_back();
  // Everybody who could be in the row of the first.
  std::vector<bool> chosen(costs.size());
  std::fill_n(chosen.begin(), ranks - 1, true);
  do {
    double most = first;
    std::vector<double> rest;
    for (size_t i = 0; i < costs.size(); ++i)
      chosen[i] ? void(most = std::max(most, costs[i])) : rest.push_back(costs[i]);
    best = std::min(best, most + leastWait(rest, ranks));
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return best;
}

double waitOf(const std::vector<double> &costs, int32_t ranks) {
  double sum = 0;
  for (size_t row = 0; row < costs.size(); row += ranks)
    sum += *std::max_element(costs.begin() + row, costs.begin() + row + ranks);
  return sum;
}

/// Pictures of few sizes, as many as there are units.
SampleLengths drawn(int64_t samples, std::mt19937 &random, bool equalUnits) {
  SampleLengths lengths;
  for (int64_t i = 0; i < samples; ++i) {
    int32_t units = equalUnits ? 8 : static_cast<int32_t>(4 + random() % 5);
    int64_t squares = 0;
    for (int32_t left = units; left > 0;) {
      int32_t picture = 1 + static_cast<int32_t>(random() % left);
      squares += picture * picture;
      left -= picture;
    }
    lengths.tiles.push_back(units);
    lengths.tokens.push_back(equalUnits ? 50 : units + static_cast<int32_t>(random() % 40));
    lengths.squaredTiles.push_back(squares);
  }
  return lengths;
}

TEST(PictureCost, NoRowsWaitLess) {
  std::mt19937 random(1);
  int optimal = 0, all = 0;
  for (bool equalUnits : {true, false})
    for (auto [samples, ranks] : {std::pair{8, 2}, {9, 3}, {8, 4}})
      for (int round = 0; round < 20; ++round) {
        SampleLengths lengths = drawn(samples, random, equalUnits);
        BatchOptions options = alone(ranks, {1, 1, 0.01, 2});
        options.tokensCap = 50;
        options.oversize = Oversize::OwnGroup; // none of 5 units and more has room for another
        auto batches = balance(lengths, options);
        ASSERT_TRUE(batches) << batches.status().message();
        std::vector<double> costs;
        for (int64_t g = 0; g < batches->groups(); ++g) {
          LoadSums sums;
          for (int64_t i = batches->offsets[g]; i < batches->offsets[g + 1]; ++i)
            sums.add(lengths, batches->samples[i]);
          costs.push_back(options.cost.of(sums));
        }
        double wait = waitOf(costs, ranks), least = leastWait(costs, ranks);
        EXPECT_LE(wait, 1.05 * least);
        optimal += wait <= least * (1 + 1e-12);
        ++all;
      }
  EXPECT_GE(optimal, 0.9 * all);
}

TEST(PictureCost, TimeGoesBeforeCountsThatCannotBeAlike) {
  // Hundreds of different pictures: no rows have equal units and equal tokens.
  std::mt19937 random(2);
  SampleLengths lengths;
  for (int64_t i = 0; i < 4000; ++i) {
    int64_t units = 0, squares = 0;
    for (uint32_t pictures = random() % 4; pictures > 0; --pictures) {
      int64_t picture = 20 + static_cast<int64_t>(random() % 1000);
      units += picture;
      squares += picture * picture;
    }
    lengths.tiles.push_back(static_cast<int32_t>(units));
    lengths.tokens.push_back(static_cast<int32_t>(units + 20 + random() % 900));
    lengths.squaredTiles.push_back(squares);
  }
  BatchOptions options;
  options.tilesCap = 6144;
  options.tokensCap = 9000;
  options.ranks = 8;
  options.cost = {40000, 100000, 2, 25};
  double waits[2];
  for (double &wait : waits) {
    auto batches = balance(lengths, options);
    ASSERT_TRUE(batches) << batches.status().message();
    wait = statistics(lengths, *batches, 8, {40000, 100000, 2, 25}).distRatioCost;
    options.cost.tileSquareNs = 0;
  }
  EXPECT_LT(waits[0], 0.01);
  EXPECT_GT(waits[1], 2 * waits[0]); // balanced without the squares
}

TEST(PictureCost, CapsArePredictedWithIt) {
  // Equal samples, two fit: a row takes 1000 + 2 * (10 * 8 + 100 + 3 * 34), a step of two rows
  // that and nothing else.
  SampleLengths lengths{std::vector<int32_t>(64, 8), std::vector<int32_t>(64, 100),
                        std::vector<int64_t>(64, 34)};
  AutoCapsOptions options;
  options.ranks = 2;
  options.samplesPerStep = 8;
  options.step.cost = {10, 1, 0, 3};
  options.step.microbatchNs = 1000;
  options.memory = {1000, 0, 62.5, 0}; // 16 units
  auto caps = chooseCaps(lengths, options);
  ASSERT_TRUE(caps) << caps.status().message();
  EXPECT_EQ(caps->chosen.tiles, 16);
  EXPECT_DOUBLE_EQ(caps->chosen.stepNs, 2 * (1000 + 2 * (80 + 100 + 102)));
}

TEST(PictureCost, ATableMustBeWhole) {
  auto batches = balance({{8, 8}, {30, 30}, {64}}, alone(1, {}));
  ASSERT_FALSE(batches);
  EXPECT_NE(batches.status().message().find("squares of pictures of 1"), std::string::npos)
      << batches.status().message();
}

} // namespace
} // namespace omnibal::rt
