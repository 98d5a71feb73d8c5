//===- PartExchangeTest.cpp - Moves among parts against who holds which element
//----------------===//
//
// Parts are threads.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/backends/host/PartExchange.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/unit/runtime/backends/MoveCases.h"
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <thread>

namespace omnibal::rt {
namespace {

using namespace movetest;

void check(const MoveCase &c) {
  auto communicators = createThreadCommunicators(static_cast<int>(c.parts));
  std::vector<int> ranks(static_cast<size_t>(c.parts));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::vector<float>> results(ranks.size());
  std::vector<Status> statuses(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (int part : ranks)
      threads.emplace_back([&, part] {
        std::vector<float> source = sourceOf(c, part);
        const Shape own = c.resultShape(part);
        results[part].assign(static_cast<size_t>(elementsOf(own)), -1);
        std::vector<float> workspace(results[part].size());
        const TensorView views[] = {viewOf(source.data(), c.sourceShape(part)),
                                    viewOf(results[part].data(), own),
                                    viewOf(workspace.data(), own)};
        statuses[part] = exchangeParts(*communicators[part], c.move(), views, c.symbols, ranks);
      });
  }
  for (int part : ranks) {
    ASSERT_TRUE(statuses[part]) << statuses[part].message();
    EXPECT_EQ(results[part], expectedOf(c, part)) << "part " << part << " of " << c.parts;
  }
}

class PartExchange : public testing::TestWithParam<int64_t> {};

TEST_P(PartExchange, MovesWhatItSays) {
  for (const MoveCase &c : plainMoves(GetParam()))
    check(c);
}

TEST_P(PartExchange, UnitsOfTheMicrobatch) {
  for (const MoveCase &c : movesOfMicrobatches(GetParam()))
    check(c);
}

/// Blocks are the same elements as runs, and few.
TEST_P(PartExchange, BlocksAreTheRuns) {
  const int64_t k = GetParam();
  std::vector<MoveCase> cases = plainMoves(k);
  const std::vector<MoveCase> more = movesOfMicrobatches(k);
  cases.insert(cases.end(), more.begin(), more.end());
  for (const MoveCase &c : cases)
    for (int64_t giver = 0; giver < k; ++giver)
      for (int64_t taker = 0; taker < k; ++taker) {
        const SplitAt from = c.source(), to = c.result();
        const PartSide given{&from, from ? from->of(giver, k) : UnitRange()},
            taken{&to, to ? to->of(taker, k) : UnitRange()};
        std::set<std::pair<int64_t, int64_t>> runs, found;
        forCommonRuns(c.whole, given, taken, [&](int64_t at, int64_t into, int64_t count) {
          for (int64_t i = 0; i < count; ++i)
            EXPECT_TRUE(runs.insert({at + i, into + i}).second);
        });
        const std::vector<CommonBlock> blocks = commonBlocks(c.whole, given, taken);
        for (const CommonBlock &block : blocks) {
          EXPECT_LE(block.dims.size(), 8u);
          std::vector<std::pair<int64_t, int64_t>> elements = {{block.one, block.other}};
          for (const CommonBlock::Dim &dim : block.dims) {
            std::vector<std::pair<int64_t, int64_t>> longer;
            for (auto [one, other] : elements)
              for (int64_t i = 0; i < dim.size; ++i)
                longer.push_back({one + i * dim.one, other + i * dim.other});
            elements = std::move(longer);
          }
          for (const auto &element : elements)
            EXPECT_TRUE(found.insert(element).second);
        }
        EXPECT_EQ(found, runs);
        EXPECT_LE(blocks.size(), 8u);
      }
}

INSTANTIATE_TEST_SUITE_P(Parts, PartExchange, testing::Values(2, 3, 4, 8));

TEST(PartExchangeSums, AreThoseOfAllReduce) {
  // Numbers whose sum depends on the order of addition.
  std::mt19937 random(7);
  std::uniform_real_distribution<float> numbers(-1e3F, 1e3F);
  constexpr int64_t parts = 3, count = 50;
  std::vector<std::vector<float>> values(parts, std::vector<float>(count));
  for (auto &list : values)
    for (float &value : list)
      value = numbers(random) * numbers(random);
  auto communicators = createThreadCommunicators(parts);
  std::vector<int> ranks = {0, 1, 2};
  std::vector<float> scattered, reduced(count);
  std::vector<std::vector<float>> own(parts);
  {
    std::vector<std::jthread> threads;
    for (int part : ranks)
      threads.emplace_back([&, part] {
        const PartSplit rows = splitOf(0, 1, count, 1);
        const Shape shape = shapeOf({count}, rows.at({}), part, parts);
        own[part].resize(shape[0]);
        std::vector<float> workspace(shape[0]), sum(count), source = values[part];
        PartMove move;
        move.kind = PartMoveKind::ReduceScatter;
        move.to = rows;
        move.dst = 1;
        move.workspace = 2;
        const TensorView views[] = {viewOf(source.data(), {count}), viewOf(own[part].data(), shape),
                                    viewOf(workspace.data(), shape)};
        ASSERT_TRUE(exchangeParts(*communicators[part], move, views, SymbolValues(), ranks));
        PartMove all;
        all.dst = 1;
        const TensorView whole[] = {viewOf(source.data(), {count}), viewOf(sum.data(), {count})};
        ASSERT_TRUE(exchangeParts(*communicators[part], all, whole, SymbolValues(), ranks));
        if (part == 0)
          reduced = sum;
      });
  }
  for (const auto &list : own)
    scattered.insert(scattered.end(), list.begin(), list.end());
  EXPECT_EQ(scattered, reduced);
}

} // namespace
} // namespace omnibal::rt
