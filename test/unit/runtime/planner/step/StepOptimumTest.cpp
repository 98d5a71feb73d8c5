//===- StepOptimumTest.cpp - Step plans and bounds against enumeration ------------------------===//
#include "runtime/planner/step/StepBound.h"
#include "runtime/planner/step/StepSearch.h"
#include "test/unit/runtime/planner/step/RandomStepProblem.h"
#include "test/unit/runtime/planner/step/StepEnumeration.h"
#include <gtest/gtest.h>

namespace omnibal::planner {
namespace {

constexpr StepCaseKind enumerable(bool hasMemory) {
  return {2, 3, hasMemory ? 2 : 3, hasMemory, false};
}

TEST(StepOptimum, WithoutALimitMostPlansAreOptimal) {
  int optimal = 0, count = 0;
  double gap = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    StepCase random = randomStepCase(seed, enumerable(false));
    StepModel model(random.problem);
    StepUnits units(model, random.loads, wholeMicrobatches(random.loads));
    std::optional<int64_t> best = StepEnumeration(units).shortest();
    ASSERT_TRUE(best) << seed;
    EXPECT_LE(stepBound(units), *best) << seed;
    StepPlan plan = StepPlanner(random.problem).plan(random.loads);
    ASSERT_GE(plan.stepNs, *best) << seed;
    ++count;
    optimal += plan.stepNs == *best;
    gap += *best ? static_cast<double>(plan.stepNs - *best) / static_cast<double>(*best) : 0;
  }
  RecordProperty("optimal", optimal);
  RecordProperty("gap_in_millionths", static_cast<int>(gap / count * 1e6));
  EXPECT_GE(optimal * 100, count * 85);
  EXPECT_LE(gap / count, 0.005);
}

TEST(StepOptimum, WithALimitNoPlanIsShorterThanTheOptimum) {
  int compared = 0, optimal = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    StepCase random = randomStepCase(seed, enumerable(true));
    StepModel model(random.problem);
    StepUnits units(model, random.loads, wholeMicrobatches(random.loads));
    StepPlan plan = StepPlanner(random.problem).plan(random.loads);
    if (plan.method == StepMethod::Static)
      continue;
    std::optional<int64_t> best = StepEnumeration(units).shortest();
    ASSERT_TRUE(best) << seed;
    ASSERT_GE(plan.stepNs, *best) << seed;
    EXPECT_LE(stepBound(units), *best) << seed;
    ++compared;
    optimal += plan.stepNs == *best;
  }
  RecordProperty("compared", compared);
  RecordProperty("optimal", optimal);
  EXPECT_GE(compared, 100);
}

} // namespace
} // namespace omnibal::planner
