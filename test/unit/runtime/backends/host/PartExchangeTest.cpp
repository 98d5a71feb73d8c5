//===- PartExchangeTest.cpp - Moves among parts against who holds which element
//----------------===//
//
// Parts are threads. Values are small integers, so that sums are exact; what each part must end up
// with is looked up element by element.
//
//===-----------------------------------------------------------------------------------------===//
#include "runtime/backends/host/PartExchange.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <thread>

namespace omnibal::rt {
namespace {

using Shape = std::vector<int64_t>;
using Split = std::optional<PartSplit>;
using SplitAt = std::optional<UnitSplit>;

int64_t elementsOf(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Shape shapeOf(Shape whole, const SplitAt &split, int64_t part, int64_t parts) {
  if (split)
    whole[split->dim] = split->outer * split->inner * split->of(part, parts).size();
  return whole;
}

/// The elements of the whole that a part has, in its order.
std::vector<int64_t> elementsHeld(const Shape &whole, const SplitAt &split, int64_t part,
                                  int64_t parts) {
  std::vector<int64_t> held;
  int64_t behind = 1;
  for (size_t d = split ? split->dim + 1 : 0; split && d < whole.size(); ++d)
    behind *= whole[d];
  for (int64_t e = 0; e < elementsOf(whole); ++e) {
    bool mine = true;
    if (split) {
      const int64_t unit = e / behind % whole[split->dim] / split->inner % split->units;
      const UnitRange own = split->of(part, parts);
      mine = unit >= own.begin && unit < own.end;
    }
    if (mine)
      held.push_back(e);
  }
  return held;
}

TensorView viewOf(std::vector<float> &data, const Shape &shape) {
  TensorView view;
  view.data = data.data();
  view.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    view.shape[d] = shape[d];
    view.strides[d] = stride;
    stride *= shape[d];
  }
  return view;
}

struct Case {
  PartMoveKind kind;
  Shape whole;
  Split from, to;
  int64_t parts;
  SymbolValues symbols = {};

  SplitAt source() const { return splitAt(from, symbols); }
  SplitAt result() const { return splitAt(to, symbols); }
};

/// What part `part` has of the value before the move; summands differ by part.
std::vector<float> sourceOf(const Case &c, int64_t part) {
  const bool isSum = c.kind == PartMoveKind::AllReduce || c.kind == PartMoveKind::ReduceScatter ||
                     c.kind == PartMoveKind::KeepFirst;
  std::vector<float> values;
  for (int64_t e : elementsHeld(c.whole, c.source(), part, c.parts))
    values.push_back(static_cast<float>(isSum ? e % 97 + 100 * (part + 1) : e + 1));
  return values;
}

std::vector<float> expected(const Case &c, int64_t part) {
  std::vector<float> values;
  for (int64_t e : elementsHeld(c.whole, c.result(), part, c.parts)) {
    float value = static_cast<float>(e + 1);
    if (c.kind == PartMoveKind::AllReduce || c.kind == PartMoveKind::ReduceScatter)
      value = static_cast<float>(c.parts * (e % 97) + 50 * c.parts * (c.parts + 1));
    if (c.kind == PartMoveKind::KeepFirst)
      value = part == 0 ? static_cast<float>(e % 97 + 100) : 0;
    if (c.kind == PartMoveKind::Place) {
      const std::vector<int64_t> own = elementsHeld(c.whole, c.source(), part, c.parts);
      value = std::find(own.begin(), own.end(), e) == own.end() ? 0 : value;
    }
    values.push_back(value);
  }
  return values;
}

void check(const Case &c) {
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
        const Shape own = shapeOf(c.whole, c.result(), part, c.parts);
        results[part].assign(static_cast<size_t>(elementsOf(own)), -1);
        std::vector<float> workspace(results[part].size());
        PartMove move;
        move.kind = c.kind;
        move.from = c.from;
        move.to = c.to;
        move.src = 0;
        move.dst = 1;
        move.workspace = 2;
        const TensorView views[] = {viewOf(source, shapeOf(c.whole, c.source(), part, c.parts)),
                                    viewOf(results[part], own), viewOf(workspace, own)};
        statuses[part] = exchangeParts(*communicators[part], move, views, c.symbols, ranks);
      });
  }
  for (int part : ranks) {
    ASSERT_TRUE(statuses[part]) << statuses[part].message();
    EXPECT_EQ(results[part], expected(c, part)) << "part " << part << " of " << c.parts;
  }
}

/// A split of one of the dimensions of a shape, with rows and units of several elements.
PartSplit split(int64_t dim, int64_t outer, int64_t units, int64_t inner) {
  return {dim, {units}, inner, {outer}};
}

class PartExchange : public testing::TestWithParam<int64_t> {};

TEST_P(PartExchange, MovesWhatItSays) {
  const int64_t k = GetParam();
  const Shape whole = {2, 3 * 5 * 2, 7};
  const Split rows = split(1, 3, 5, 2), columns = split(2, 1, 7, 1), first = split(0, 1, 2, 1);
  check({PartMoveKind::AllReduce, whole, {}, {}, k});
  check({PartMoveKind::KeepFirst, whole, {}, {}, k});
  for (const Split &each : {rows, columns, first}) {
    check({PartMoveKind::AllGather, whole, each, {}, k});
    check({PartMoveKind::ReduceScatter, whole, {}, each, k});
    check({PartMoveKind::Take, whole, {}, each, k});
    check({PartMoveKind::Place, whole, each, {}, k});
    for (const Split &other : {rows, columns, first})
      check({PartMoveKind::AllToAll, whole, each, other, k});
  }
}

TEST_P(PartExchange, MovesBetweenSplitsOfOneDimension) {
  const int64_t k = GetParam();
  const Split coarse = split(1, 1, 4, 6), fine = split(1, 2, 6, 2);
  check({PartMoveKind::AllToAll, {3, 24}, coarse, fine, k});
  check({PartMoveKind::AllToAll, {3, 24}, fine, coarse, k});
}

/// Units are the micro-batch's tokens, rows its tiles.
TEST_P(PartExchange, UnitsOfTheMicrobatch) {
  const int64_t k = GetParam();
  for (int64_t tokens : {0, 1, 5, 16}) {
    const SymbolValues symbols = SymbolValues::of(2, tokens);
    const Split rows = PartSplit{1, {0, 0, 1}, 3, {0, 1}}, columns = split(0, 1, 4, 1);
    const Shape whole = {4, 2 * tokens * 3};
    check({PartMoveKind::AllGather, whole, rows, {}, k, symbols});
    check({PartMoveKind::ReduceScatter, whole, {}, rows, k, symbols});
    check({PartMoveKind::Take, whole, {}, rows, k, symbols});
    check({PartMoveKind::Place, whole, rows, {}, k, symbols});
    check({PartMoveKind::AllToAll, whole, rows, columns, k, symbols});
  }
}

TEST_P(PartExchange, NothingMovesOfNothing) {
  const int64_t k = GetParam();
  check({PartMoveKind::AllReduce, {0, 4}, {}, {}, k});
  check({PartMoveKind::AllGather, {0, 4}, Split(split(1, 1, 4, 1)), {}, k});
  check({PartMoveKind::ReduceScatter, {0, 4}, {}, Split(split(1, 1, 4, 1)), k});
  check({PartMoveKind::AllGather, {1, 4}, Split(split(0, 1, 1, 1)), {}, k});
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
        const PartSplit rows = split(0, 1, count, 1);
        const Shape shape = shapeOf({count}, rows.at({}), part, parts);
        own[part].resize(shape[0]);
        std::vector<float> workspace(shape[0]), sum(count), source = values[part];
        PartMove move;
        move.kind = PartMoveKind::ReduceScatter;
        move.to = rows;
        move.dst = 1;
        move.workspace = 2;
        const TensorView views[] = {viewOf(source, {count}), viewOf(own[part], shape),
                                    viewOf(workspace, shape)};
        ASSERT_TRUE(exchangeParts(*communicators[part], move, views, SymbolValues(), ranks));
        PartMove all;
        all.dst = 1;
        const TensorView whole[] = {viewOf(source, {count}), viewOf(sum, {count})};
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
