//===- ListSearchTest.cpp - Searches for lists against the lists they make -------------------===//
#include "runtime/planner/step/ListSearch.h"
#include "runtime/planner/step/FirstLists.h"
#include "test/unit/runtime/planner/step/RandomStepProblem.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

namespace omnibal::planner {
namespace {

/// A weight gradient behind its input gradient may become one whole backward with it, but what
/// waits for the input gradient must not wait longer.
TEST(ListSearch, NoListIsLongerThanTheOnesItIsMadeFrom) {
  int joined = 0, apart = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const StepCase random = randomStepCase(seed, {3, 4, 5, false, false});
    const StepModel model(random.problem);
    const std::vector<FirstList> first = firstLists(random.problem, false);
    ListSearchTask task{model, random.loads, random.loads, {}, 1'000'000, 0, false, false};
    task.mostLists = static_cast<int64_t>(first.size());
    const ListSearchResult result = searchLists(task);
    ASSERT_TRUE(result.best) << seed;
    EXPECT_EQ(result.evaluated, task.mostLists);
    SplitUnits split(task, wholeMicrobatches(random.loads));
    const SplitChoices choices(model, random.loads, false);
    int64_t shortest = std::numeric_limits<int64_t>::max();
    for (const FirstList &each : first)
      shortest = std::min(
          shortest,
          split.maker.make(each.policy, entryOrder(each.order, random.loads, choices))->stepNs);
    const std::optional<StepTimes> times = timesOf(result.best->split->units, result.best->lists);
    ASSERT_TRUE(times) << seed;
    EXPECT_LE(times->stepNs, shortest) << seed;
    for (const std::vector<UnitAction> &list : result.best->lists.actions)
      for (size_t i = 0; i < list.size(); ++i) {
        joined += list[i].kind == ActionKind::Backward;
        apart += i > 0 && list[i].kind == ActionKind::WeightGrad &&
                 list[i - 1].kind == ActionKind::InputGrad && list[i - 1].unit == list[i].unit;
      }
  }
  EXPECT_GT(joined, 100);
  EXPECT_GT(apart, 100) << "no halves stay apart because something waits for the first one";
}

TEST(FirstLists, OrdersAreThoseOfTheirNames) {
  StepCase random = randomStepCase(1, {2, 4, 4, false, false});
  random.problem.microbatches = 5;
  random.loads.microbatches.clear();
  for (int64_t tokens : {30, 10, 50, 20, 40}) // and as much work
    random.loads.microbatches.push_back({{tokens / 10 % 2, tokens, tokens * tokens, tokens}, {}});
  const StepModel model(random.problem);
  const SplitChoices choices(model, random.loads, false);
  std::vector<int32_t> byWork(5);
  std::iota(byWork.begin(), byWork.end(), 0);
  std::ranges::sort(byWork, {}, [&](int32_t m) { return std::pair(choices.workOf(m), m); });
  auto order = [&](EntryOrder kind) { return entryOrder(kind, random.loads, choices); };
  EXPECT_EQ(order(EntryOrder::Natural), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(order(EntryOrder::LeastWork), byWork);
  EXPECT_EQ(order(EntryOrder::LeastTiles), (std::vector<int32_t>{3, 4, 0, 1, 2}));
  const std::vector<int32_t> &w = byWork;
  EXPECT_EQ(order(EntryOrder::SmallAtEnds), (std::vector<int32_t>{w[0], w[2], w[4], w[3], w[1]}));
  EXPECT_EQ(order(EntryOrder::LeastLast), (std::vector<int32_t>{w[1], w[2], w[3], w[4], w[0]}));
}

} // namespace
} // namespace omnibal::planner
