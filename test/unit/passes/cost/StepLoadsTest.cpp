// Hand-counted loads of small epochs.
#include "passes/cost/StepLoads.h"
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::analysis;
using namespace omnibal::cost;

namespace {

std::string textOf(const planner::LoadFactors &factors) {
  std::string text;
  for (const auto &[kind, factor] : factors)
    text += kind + "=" + factor.text() + " ";
  return text;
}

TEST(StepLoads, AttentionCostsWhatItDoesOnThisData) {
  // 30 tokens with 100 + 100 + 100 squares, and 10 with 100: 10 squares a token.
  EpochLoads epoch{{{1, 30, 300}, {0, 10, 100}}, 1, ""};
  MicrobatchLoad load = loadAtCaps(epoch, 7, 50);
  EXPECT_EQ(load.tiles, 7);
  EXPECT_EQ(load.tokens, 50);
  EXPECT_EQ(load.squares(), 500);
  EpochLoads uneven{{{0, 3, 5}}, 1, ""}; // ceil(50 * 5 / 3)
  EXPECT_EQ(loadAtCaps(uneven, 7, 50).squares(), 84);
  EpochLoads large{{{0, int64_t{1} << 31, int64_t{1} << 62}}, 1, ""};
  EXPECT_EQ(loadAtCaps(large, 7, 1 << 20).squares(), int64_t{1} << 51);
  EpochLoads empty{{{0, 0, 0}}, 1, ""};
  EXPECT_EQ(loadAtCaps(empty, 7, 50).squares(), 2500);
  EXPECT_EQ((MicrobatchLoad{7, 50}).squares(), 2500); // one sample
}

TEST(StepLoads, AttentionWithinPicturesCostsWhatItDoesOnThisData) {
  // Pictures of 6 and 2 units, and two of 4: 36 + 4 and 16 + 16 squares of 16 units.
  EpochLoads epoch{{{8, 10, 100, 40}, {8, 10, 100, 32}}, 1, ""};
  EXPECT_EQ(loadAtCaps(epoch, 20, 50).tileSquares(), 90); // 20 * 72 / 16
  EXPECT_EQ(loadAtCaps(epoch, 21, 50).tileSquares(), 95); // 94.5 rounded up
  EpochLoads text{{{0, 10, 100, 0}}, 1, ""};
  EXPECT_EQ(loadAtCaps(text, 20, 50).tileSquares(), 400);
  EXPECT_EQ((MicrobatchLoad{7, 50}).tileSquares(), 49); // one picture
  EXPECT_EQ((UnitCosts{2, 3, 5, 7}.of({8, 10, 100, 40})), 16 + 30 + 500 + 280);
}

TEST(StepLoads, TheMedianStepWithTheLargestOfItsReplicas) {
  // Two replicas, two micro-batches: four groups a step. Work of the steps: 64, 40, 48, and a rest.
  EpochLoads epoch;
  epoch.replicas = 2;
  epoch.groups = {{8, 8, 9},  {8, 8, 9},  {8, 8, 9},  {8, 8, 9},   // 64
                  {5, 5, 9},  {5, 5, 9},  {5, 5, 9},  {5, 5, 9},   // 40
                  {9, 2, 30}, {1, 7, 20}, {0, 9, 40}, {8, 12, 10}, // 48
                  {1, 1, 1},  {1, 1, 1}};
  UnitCosts costs{1, 1, 0};
  auto step = typicalStep(epoch, 2, costs);
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[0].tiles, 9);
  EXPECT_EQ(step[0].tokens, 7);
  EXPECT_EQ(step[0].squaredTokens, 30);
  EXPECT_EQ(step[1].tiles, 8);
  EXPECT_EQ(step[1].tokens, 12);
  EXPECT_EQ(step[1].squaredTokens, 40);
  // Another price, another median: the squares are 36, 36, 100.
  EXPECT_EQ(typicalStep(epoch, 2, {0, 0, 1})[0].tiles, 5);
  // The same groups with pictures; only the second step's are large.
  auto pictures = epoch;
  pictures.groups[5].squaredTiles = 25;
  pictures.groups[9].squaredTiles = 1;
  step = typicalStep(pictures, 2, {0, 0, 0, 1}); // 0, 25, 1: the third
  EXPECT_EQ(step[0].tiles, 9);
  EXPECT_EQ(step[0].squaredTiles, 1);
  EXPECT_EQ(step[1].squaredTiles, 0);
  // Of two steps the cheaper one.
  epoch.groups.resize(8);
  EXPECT_EQ(typicalStep(epoch, 2, costs)[0].tiles, 5);
}

TEST(StepLoads, WithoutAFullStepTheRestIsEmpty) {
  EpochLoads epoch{{{4, 4, 4}, {2, 6, 4}}, 2, ""};
  auto step = typicalStep(epoch, 3, {1, 1, 1});
  ASSERT_EQ(step.size(), 3u);
  EXPECT_EQ(step[0].tiles, 4);
  EXPECT_EQ(step[0].tokens, 6);
  EXPECT_EQ(step[1].tokens + step[2].tokens, 0);
  EXPECT_EQ(textOf(factorsOf(step[1], 4, 8)), "head=0 language=0 projector=0 vision=0 ");
}

TEST(StepLoads, SamplesAreTheFirstReplicasSteps) {
  // Two micro-batches on two replicas: steps of four groups, and half a step.
  EpochLoads epoch{{}, 2, ""};
  for (int64_t g = 0; g < 4 * 40 + 2; ++g)
    epoch.groups.push_back({g, 10 * g, 100 * g});
  const std::vector<planner::StepLoads> samples = sampleSteps(epoch, 2, {7, 50});
  ASSERT_EQ(samples.size(), 16u);
  for (int64_t s = 0; s < 16; ++s) {
    const int64_t first = s * 40 / 16 * 4; // every second or third of forty steps
    EXPECT_EQ(samples[s].step, s * 40 / 16);
    ASSERT_EQ(samples[s].microbatches.size(), 2u);
    EXPECT_EQ(samples[s].microbatches[0].load,
              (planner::UnitLoad{first, 10 * first, 100 * first, 0}));
    EXPECT_EQ(samples[s].microbatches[1].load.tiles, first + 2);
  }
  const std::vector<planner::StepLoads> full = sampleSteps({{}, 1, ""}, 3, {7, 50});
  ASSERT_EQ(full.size(), 1u);
  EXPECT_EQ(full[0].microbatches, (std::vector<planner::MicrobatchLoad>(
                                      3, {planner::UnitLoad{7, 50, 2500, 0}, std::nullopt})));
}

TEST(StepLoads, FactorsAreRoundedUpToFourDigits) {
  EXPECT_EQ(textOf(factorsOf({3, 4000, 0}, 9, 4096)),
            "head=0.9766 language=0.9766 projector=0.3334 vision=0.3334 ");
  EXPECT_EQ(textOf(factorsOf({9, 4096, 0}, 9, 4096)), "head=1 language=1 projector=1 vision=1 ");
  EXPECT_EQ(textOf(factorsOf({0, 1, 0}, 0, 2)), "head=0.5 language=0.5 ");
}

} // namespace
