// Where cuts may go and what memory is worth, against every cut and every choice tried.
#include "runtime/planner/search/PlanReasons.h"
#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/search/Search.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

std::optional<int64_t> least(const Problem &problem) {
  std::optional<Plan> plan = solveExhaustively(problem);
  return plan ? std::optional(plan->stepNs) : std::nullopt;
}

TEST(PlanReasons, EqualTheExhaustiveSolver) {
  int places = 0, memories = 0, stages = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Problem problem = randomProblem(seed);
    SearchResult found = searchPlan(problem, {});
    if (!found.plan)
      continue;
    Timeline timeline = simulate(problem, *found.plan);
    PlanReasons reasons = explainPlan(problem, *found.plan, timeline, 1);
    const std::vector<int64_t> &cuts = found.plan->cuts;
    ASSERT_EQ(reasons.cuts.size(), cuts.size() - 2);
    for (size_t cut = 1; cut + 1 < cuts.size(); ++cut) {
      std::optional<int64_t> best;
      for (int64_t place : {cuts[cut] - 1, cuts[cut] + 1}) {
        Problem moved = problem;
        moved.varyCuts = false;
        moved.givenCuts = cuts;
        moved.givenCuts[cut] = place;
        if (place <= cuts[cut - 1] || place >= cuts[cut + 1])
          continue;
        if (auto step = least(moved); step && (!best || *step < *best))
          best = step;
      }
      EXPECT_EQ(reasons.cuts[cut - 1].stepNs, best) << "seed " << seed << " cut " << cut;
      places += best.has_value();
    }
    if (reasons.tightestStage >= 0) {
      Problem more = problem;
      more.cluster.memoryBytes.resize(problem.cluster.stages, problem.cluster.memoryBytes.front());
      EXPECT_GT(timeline.stages[reasons.tightestStage].recomputeNs, 0);
      more.cluster.memoryBytes[reasons.tightestStage] += moreMemoryBytes;
      EXPECT_EQ(reasons.moreMemoryNs, least(more)) << "seed " << seed;
      ++memories;
    }
    if (reasons.moreStagesNs)
      ++stages;
    for (const StageFigures &stage : timeline.stages)
      EXPECT_GE(stage.idleNs, timeline.stages[reasons.slowestStage].idleNs);
  }
  EXPECT_GT(places, 50);
  EXPECT_GT(memories, 20);
  EXPECT_GT(stages, 20);
}

} // namespace
