//===- RoundLayoutsTest.cpp - Which layouts there are, and what they hold ----------------===//
#include "runtime/planner/model/RoundLayouts.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

using Numbers = std::vector<int64_t>;

TEST(RoundLayouts, MixedOnesAndOnesApartInTurnAndInAWave) {
  // Two vision layers, three others, two stages.
  std::vector<RoundLayout> layouts = roundLayouts({5, 5, 1, 1, 2}, 2, 2, 4);
  ASSERT_EQ(layouts.size(), 5u);
  auto expect = [&](size_t i, int64_t visionRounds, int64_t rounds, bool wave, Numbers cuts,
                    Numbers stages) {
    EXPECT_EQ(layouts[i].visionRounds, visionRounds) << i;
    EXPECT_EQ(layouts[i].rounds, rounds) << i;
    EXPECT_EQ(layouts[i].wave, wave) << i;
    EXPECT_EQ(layouts[i].cuts, cuts) << i;
    EXPECT_EQ(layouts[i].stages, stages) << i;
  };
  expect(0, 0, 1, false, {0, 1, 5}, {0, 1});
  expect(1, 0, 2, false, {0, 1, 2, 3, 5}, {0, 1, 0, 1});
  expect(2, 0, 2, true, {0, 1, 2, 3, 5}, {0, 1, 1, 0});
  expect(3, 1, 1, false, {0, 1, 2, 4, 5}, {0, 1, 0, 1});
  expect(4, 1, 1, true, {0, 1, 2, 4, 5}, {0, 1, 1, 0});
}

TEST(RoundLayouts, NoMoreRoundsThanAllowedAndThanLayers) {
  EXPECT_EQ(roundLayouts(Numbers(10, 1), 4, 2, 1).size(), 1u + 2u);
  EXPECT_EQ(roundLayouts(Numbers(10, 1), 4, 2, 4).size(), 4u + 3u + 2u * 2u * 3u);
  EXPECT_EQ(roundLayouts(Numbers(10, 1), 0, 2, 2).size(), 3u); // no vision layers
  EXPECT_EQ(roundLayouts(Numbers(3, 1), 3, 4, 2).size(), 0u);  // fewer layers than stages
}

} // namespace
