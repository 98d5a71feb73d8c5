// What every method promises, on samples of many shapes; the targets on real lengths; edge cases.
#include "runtime/batching/Balance.h"
#include "test/unit/runtime/batching/PooledLengths.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace omnibal::rt {
namespace {

constexpr BatchMethod allMethods[] = {BatchMethod::Plan, BatchMethod::Isf, BatchMethod::Random,
                                      BatchMethod::Sorted};

BatchOptions options(int64_t tiles, int64_t tokens, int32_t ranks = 1,
                     BatchMethod method = BatchMethod::Plan) {
  BatchOptions result;
  result.tilesCap = tiles;
  result.tokensCap = tokens;
  result.ranks = ranks;
  result.method = method;
  return result;
}

Batches balanced(const SampleLengths &lengths, const BatchOptions &options) {
  auto batches = balance(lengths, options);
  EXPECT_TRUE(batches) << batches.status().message();
  return batches ? *batches : Batches{};
}

std::string errorOf(const SampleLengths &lengths, const BatchOptions &options) {
  auto batches = balance(lengths, options);
  return batches ? "" : batches.status().message();
}

/// Every promise of balance() that does not depend on the method.
void expectValid(const SampleLengths &lengths, const BatchOptions &options,
                 const Batches &batches) {
  ASSERT_GE(batches.offsets.size(), 1u);
  ASSERT_EQ(batches.offsets.front(), 0);
  ASSERT_EQ(batches.offsets.back(), static_cast<int64_t>(batches.samples.size()));
  EXPECT_EQ(batches.groups() % options.ranks, 0);
  std::set<int64_t> oversize(batches.oversize.begin(), batches.oversize.end());
  std::vector<int> seen(lengths.size(), 0);
  int64_t empty = 0, filled = 0;
  for (int64_t g = 0; g < batches.groups(); ++g) {
    int64_t tiles = 0, tokens = 0, size = batches.offsets[g + 1] - batches.offsets[g];
    ASSERT_GE(size, 0);
    bool alone = false;
    for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i) {
      int64_t sample = batches.samples[i];
      ASSERT_TRUE(sample >= 0 && sample < lengths.size());
      ++seen[sample];
      tiles += lengths.tiles[sample];
      tokens += lengths.tokens[sample];
      alone = alone || oversize.count(sample) > 0;
    }
    if (alone)
      EXPECT_EQ(size, 1) << "an oversized sample has company";
    else
      EXPECT_TRUE(tiles <= options.tilesCap && tokens <= options.tokensCap) << "group " << g;
    ++(size == 0 ? empty : filled);
  }
  for (int64_t s = 0; s < lengths.size(); ++s) {
    bool over = lengths.tiles[s] > options.tilesCap || lengths.tokens[s] > options.tokensCap;
    EXPECT_EQ(oversize.count(s), over) << "sample " << s;
    EXPECT_EQ(seen[s], over && options.oversize == Oversize::Skip ? 0 : 1) << "sample " << s;
  }
  // Only where no group is left to split may one be empty.
  if (empty > 0)
    EXPECT_EQ(filled, static_cast<int64_t>(batches.samples.size()));
  EXPECT_LE(batches.lowerBound, filled);
  EXPECT_GE(batches.lowerBound, batches.samples.empty() ? 0 : 1);
}

/// Samples of one of several shapes.
SampleLengths shapedLengths(int shape, int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> text(5.5, 1.1);
  SampleLengths lengths;
  for (int64_t i = 0; i < n; ++i) {
    int32_t tiles = 0, tokens = 0;
    switch (shape) {
    case 0: // pictures of 1 to 5 tiles
      tiles = 1 + static_cast<int32_t>(random() % 5);
      tokens = tiles * 256 + static_cast<int32_t>(random() % 300);
      break;
    case 1: // text alone
      tokens = static_cast<int32_t>(std::min(4000.0, text(random)));
      break;
    case 2: // many pictures, few tokens
      tiles = static_cast<int32_t>(random() % 13);
      tokens = static_cast<int32_t>(random() % 40);
      break;
    case 3: // all equal
      tiles = 3;
      tokens = 1365;
      break;
    case 4: // some over the caps, some without tokens, some without anything
      tiles = static_cast<int32_t>(random() % 16);
      tokens = random() % 4 == 0 ? 0 : static_cast<int32_t>(random() % 5000);
      tiles = random() % 8 == 0 ? 0 : tiles;
      break;
    case 5: // nothing at all
      break;
    }
    lengths.tiles.push_back(tiles);
    lengths.tokens.push_back(tokens);
  }
  return lengths;
}

TEST(Balance, HoldsItsPromisesForAllMethodsSeedsAndSizes) {
  for (int shape = 0; shape < 6; ++shape)
    for (int64_t n : {1, 2, 3, 7, 8, 40, 333, 3000})
      for (int32_t ranks : {1, 2, 8, 100})
        for (BatchMethod method : allMethods)
          for (Oversize oversize : {Oversize::OwnGroup, Oversize::Skip}) {
            SampleLengths lengths = shapedLengths(shape, n, static_cast<uint64_t>(n) + shape);
            BatchOptions o = options(12, 4096, ranks, method);
            o.oversize = oversize;
            o.seed = static_cast<uint64_t>(n + ranks);
            SCOPED_TRACE("shape " + std::to_string(shape) + ", " + std::to_string(n) +
                         " samples, " + std::to_string(ranks) + " ranks, method " +
                         std::to_string(static_cast<int>(method)));
            auto batches = balance(lengths, o);
            if (!batches) { // only when nothing is left
              EXPECT_EQ(oversize, Oversize::Skip);
              EXPECT_NE(batches.status().message().find("skipped"), std::string::npos);
              continue;
            }
            expectValid(lengths, o, *batches);
            if (HasFatalFailure())
              return;
          }
}

TEST(Balance, NeverMoreGroupsThanIsf) {
  for (int shape = 0; shape < 5; ++shape)
    for (int64_t n : {5, 20, 77, 400, 3000})
      for (uint64_t seed : {1, 2})
        for (auto [tiles, tokens] : {std::pair(12, 4096), {9, 2000}, {40, 8192}}) {
          SampleLengths lengths = shapedLengths(shape, n, seed);
          BatchOptions o = options(tiles, tokens, 4);
          o.seed = seed;
          o.oversize = Oversize::OwnGroup;
          int64_t plan = balanced(lengths, o).groups();
          o.method = BatchMethod::Isf;
          EXPECT_LE(plan, balanced(lengths, o).groups())
              << "shape " << shape << ", " << n << " samples, seed " << seed << ", " << tiles
              << " tiles";
        }
}

TEST(Balance, SameSeedSameResultOtherEpochOtherComposition) {
  SampleLengths lengths = shapedLengths(0, 2000, 5);
  for (BatchMethod method : {BatchMethod::Plan, BatchMethod::Isf, BatchMethod::Random}) {
    BatchOptions o = options(12, 4096, 4, method);
    Batches first = balanced(lengths, o), again = balanced(lengths, o);
    EXPECT_EQ(first.samples, again.samples);
    EXPECT_EQ(first.offsets, again.offsets);
    auto groupsOf = [](const Batches &batches) {
      std::set<std::vector<int64_t>> groups;
      for (int64_t g = 0; g < batches.groups(); ++g) {
        std::vector<int64_t> group(batches.samples.begin() + batches.offsets[g],
                                   batches.samples.begin() + batches.offsets[g + 1]);
        std::sort(group.begin(), group.end());
        groups.insert(group);
      }
      return groups;
    };
    std::set<std::vector<int64_t>> before = groupsOf(first);
    for (int change = 0; change < 2; ++change) {
      BatchOptions other = o;
      (change == 0 ? other.epoch : reinterpret_cast<int64_t &>(other.seed)) += 1;
      int64_t kept = 0;
      Batches batches = balanced(lengths, other);
      for (const std::vector<int64_t> &group : groupsOf(batches))
        kept += before.count(group) > 0;
      EXPECT_LT(kept, batches.groups() / 5) << "most groups are the same in another epoch";
    }
  }
}

TEST(Balance, NamesOversizedSamplesAndRefusesNonsense) {
  SampleLengths lengths{{1, 20, 2, 3}, {100, 50, 9000, 10}};
  std::string message = errorOf(lengths, options(9, 4096));
  EXPECT_NE(message.find("2 of 4"), std::string::npos) << message;
  EXPECT_NE(message.find("1 (20 tiles, 50 tokens)"), std::string::npos) << message;
  EXPECT_NE(message.find("2 (2 tiles, 9000 tokens)"), std::string::npos) << message;
  BatchOptions own = options(9, 4096);
  own.oversize = Oversize::OwnGroup;
  EXPECT_EQ(balanced(lengths, own).oversize, (std::vector<int64_t>{1, 2}));

  SampleLengths large{{20, 30}, {1, 1}};
  EXPECT_EQ(balanced(large, own).groups(), 2);
  EXPECT_EQ(balanced(large, own).lowerBound, 2);
  own.oversize = Oversize::Skip;
  EXPECT_NE(errorOf(large, own).find("all 2 samples"), std::string::npos);

  EXPECT_NE(errorOf({}, options(9, 4096)).find("no sample"), std::string::npos);
  EXPECT_NE(errorOf(lengths, options(0, 4096)).find("caps of 0"), std::string::npos);
  EXPECT_NE(errorOf(lengths, options(9, 4096, 0)).find("0 ranks"), std::string::npos);
  EXPECT_NE(errorOf({{1, -1}, {5, 5}}, options(9, 4096)).find("1 (-1 tiles"), std::string::npos);
  EXPECT_NE(errorOf({{1}, {5, 5}}, options(9, 4096)).find("tokens of 2"), std::string::npos);
  BatchOptions cost = options(9, 4096);
  cost.cost.tokenNs = std::nan("");
  EXPECT_NE(errorOf({{1}, {1}}, cost).find("cost"), std::string::npos);
}

TEST(Balance, CapsThatAreNoLimit) {
  SampleLengths lengths = shapedLengths(0, 500, 1);
  BatchOptions o = options(9, INT64_MAX);
  expectValid(lengths, o, balanced(lengths, o));
  o = options(INT64_MAX, INT64_MAX);
  EXPECT_EQ(balanced(lengths, o).groups(), 1);
  o = options(1000000, 4096);
  expectValid(lengths, o, balanced(lengths, o));
  // Lengths near the limits of their type must not overflow sums.
  SampleLengths huge{std::vector<int32_t>(9, INT32_MAX), std::vector<int32_t>(9, INT32_MAX)};
  o = options(INT64_MAX, INT64_MAX, 3);
  expectValid(huge, o, balanced(huge, o));
  EXPECT_EQ(balanced(huge, o).groups(), 9);
}

TEST(Balance, LengthsTooDiverseForExactTables) {
  std::mt19937_64 random(3);
  SampleLengths lengths;
  for (int i = 0; i < 20000; ++i) {
    lengths.tiles.push_back(static_cast<int32_t>(random() % 50000));
    lengths.tokens.push_back(static_cast<int32_t>(random() % 3000000));
  }
  BatchOptions o = options(150000, 12000000, 4);
  Batches batches = balanced(lengths, o);
  expectValid(lengths, o, batches);
  EXPECT_LE(batches.groups(), batches.lowerBound * 1.02 + 4);
}

struct Target {
  int64_t tiles, tokens;
  double factor;
};

TEST(Balance, RealLengthsReachTheTargets) {
  SampleLengths lengths = test::pooledLengths();
  for (Target target : {Target{9, 4096, 1.001},
                        {12, 4096, 1.003},
                        {14, 4096, 1.003},
                        {16, 4096, 1.0125},
                        {18, 6016, 1.001}})
    for (int32_t ranks : {8, 16}) {
      SCOPED_TRACE(std::to_string(target.tiles) + "/" + std::to_string(target.tokens) + ", " +
                   std::to_string(ranks) + " ranks");
      BatchOptions o = options(target.tiles, target.tokens, ranks);
      Batches batches = balanced(lengths, o);
      expectValid(lengths, o, batches);
      EXPECT_LE(batches.groups(), target.factor * batches.lowerBound + ranks);
      BalanceStatistics statistic = statistics(lengths, batches, ranks);
      EXPECT_LE(statistic.distRatioVit, 0.001);
      EXPECT_LE(statistic.distRatioLlm, ranks == 8 ? 0.0055 : 0.006);
      EXPECT_LE(statistic.stepVariance, 1.2);
      EXPECT_GT(statistic.stepVariance, 0);
    }
}

TEST(Balance, CostDecidesAmongRowsOfEqualCounts) {
  SampleLengths lengths = test::pooledLengths();
  LoadCost cost{300000, 1500, 2}; // squares weigh about as much as tokens
  BatchOptions o = options(16, 4096, 8);
  BalanceStatistics plain = statistics(lengths, balanced(lengths, o), 8, cost);
  o.cost = cost;
  Batches batches = balanced(lengths, o);
  expectValid(lengths, o, batches);
  BalanceStatistics weighted = statistics(lengths, batches, 8, cost);
  EXPECT_LT(weighted.distRatioCost, 0.5 * plain.distRatioCost);
  EXPECT_LE(weighted.distRatioVit, 0.001);
  EXPECT_LE(weighted.distRatioLlm, 0.0055);
}

TEST(Balance, EightRowsInARowLookLikeTheWhole) {
  SampleLengths lengths = test::pooledLengths();
  Batches batches = balanced(lengths, options(9, 4096, 8));
  // Any eight, not only those that the statistics look at.
  double all = 0, variance = 0;
  for (int32_t t : lengths.tokens)
    all += t;
  double mean = all / lengths.size();
  for (int32_t t : lengths.tokens)
    variance += (t - mean) * (t - mean) / lengths.size();
  double deviation = 0, independent = 0;
  for (int64_t g = 0; g + 64 <= batches.groups(); g += 8) {
    double sum = 0, n = static_cast<double>(batches.offsets[g + 64] - batches.offsets[g]);
    for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 64]; ++i)
      sum += lengths.tokens[batches.samples[i]];
    deviation += (sum / n - mean) * (sum / n - mean);
    independent += variance / n;
  }
  EXPECT_LT(deviation, 1.2 * independent);
}

} // namespace
} // namespace omnibal::rt
