//===- SolveTest.cpp - The dynamic program over ops against all assignments
//-------------------------===//
#include "passes/shard/search/SolveLayer.h"
#include <gtest/gtest.h>
#include <random>

using namespace omnibal::shard;

namespace {

constexpr Cost none = -1;

/// Draws problems that no model has: what is forbidden, in which order moves begin, and what is
/// kept beside what are arbitrary.
class Draw {
public:
  explicit Draw(unsigned seed) : random(seed) {}

  LayerProblem problem() {
    LayerProblem result;
    std::vector<unsigned> known;
    for (int i = between(1, 2); i > 0; --i)
      known.push_back(value(result, SearchValue::Kind::Input));
    const int ops = between(1, 6);
    for (int i = 0; i < ops; ++i) {
      SearchOp op;
      for (int j = between(1, 2); j > 0; --j)
        op.operands.push_back(known[between(0, static_cast<int>(known.size()) - 1)]);
      if (between(0, 2) == 0) {
        op.operands.push_back(value(result, SearchValue::Kind::Parameter));
        if (between(0, 2) == 0)
          known.push_back(op.operands.back());
      }
      for (int j = between(1, 2); j > 0; --j)
        op.results.push_back(value(result, SearchValue::Kind::Made));
      known.insert(known.end(), op.results.begin(), op.results.end());
      for (int j = between(1, 4); j > 0; --j)
        op.ways.push_back(way(result, op));
      finish(op);
      result.ops.push_back(std::move(op));
    }
    SearchOp last;
    last.operands = {known.back()};
    last.ways.push_back(way(result, last));
    last.ways.front().work = 0;
    finish(last);
    result.ops.push_back(std::move(last));
    return result;
  }

private:
  int between(int a, int b) { return std::uniform_int_distribution<int>(a, b)(random); }

  unsigned value(LayerProblem &problem, SearchValue::Kind kind) {
    SearchValue value;
    value.kind = kind;
    const auto count = static_cast<unsigned>(between(1, 4));
    value.layouts = count;
    value.native = static_cast<unsigned>(between(0, static_cast<int>(count) - 1));
    for (unsigned from = 0; from < count; ++from)
      for (unsigned to = 0; to < count; ++to)
        value.moves.push_back(from == to ? 0
                              : kind == SearchValue::Kind::Parameter
                                  ? (between(0, 1) ? 0 : impossible)
                              : between(0, 9) == 0 ? impossible
                                                   : between(0, 30));
    for (unsigned to = 0; to < count; ++to) {
      std::vector<int64_t> order(count);
      for (unsigned i = 0; i < count; ++i)
        order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      value.sources.insert(value.sources.end(), order.begin(), order.end());
    }
    if (kind == SearchValue::Kind::Parameter)
      for (unsigned i = 0; i < count; ++i)
        value.held.push_back(between(0, 6) == 0 ? impossible : between(0, 40));
    else if (between(0, 1))
      for (unsigned i = 0; i < count; ++i) { // 0 and 1 are one in memory, and 0 covers 3
        value.kept.push_back(between(0, 20));
        value.keptAs.push_back(i == 1 ? 0 : i);
        value.covers.push_back(i == 0 && count > 3 ? 8 : 0);
      }
    problem.values.push_back(std::move(value));
    return static_cast<unsigned>(problem.values.size()) - 1;
  }

  SearchWay way(const LayerProblem &problem, const SearchOp &op) {
    SearchWay way;
    way.work = between(0, 50);
    auto any = [&](unsigned value) {
      return static_cast<unsigned>(between(0, static_cast<int>(problem.values[value].layouts) - 1));
    };
    for (unsigned value : op.operands)
      way.reads.push_back(any(value));
    for (unsigned value : op.results)
      way.layouts.push_back(any(value));
    return way;
  }

  void finish(SearchOp &op) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      op.keepsOperand.push_back(between(0, 1));
    for (size_t i = 0; i < op.results.size(); ++i)
      op.keepsResult.push_back(between(0, 1));
  }

  std::mt19937 random;
};

/// The cost of one assignment, value by value.
Cost priceOf(const LayerProblem &problem, const LayerChoice &choice) {
  Cost cost = 0;
  for (size_t i = 0; i < problem.ops.size(); ++i)
    cost += problem.ops[i].ways[choice.ways[i]].work;
  for (unsigned v = 0; v < problem.values.size(); ++v) {
    const SearchValue &value = problem.values[v];
    std::vector<unsigned> there;
    std::vector<bool> kept(value.layouts);
    if (value.kind == SearchValue::Kind::Input)
      there.push_back(value.native);
    if (value.kind == SearchValue::Kind::Parameter) {
      there.push_back(choice.held[v]);
      if (value.held[choice.held[v]] == impossible)
        return none;
      cost += value.held[choice.held[v]];
    }
    for (size_t i = 0; i < problem.ops.size(); ++i) {
      const SearchOp &op = problem.ops[i];
      const SearchWay &way = op.ways[choice.ways[i]];
      for (size_t j = 0; j < op.operands.size(); ++j) {
        if (op.operands[j] != v)
          continue;
        const unsigned read = way.reads[j];
        if (std::find(there.begin(), there.end(), read) == there.end()) {
          unsigned from = there[0];
          for (unsigned each : there)
            if (value.sources[read * value.layouts + each] <
                value.sources[read * value.layouts + from])
              from = each;
          const Cost move = value.moves[from * value.layouts + read];
          if (move == impossible)
            return none;
          cost += move;
          if (value.kind != SearchValue::Kind::Parameter)
            there.push_back(read);
        }
        if (op.keepsOperand[j])
          kept[read] = true;
      }
      for (size_t j = 0; j < op.results.size(); ++j)
        if (op.results[j] == v) {
          there = {way.layouts[j]};
          kept[way.layouts[j]] = kept[way.layouts[j]] || op.keepsResult[j];
        }
    }
    if (value.kept.empty())
      continue;
    const bool all = kept[0] || (value.layouts > 1 && kept[1]);
    const bool own = value.layouts > 3 && kept[3];
    if (value.layouts > 2 && kept[2])
      cost += value.kept[2];
    if (all)
      cost += value.kept[0];
    else if (own)
      cost += std::min(value.kept[0], value.kept[3]);
  }
  return cost;
}

/// The least of all assignments; `none` where no one is legal.
class Enumeration {
public:
  explicit Enumeration(const LayerProblem &problem) : problem(problem) {
    choice.ways.assign(problem.ops.size(), 0);
    choice.held.assign(problem.values.size(), 0);
    ways(0);
  }
  Cost least = none;
  int64_t count = 0;

private:
  void ways(size_t op) {
    if (op == problem.ops.size())
      return held(0);
    for (unsigned way = 0; way < problem.ops[op].ways.size(); ++way) {
      choice.ways[op] = way;
      ways(op + 1);
    }
  }
  void held(size_t value) {
    if (value == problem.values.size()) {
      ++count;
      const Cost cost = priceOf(problem, choice);
      if (cost != none && (least == none || cost < least))
        least = cost;
      return;
    }
    if (problem.values[value].kind != SearchValue::Kind::Parameter)
      return held(value + 1);
    for (unsigned layout = 0; layout < problem.values[value].layouts; ++layout) {
      choice.held[value] = layout;
      held(value + 1);
    }
  }

  const LayerProblem &problem;
  LayerChoice choice;
};

TEST(SolveLayer, EqualsAllAssignments) {
  int legal = 0, illegal = 0;
  int64_t assignments = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    const LayerProblem problem = Draw(seed).problem();
    const Enumeration all(problem);
    assignments += all.count;
    const auto found = solveLayer(problem);
    ASSERT_EQ(found.has_value(), all.least != none) << seed;
    ++(found ? legal : illegal);
    if (!found)
      continue;
    ASSERT_EQ(found->cost.total(), all.least) << seed;
    ASSERT_EQ(priceOf(problem, found->choice), all.least) << seed;
    const auto bound = boundOf(problem);
    ASSERT_TRUE(bound.has_value()) << seed;
    ASSERT_LE(bound->total(), all.least) << seed;
  }
  EXPECT_GT(legal, 2000);
  EXPECT_GT(illegal, 20);
  std::cout << assignments << " assignments of " << legal + illegal << " problems\n";
}

/// With few states a result may cost more, and then it says so.
TEST(SolveLayer, FewStatesAreNotExact) {
  for (size_t most : {4, 16}) {
    int inexact = 0, dearer = 0, unbounded = 0, rescued = 0;
    const StateLimits limits{most / 2, most};
    for (unsigned seed = 0; seed < 4000; ++seed) {
      const LayerProblem problem = Draw(seed).problem();
      const auto exact = solveLayer(problem), found = solveLayer(problem, limits);
      ASSERT_EQ(found.has_value(), exact.has_value()) << seed;
      if (!found)
        continue;
      rescued += found->mostStates > most;
      ASSERT_EQ(priceOf(problem, found->choice), found->cost.total()) << seed;
      ASSERT_GE(found->cost.total(), exact->cost.total()) << seed;
      const bool isDearer = found->cost.total() > exact->cost.total();
      ASSERT_FALSE(found->isExact && isDearer) << seed;
      inexact += !found->isExact;
      dearer += isDearer;
      const auto bound = boundOf(problem, limits);
      unbounded += !bound;
      if (bound)
        ASSERT_LE(bound->total(), exact->cost.total()) << seed;
    }
    std::cout << most << " states: " << inexact << " inexact, of which " << dearer << " dearer, "
              << unbounded << " without a bound, " << rescued << " by more states\n";
    EXPECT_GT(inexact, 0);
    EXPECT_GT(unbounded, 0);
    if (most == 4) {
      EXPECT_GT(dearer, 0);
      EXPECT_GT(rescued, 0);
    }
  }
}

TEST(SolveLayer, AnswersAlike) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const LayerProblem problem = Draw(seed).problem();
    const auto first = solveLayer(problem), second = solveLayer(problem);
    ASSERT_EQ(first.has_value(), second.has_value());
    if (first)
      EXPECT_EQ(first->choice.ways, second->choice.ways);
  }
}

} // namespace
