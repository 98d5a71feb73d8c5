//===- OffsetAssignmentTest.cpp - Blocks never overlap while both live -------------------===//
#include "passes/common/OffsetAssignment.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace omnibal;

namespace {

/// Largest sum of blocks live at one time: no placement can be smaller.
int64_t lowerBound(const std::vector<Block> &blocks) {
  int64_t bound = 0;
  for (const Block &at : blocks) {
    int64_t live = 0;
    for (const Block &block : blocks)
      if (block.first <= at.first && at.first <= block.last)
        live += alignUp(block.bytes);
    bound = std::max(bound, live);
  }
  return bound;
}

void expectSound(const std::vector<Block> &blocks, const Placement &placement) {
  ASSERT_EQ(placement.offsets.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(placement.offsets[i] % blockAlignment, 0);
    EXPECT_LE(placement.offsets[i] + blocks[i].bytes, placement.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      bool overlap = placement.offsets[i] < placement.offsets[j] + blocks[j].bytes &&
                     placement.offsets[j] < placement.offsets[i] + blocks[i].bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(OffsetAssignment, DisjointLifetimesShareAnOffset) {
  Placement placement = assignOffsets({{100, 0, 1}, {100, 2, 3}, {100, 4, 9}});
  EXPECT_EQ(placement.bytes, 128);
}

TEST(OffsetAssignment, TouchingLifetimesDoNotShare) {
  EXPECT_EQ(assignOffsets({{64, 0, 2}, {64, 2, 3}}).bytes, 128);
}

TEST(OffsetAssignment, RandomBlocksAreSoundAndNearTheBound) {
  std::mt19937 random(11);
  double worst = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks(1 + random() % 40);
    for (Block &block : blocks) {
      block.bytes = random() % 5000;
      block.first = random() % 50;
      block.last = block.first + random() % 20;
    }
    Placement placement = assignOffsets(blocks);
    expectSound(blocks, placement);
    if (int64_t bound = lowerBound(blocks))
      worst = std::max(worst, static_cast<double>(placement.bytes) / bound);
  }
  EXPECT_LT(worst, 1.6);
}

} // namespace
