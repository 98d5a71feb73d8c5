//===- StepSearchTest.cpp - Step plans against the checker -----------------------------------===//
#include "runtime/planner/step/StepSearch.h"
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/StepPlanJson.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "test/unit/runtime/planner/step/RandomStepProblem.h"
#include <gtest/gtest.h>

namespace omnibal::planner {
namespace {

std::string complaints(const std::vector<StepViolation> &violations) {
  std::string text;
  for (const StepViolation &violation : violations)
    text += violation.message() + "\n";
  return text;
}

TEST(StepSearch, PlansOfRandomProblemsBreakNoRule) {
  int found = 0, divided = 0, limited = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    StepCase random = randomStepCase(seed);
    auto problem = parseStepProblem(writeStepProblem(random.problem), "problem.json");
    ASSERT_TRUE(problem) << seed << ": " << problem.status().message();
    auto loads = parseStepLoads(writeStepLoads(random.loads), *problem, "loads.jsonl:1");
    ASSERT_TRUE(loads) << seed << ": " << loads.status().message();
    StepPlan plan = StepPlanner(*problem, {3000, 40}).plan(*loads);
    auto again = parseStepPlan(writeStepPlan(plan), "plans.jsonl:1");
    ASSERT_TRUE(again) << seed << ": " << again.status().message();
    std::string wrong = complaints(checkStepPlan(*problem, *loads, *again));
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n"
                         << writeStepProblem(*problem) << writeStepLoads(*loads)
                         << writeStepPlan(plan);
    EXPECT_LE(plan.boundNs, plan.stepNs) << seed;
    found += plan.method == StepMethod::Lists;
    limited += plan.method == StepMethod::Lists && !problem->memoryBytes.empty();
    for (const auto &borders : plan.borders)
      divided += borders.size() > 2;
  }
  RecordProperty("found", found);
  RecordProperty("limited", limited);
  // The cases are worth their time only where most plans are found and all features occur.
  EXPECT_GT(found, 500);
  EXPECT_GT(limited, 100);
  EXPECT_GT(divided, 20);
}

/// Two chunks in a row, one a rank, with a serial static plan of two micro-batches. Of four
/// variants only the leanest fits the memory.
StepProblem onlyTheLeanestFits() {
  StepProblem problem;
  problem.stages = problem.microbatches = 2;
  problem.tokensCap = 10;
  problem.alignment = 1;
  problem.link = {0, 1'000'000'000};
  problem.memoryBytes = {500};
  problem.fixed.actions.resize(2);
  for (int32_t c = 0; c < 2; ++c) {
    StepChunk chunk{ChunkComponent::Language, c, {}};
    for (int v = 0; v < 4; ++v) {
      StepVariant variant{"variant" + std::to_string(v), {}, {}};
      for (TimeModel &time : variant.times)
        time.token = Decimal::of(1, 0);
      variant.blocks = {{{v < 3 ? 1000 : 100, 0, 0}, BlockBegin::Forward, BlockEnd::Forward}};
      chunk.variants.push_back(variant);
    }
    problem.chunks.push_back(chunk);
    problem.fixed.variants.push_back({3, 3});
    for (int32_t m = 0; m < 2; ++m)
      for (ActionKind kind : {ActionKind::Forward, ActionKind::Backward})
        problem.fixed.actions[c].push_back({kind, m, 0, c});
  }
  problem.edges = {{0, 1, {1, 0, 0}, {1, 0, 0}}};
  return problem;
}

TEST(StepSearch, ListsAreFoundWhereOnlyTheLeanestVariantFits) {
  StepProblem problem = onlyTheLeanestFits();
  StepLoads loads{0, std::vector<MicrobatchLoad>(2, {{0, 10, 100, 10}, {}})};
  StepPlan plan = StepPlanner(problem).plan(loads);
  EXPECT_EQ(plan.method, StepMethod::Lists);
  EXPECT_LT(plan.stepNs, plan.staticNs);
  EXPECT_EQ(complaints(checkStepPlan(problem, loads, plan)), "");
}

TEST(StepSearch, TheSameLoadsGiveTheSamePlan) {
  for (uint64_t seed : {3, 14, 15}) {
    StepCase random = randomStepCase(seed);
    StepPlanner planner(random.problem);
    EXPECT_EQ(writeStepPlan(planner.plan(random.loads)),
              writeStepPlan(StepPlanner(random.problem).plan(random.loads)));
  }
}

} // namespace
} // namespace omnibal::planner
