// The choice of caps: what it must react to, and its errors.
#include "runtime/batching/AutoCaps.h"
#include "test/unit/runtime/batching/PooledLengths.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

AutoCapsOptions usual() {
  AutoCapsOptions options;
  options.ranks = 4;
  options.samplesPerStep = 256;
  options.step.cost = {200000, 1000, 0.1};
  options.step.microbatchNs = 500000;
  options.memory = {2e9, 1e8, 4e7, 2e5};
  return options;
}

AutoCaps chosen(const SampleLengths &lengths, const AutoCapsOptions &options) {
  auto caps = chooseCaps(lengths, options);
  EXPECT_TRUE(caps) << caps.status().message();
  return caps ? *caps : AutoCaps{};
}

std::string errorOf(const SampleLengths &lengths, const AutoCapsOptions &options) {
  auto caps = chooseCaps(lengths, options);
  return caps ? "" : caps.status().message();
}

TEST(AutoCaps, StaysWithinMemoryAndIsTheFastest) {
  SampleLengths lengths = test::pooledLengths();
  AutoCapsOptions options = usual();
  AutoCaps caps = chosen(lengths, options);
  ASSERT_GT(caps.candidates.size(), 5u);
  for (const CapsCandidate &candidate : caps.candidates) {
    EXPECT_LE(options.memory.bytes(candidate.tiles, candidate.tokens), options.memory.limitBytes);
    EXPECT_GE(candidate.tiles, 5);     // the largest sample
    EXPECT_GE(candidate.tokens, 1832); // the longest
    EXPECT_LE(caps.chosen.nsPerToken, candidate.nsPerToken);
  }
  EXPECT_NEAR(caps.chosen.samplesPerStep, 256, 64);
  EXPECT_NE(caps.explanation.find(std::to_string(caps.chosen.tokens) + " tokens"),
            std::string::npos);
  EXPECT_NE(caps.explanation.find("memory:"), std::string::npos);
  // The caps work for all samples.
  BatchOptions batch;
  batch.tilesCap = caps.chosen.tiles;
  batch.tokensCap = caps.chosen.tokens;
  batch.ranks = 4;
  EXPECT_TRUE(balance(lengths, batch));
}

TEST(AutoCaps, FixedCostsMakeGroupsLargerPipelinesSmaller) {
  SampleLengths lengths = test::pooledLengths();
  AutoCapsOptions options = usual();
  options.memory.limitBytes = 0;
  options.step.microbatchNs = 1e8;
  int64_t costly = chosen(lengths, options).chosen.tokens;
  options.step.microbatchNs = 0;
  options.step.stages = 8; // few micro-batches do not fill it
  AutoCaps pipeline = chosen(lengths, options);
  EXPECT_LT(pipeline.chosen.tokens, costly / 2);
  EXPECT_GT(pipeline.chosen.microbatches, 8);
}

TEST(AutoCaps, PredictionByHand) {
  // Equal samples: two fit, every row costs the same.
  SampleLengths lengths{std::vector<int32_t>(64, 1), std::vector<int32_t>(64, 100)};
  AutoCapsOptions options;
  options.ranks = 2;
  options.samplesPerStep = 16;
  options.step = {{1000, 10, 0}, 500, 7000, 3};
  AutoCaps caps = chosen(lengths, options);
  int checked = 0;
  for (const CapsCandidate &c : caps.candidates) {
    int64_t fit = std::min<int64_t>(c.tiles, c.tokens / 100);
    if (64 % (2 * fit) != 0)
      continue;
    double row = 500 + fit * 2000.0, m = std::max(1.0, 16.0 / (2 * fit));
    if (m != static_cast<double>(static_cast<int64_t>(m)))
      continue;
    EXPECT_NEAR(c.stepNs, (m + 2) * row + 7000, 1e-6) << c.tiles << "/" << c.tokens;
    ++checked;
  }
  EXPECT_GT(checked, 2);
}

TEST(AutoCaps, Errors) {
  SampleLengths lengths{{1, 9}, {100, 5000}};
  AutoCapsOptions options = usual();
  options.memory.limitBytes = 5e8;
  EXPECT_NE(errorOf(lengths, options).find("sample 1 (9 tiles, 5000 tokens) alone"),
            std::string::npos);
  options = usual();
  options.tokensPerStep = 5;
  EXPECT_NE(errorOf(lengths, options).find("exactly one"), std::string::npos);
  options = usual();
  options.step.cost = {};
  EXPECT_NE(errorOf(lengths, options).find("costs"), std::string::npos);
  options = usual();
  options.memory.tileBytes = -1;
  EXPECT_NE(errorOf(lengths, options).find("-1"), std::string::npos);
  EXPECT_NE(errorOf({}, usual()).find("no sample"), std::string::npos);
}

} // namespace
} // namespace omnibal::rt
