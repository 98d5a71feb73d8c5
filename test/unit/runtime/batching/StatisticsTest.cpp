// Statistics against counts by hand.
#include "runtime/batching/Balance.h"
#include "test/unit/runtime/batching/PooledLengths.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

TEST(Statistics, RatiosByHand) {
  SampleLengths lengths{{4, 2, 0, 0, 0}, {100, 50, 30, 10, 40}};
  Batches batches;
  batches.samples = {0, 1, 2, 3, 4};
  batches.offsets = {0, 1, 2, 4, 5}; // rows: {0}, {1} and {2, 3}, {4}
  BalanceStatistics s = statistics(lengths, batches, 2, {10, 1, 0.01});
  EXPECT_DOUBLE_EQ(s.distRatioVit, 1 - 3.0 / 4);          // the second row has no tiles: left out
  EXPECT_DOUBLE_EQ(s.distRatioLlm, (1 - 75.0 / 100) / 2); // the second row is even
  // Costs: 40 + 100 + 100, 20 + 50 + 25; 40 + 10, 40 + 16.
  EXPECT_DOUBLE_EQ(s.distRatioCost, ((1 - 167.5 / 240) + (1 - 53.0 / 56)) / 2);
  EXPECT_EQ(s.padRatio, 0);
  EXPECT_EQ(s.stepVariance, 0); // fewer than two times eight rows
  EXPECT_EQ(statistics(lengths, batches, 2).distRatioCost, 0);
}

TEST(Statistics, UnbalancedByHand) {
  // Two groups of two: whatever the permutation, one or two samples of 100 among four.
  SampleLengths lengths{{1, 1, 1, 1}, {100, 20, 20, 20}};
  Batches batches;
  batches.samples = {0, 1, 2, 3};
  batches.offsets = {0, 2, 4};
  BalanceStatistics s = unbalancedStatistics(lengths, batches, 2, 1);
  EXPECT_DOUBLE_EQ(s.padRatio, 80.0 / 240);
  EXPECT_DOUBLE_EQ(s.distRatioVit, 0);
  EXPECT_DOUBLE_EQ(s.distRatioLlm, 1 - 80.0 / 120); // 100 + 20 and 20 + 20 tokens
}

TEST(Statistics, StepVarianceByHand) {
  // Two blocks of eight rows with means 10 and 30; variance of a sample 100, of a mean of eight
  // 12.5; the sample variance of the two means is 200.
  SampleLengths lengths;
  Batches batches;
  for (int64_t i = 0; i < 16; ++i) {
    lengths.tiles.push_back(0);
    lengths.tokens.push_back(i < 8 ? 10 : 30);
    batches.samples.push_back(i);
  }
  for (int64_t i = 0; i <= 16; ++i)
    batches.offsets.push_back(i);
  EXPECT_DOUBLE_EQ(statistics(lengths, batches, 1).stepVariance, 200 / 12.5);
}

TEST(Statistics, RandomMicroBatchesAreIndependent) {
  SampleLengths lengths = test::pooledLengths();
  BatchOptions options;
  options.tilesCap = 9;
  options.tokensCap = 4096;
  options.ranks = 8;
  auto batches = balance(lengths, options);
  ASSERT_TRUE(batches);
  BalanceStatistics before = unbalancedStatistics(lengths, *batches, 8, 1);
  EXPECT_NEAR(before.stepVariance, 1, 0.2);
  EXPECT_GT(before.padRatio, 0.05);
  EXPECT_GT(before.distRatioVit, 0.1);
  EXPECT_GT(before.distRatioLlm, 0.1);
}

} // namespace
} // namespace omnibal::rt
