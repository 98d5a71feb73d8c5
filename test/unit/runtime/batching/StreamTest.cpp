// Windows of streams, and mixtures of data sets.
#include "runtime/batching/stream/Stream.h"
#include "test/unit/runtime/batching/PooledLengths.h"
#include <algorithm>
#include <climits>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace omnibal::rt {
namespace {

/// `n` samples of (tiles, 100 * tiles + number % 100); -1: without end.
StreamSource source(const std::string &name, int32_t tiles, int64_t n, double weight = 1) {
  auto next = std::make_shared<int64_t>(0);
  return {name, weight, [=](int64_t most, SampleLengths &out) -> Result<int64_t> {
            int64_t count = n < 0 ? most : std::min(most, n - *next);
            for (int64_t i = 0; i < count; ++i, ++*next) {
              out.tiles.push_back(tiles);
              out.tokens.push_back(100 * tiles + static_cast<int32_t>(*next % 100));
            }
            return count;
          }};
}

StreamOptions options(int64_t window) {
  StreamOptions result;
  result.batch.tilesCap = 9;
  result.batch.tokensCap = 4096;
  result.batch.ranks = 4;
  result.window = window;
  return result;
}

BalancedStream stream(std::vector<StreamSource> sources, const StreamOptions &options) {
  auto result = BalancedStream::create(std::move(sources), options);
  EXPECT_TRUE(result) << result.status().message();
  return *std::move(result);
}

TEST(Stream, EverySampleOnceInBoundedWindows) {
  BalancedStream two = stream({source("a", 1, 10000), source("b", 3, 7000)}, options(4096));
  std::set<std::pair<int32_t, int64_t>> seen;
  int64_t windows = 0;
  for (;; ++windows) {
    auto window = two.next();
    ASSERT_TRUE(window) << window.status().message();
    if (window->samples.empty())
      break;
    EXPECT_EQ(window->number, windows);
    EXPECT_LE(window->samples.size(), 4096u);
    const Batches &batches = window->batches;
    EXPECT_EQ(batches.groups() % 4, 0);
    for (int64_t g = 0; g < batches.groups(); ++g) {
      int64_t tiles = 0;
      for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i) {
        const MixedSample &sample = window->samples[batches.samples[i]];
        tiles += sample.source == 0 ? 1 : 3;
        EXPECT_EQ(window->lengths.tokens[batches.samples[i]],
                  (sample.source == 0 ? 100 : 300) + sample.number % 100);
        EXPECT_TRUE(seen.insert({sample.source, sample.number}).second);
      }
      EXPECT_LE(tiles, 9);
    }
    EXPECT_LE(batches.groups(), batches.lowerBound + 4);
  }
  EXPECT_EQ(windows, 5); // 17,000 samples
  EXPECT_EQ(seen.size(), 17000u);
}

TEST(Stream, WeightsHoldInEveryWindowAndItNeedNotEnd) {
  BalancedStream endless =
      stream({source("a", 1, -1, 3), source("b", 3, -1, 1), source("c", 2, 100, 0)}, options(1000));
  std::vector<int64_t> last = {-1, -1, -1};
  for (int w = 0; w < 20; ++w) {
    auto window = endless.next();
    ASSERT_TRUE(window);
    std::map<int32_t, int64_t> counts;
    for (const MixedSample &sample : window->samples) {
      EXPECT_EQ(sample.number, ++last[sample.source]); // in the source's order, without gaps
      ++counts[sample.source];
    }
    EXPECT_NEAR(counts[0], 750, 2);
    EXPECT_NEAR(counts[1], 250, 2);
    EXPECT_EQ(counts[2], 0);
  }
}

TEST(Stream, SameSeedSameWindowsOthersDiffer) {
  auto first = stream({source("a", 2, -1)}, options(500));
  auto again = stream({source("a", 2, -1)}, options(500));
  auto window = first.next(), same = again.next(), second = first.next();
  ASSERT_TRUE(window && same && second);
  EXPECT_EQ(window->batches.samples, same->batches.samples);
  EXPECT_NE(window->batches.samples, second->batches.samples);
}

TEST(Stream, ErrorsNameSourceAndSample) {
  StreamOptions narrow = options(1000);
  narrow.batch.tokensCap = 340;
  auto over = stream({source("good", 1, 10), source("pages", 3, 100)}, narrow).next();
  ASSERT_FALSE(over);
  EXPECT_NE(over.status().message().find("pages: sample 41 (3 tiles, 341 tokens)"),
            std::string::npos)
      << over.status().message();
  narrow.batch.oversize = Oversize::Skip;
  narrow.batch.tilesCap = 2;
  auto skipped = stream({source("pages", 3, 100)}, narrow).next();
  ASSERT_TRUE(skipped) << skipped.status().message();
  EXPECT_EQ(skipped->batches.groups(), 0);
  EXPECT_EQ(skipped->batches.oversize.size(), 100u);

  StreamSource broken{"broken", 1, [](int64_t, SampleLengths &) -> Result<int64_t> {
                        return Status(Code::DataLoss, "broken.csv, line 7: no number");
                      }};
  auto failed = stream({broken}, options(10)).next();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.status().message().find("line 7"), std::string::npos);
  EXPECT_FALSE(BalancedStream::create({}, options(10)));
  EXPECT_FALSE(BalancedStream::create({source("a", 1, 1, -2)}, options(10)));
  EXPECT_FALSE(BalancedStream::create({source("a", 1, 1)}, options(0)));
}

TEST(Mixture, SharesAndEqualUseOverEpochs) {
  std::map<std::pair<int32_t, int64_t>, int> uses;
  std::vector<MixedSample> first;
  for (int64_t epoch = 0; epoch < 7; ++epoch) {
    auto samples = mixedEpoch({{10, 100, 5}, {{0, {1, 2, 0}}}, 60}, 3, epoch);
    ASSERT_TRUE(samples);
    EXPECT_EQ(samples->size(), 60u);
    int64_t small = 0;
    for (const MixedSample &sample : *samples) {
      small += sample.source == 0;
      EXPECT_NE(sample.source, 2);
      ++uses[{sample.source, sample.number}];
    }
    EXPECT_EQ(small, 20);
    if (epoch == 0)
      first = *samples;
    else
      EXPECT_NE(first, *samples);
  }
  // 140 of 10 samples, 280 of 100: fourteen times each; two or three times each.
  for (auto [sample, count] : uses)
    if (sample.first == 0)
      EXPECT_EQ(count, 14);
    else
      EXPECT_TRUE(count == 2 || count == 3) << count;
  EXPECT_EQ(uses.size(), 110u);
  EXPECT_EQ(*mixedEpoch({{10, 100, 5}, {{0, {1, 2, 0}}}, 60}, 3, 0), first);
  EXPECT_FALSE(mixedEpoch({{0, 10}, {{0, {1, 1}}}, 5}, 1, 0));
  EXPECT_FALSE(mixedEpoch({{10}, {{0, {0}}}, 5}, 1, 0));
  EXPECT_FALSE(mixedEpoch({{10}, {{0, {1, 2}}}, 5}, 1, 0));
}

TEST(Mixture, WeightsThatChangeKeepUsesEqual) {
  const std::vector<MixPhase> phases = {{0, {1, 2}}, {2, {0, 1}}, {3, {5, 1}}};
  const int64_t small[] = {20, 20, 0, 50, 50};
  std::map<std::pair<int32_t, int64_t>, int> uses;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    auto samples = mixedEpoch({{7, 30}, phases, 60}, 3, epoch);
    ASSERT_TRUE(samples);
    int64_t found = 0;
    for (const MixedSample &sample : *samples) {
      found += sample.source == 0;
      ++uses[{sample.source, sample.number}];
    }
    EXPECT_EQ(found, small[epoch]);
    for (int32_t source : {0, 1}) {
      int least = INT_MAX, most = 0;
      for (int64_t number = 0; number < (source == 0 ? 7 : 30); ++number) {
        const int count = uses[{source, number}];
        least = std::min(least, count);
        most = std::max(most, count);
      }
      EXPECT_LE(most - least, 1) << "data set " << source << " in epoch " << epoch;
    }
  }
  // What lies behind an epoch does not change it.
  EXPECT_EQ(*mixedEpoch({{7, 30}, {phases[0]}, 60}, 3, 1),
            *mixedEpoch({{7, 30}, phases, 60}, 3, 1));
  for (const std::vector<MixPhase> &wrong :
       std::vector<std::vector<MixPhase>>{{},
                                          {{1, {1, 1}}},
                                          {{0, {1, 1}}, {0, {1, 1}}},
                                          {{0, {1, 1}}, {2, {1}}},
                                          {{0, {1, 1}}, {2, {0, 0}}}})
    EXPECT_FALSE(mixedEpoch({{7, 30}, wrong, 60}, 3, 0));
}

} // namespace
} // namespace omnibal::rt
