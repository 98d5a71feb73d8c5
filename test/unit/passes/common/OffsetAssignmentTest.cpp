//===- OffsetAssignmentTest.cpp - Blocks never overlap while both live -------------------===//
#include "passes/common/OffsetAssignment.h"
#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>

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

/// The rule word for word: largest first, each at the lowest offset that nothing alive takes. Only
/// 0 and the ends of placed blocks can be lowest.
std::vector<int64_t> placedByTheRule(const std::vector<Block> &blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<int64_t> offsets(blocks.size(), -1);
  auto isFree = [&](const Block &block, int64_t offset) {
    for (size_t j = 0; j < blocks.size(); ++j)
      if (offsets[j] >= 0 && block.first <= blocks[j].last && blocks[j].first <= block.last &&
          offset < offsets[j] + alignUp(blocks[j].bytes) &&
          offsets[j] < offset + alignUp(block.bytes))
        return false;
    return true;
  };
  for (size_t i : order) {
    std::set<int64_t> candidates{0};
    for (size_t j = 0; j < blocks.size(); ++j)
      if (offsets[j] >= 0)
        candidates.insert(offsets[j] + alignUp(blocks[j].bytes));
    offsets[i] = *std::find_if(candidates.begin(), candidates.end(),
                               [&](int64_t offset) { return isFree(blocks[i], offset); });
  }
  return offsets;
}

TEST(OffsetAssignment, EveryBlockLiesAsTheRuleSays) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks(1 + random() % 60);
    int64_t sizes = 1 + random() % 5, times = 1 + random() % 80, longest = 1 + random() % 80;
    for (Block &block : blocks) {
      block.bytes = random() % 2 ? 64 * (random() % sizes) : random() % 3000;
      block.first = random() % times;
      block.last = block.first + random() % longest;
    }
    EXPECT_EQ(assignOffsets(blocks).offsets, placedByTheRule(blocks)) << "round " << round;
  }
}

/// GPipe: what forward saves lives until the backward of its micro-batch.
TEST(OffsetAssignment, ThousandsOfBlocksAliveTogetherTakeNoTimeToSpeakOf) {
  const int64_t microbatches = 1 << 14;
  std::vector<Block> blocks;
  for (int64_t m = 0; m < microbatches; ++m) {
    int64_t forward = 2 * m, backward = 2 * (microbatches + m);
    blocks.insert(
        blocks.end(),
        {{640, forward, backward + 1}, {4096, forward, backward}, {70000, forward, forward}});
  }
  auto began = std::chrono::steady_clock::now();
  Placement placement = assignOffsets(blocks);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  // All that is saved, and the scratch of one forward; a block less where scratch and the last lie
  // over each other.
  EXPECT_GE(placement.bytes, microbatches * (640 + 4096));
  EXPECT_LE(placement.bytes, microbatches * (640 + 4096) + alignUp(70000));
  EXPECT_LT(seconds.count(), 10) << "49,152 blocks: quadratic time is minutes";
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
