//===- RandomKeysTest.cpp - What random numbers are made from ---------------------------------===//
#include "runtime/data/RandomKeys.h"
#include "runtime/support/RandomBits.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace omnibal::rt;

namespace {

RandomKeys keysOf(uint64_t seed, int64_t step, std::string_view sample, int64_t tokens,
                  int64_t tiles) {
  RandomKeys keys;
  keys.append(seed, step, sample, tokens, tiles);
  return keys;
}

TEST(RandomKeys, ASampleHasItsNumbersInWhateverMicrobatch) {
  RandomKeys both;
  both.append(5, 2, "a", 10, 3);
  both.append(5, 2, "b", 7, 0);
  RandomKeys alone = keysOf(5, 2, "b", 7, 0);
  ASSERT_EQ(both.ofTokens.size(), 17u);
  EXPECT_TRUE(std::equal(alone.ofTokens.begin(), alone.ofTokens.end(), both.ofTokens.begin() + 10));
  EXPECT_EQ(both.ofTiles, keysOf(5, 2, "a", 10, 3).ofTiles);
}

// By test/scripts/random_bits.py.
TEST(RandomKeys, AreThoseOfTheScript) {
  RandomKeys keys = keysOf(3, 4, "sample-000001", 3, 2);
  EXPECT_EQ(keys.ofTokens, (std::vector<int32_t>{-1879592605, 1813133892, -1495742872}));
  EXPECT_EQ(keys.ofTiles, (std::vector<int32_t>{-1823723522, -1519988129}));
  EXPECT_EQ(keyOfRow(keys.ofTiles[1], 5), 336353192);
  EXPECT_EQ(keyOfRow(0, 5), 0);
}

TEST(RandomKeys, SeedStepSampleAndPlaceAllMatter) {
  std::set<int32_t> seen;
  int64_t count = 0;
  for (uint64_t seed : {0, 1})
    for (int64_t step : {0, 1, 2})
      for (const char *sample : {"a", "b", ""}) {
        RandomKeys keys = keysOf(seed, step, sample, 100, 20);
        seen.insert(keys.ofTokens.begin(), keys.ofTokens.end());
        seen.insert(keys.ofTiles.begin(), keys.ofTiles.end());
        count += 120;
      }
  EXPECT_EQ(seen.size(), static_cast<size_t>(count)); // 2160 of 2^32: a pair in 1800 tries
  EXPECT_FALSE(seen.contains(0));
}

/// How far the numbers' counts in `bins` equal parts are from equal, in standard deviations of the
/// sum of squares.
double unevenness(const std::vector<double> &numbers, int bins) {
  std::vector<int64_t> counts(bins);
  for (double number : numbers)
    ++counts.at(static_cast<size_t>(number * bins));
  const double expected = static_cast<double>(numbers.size()) / bins;
  double chi = 0;
  for (int64_t count : counts)
    chi += (count - expected) * (count - expected) / expected;
  return (chi - (bins - 1)) / std::sqrt(2.0 * (bins - 1));
}

// Rows, columns, layers and streams that are next to each other, as a model has them.
TEST(RandomBits, NumbersAreEvenAndNeighborsKnowNothingOfEachOther) {
  RandomKeys keys = keysOf(0, 0, "sample", 400, 0);
  std::vector<double> all;
  double across[4] = {};
  auto number = [&](size_t row, uint32_t column, uint32_t layer, uint32_t stream) {
    return RandomBits::uniform(static_cast<uint32_t>(keys.ofTokens[row]), column, layer, stream);
  };
  for (size_t row = 0; row + 1 < keys.ofTokens.size(); ++row)
    for (uint32_t column = 0; column < 500; ++column) {
      const double x = number(row, column, 7, 2);
      ASSERT_GE(x, 0);
      ASSERT_LT(x, 1);
      all.push_back(x);
      const double neighbors[] = {number(row + 1, column, 7, 2), number(row, column + 1, 7, 2),
                                  number(row, column, 8, 2), number(row, column, 7, 3)};
      for (int n = 0; n < 4; ++n)
        across[n] += (x - 0.5) * (neighbors[n] - 0.5) * 12;
    }
  const auto count = static_cast<double>(all.size());
  for (int bins : {2, 10, 1000})
    EXPECT_LT(std::abs(unevenness(all, bins)), 4) << bins << " bins";
  for (double sum : across) // of numbers without correlation, each of variance 1
    EXPECT_LT(std::abs(sum) / std::sqrt(count), 4);
}

} // namespace
