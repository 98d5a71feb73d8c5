// The verifier: accepts what the search finds, and names the broken rule of a plan that was changed
// in one place.
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/search/Search.h"
#include <functional>
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

Problem published(const std::string &name) {
  auto problem = readProblem(OMNIBAL_TEST_DATA "/plan/" + name + ".json");
  EXPECT_TRUE(static_cast<bool>(problem)) << problem.status().message();
  return *problem;
}

PlanClaims claimsOf(const SearchResult &result) {
  return {result.plan->stepNs, result.lowerBoundNs, result.gap(), result.plan->stages};
}

std::string messagesOf(const std::vector<Violation> &violations) {
  std::string text;
  for (const Violation &violation : violations)
    text += violation.message() + "\n";
  return text;
}

TEST(VerifyPlan, AcceptsWhatTheSearchFinds) {
  for (const char *name : {"microbatch_factors_tight", "gpipe_tight",
                           "slow_link_dp_mixed_memory_tight", "frozen_vision_skip_tight_dp"}) {
    Problem problem = published(name);
    SearchResult result = searchPlan(problem, {});
    ASSERT_TRUE(result.plan) << result.problem;
    EXPECT_EQ(messagesOf(verifyPlan(problem, *result.plan, claimsOf(result))), "");
  }
}

using Place = std::pair<std::optional<int64_t>, std::optional<int64_t>>; // stage, layer
const Place nowhere;
Place stage(int64_t number) { return {number, {}}; }
Place layer(int64_t number) { return {{}, number}; }

struct Change {
  const char *rule;
  Place place;
  std::function<void(Problem &, Plan &, PlanClaims &)> make;
};

TEST(VerifyPlan, NamesTheBrokenRule) {
  const Change changes[] = {
      {"plan_c1", nowhere, [](Problem &, Plan &p, PlanClaims &) { p.cuts.back() -= 1; }},
      {"plan_c1", layer(9), [](Problem &, Plan &p, PlanClaims &) { p.cuts[1] = p.cuts[2]; }},
      {"plan_c2", layer(0),
       [](Problem &, Plan &p, PlanClaims &) { std::swap(p.chunkStage[0], p.chunkStage[1]); }},
      {"plan_c2", layer(0), [](Problem &, Plan &p, PlanClaims &) { p.chunkStage[0] = 7; }},
      {"plan_c3", layer(3), [](Problem &, Plan &p, PlanClaims &) { p.remat[3] = "half"; }},
      {"plan_c3", nowhere, [](Problem &, Plan &p, PlanClaims &) { p.remat.pop_back(); }},
      {"plan_c4", nowhere,
       [](Problem &q, Plan &p, PlanClaims &) {
         q.varyCuts = false;
         q.givenCuts = p.cuts;
         q.givenCuts[1] += 1;
       }},
      {"plan_c4", layer(0),
       [](Problem &q, Plan &p, PlanClaims &) {
         q.varyRemat = false;
         q.givenRemat = p.remat;
         q.givenRemat[0] = p.remat[0] == "keep" ? "full" : "keep";
       }},
      {"plan_c5", layer(4), [](Problem &, Plan &p, PlanClaims &) { p.actions[1].pop_back(); }},
      {"plan_c5", stage(0),
       [](Problem &, Plan &p, PlanClaims &) { p.actions[0][0].microbatch = 99; }},
      {"plan_c5", layer(0),
       [](Problem &, Plan &p, PlanClaims &) { p.actions[0].push_back(p.actions[0][0]); }},
      {"plan_c6", nowhere, [](Problem &, Plan &p, PlanClaims &) { p.schedule = "gpipe"; }},
      {"plan_c6", stage(0),
       [](Problem &, Plan &p, PlanClaims &) { std::swap(p.actions[0][0], p.actions[0][1]); }},
      {"plan_c7", nowhere,
       [](Problem &q, Plan &p, PlanClaims &) {
         // All stages finish micro-batch after micro-batch, the last one beginning with the second.
         q.schedule = p.schedule = "auto";
         for (size_t r = 0; r < p.actions.size(); ++r) {
           auto chunk = static_cast<int64_t>(r);
           p.actions[r].clear();
           for (int64_t m = 0; m < q.microbatches; ++m) {
             int64_t number = r + 1 == p.actions.size() && m < 2 ? 1 - m : m;
             p.actions[r].push_back({ActionKind::Forward, number, chunk});
             p.actions[r].push_back({ActionKind::Backward, number, chunk});
           }
         }
       }},
      {"plan_c8", stage(0),
       [](Problem &q, Plan &, PlanClaims &) { q.cluster.memoryBytes = {1000}; }},
      {"plan_c9", nowhere, [](Problem &, Plan &, PlanClaims &c) { *c.stepNs -= 1; }},
      {"plan_c9", nowhere,
       [](Problem &, Plan &, PlanClaims &c) { c.lowerBoundNs = *c.stepNs + 1; }},
      {"plan_c9", nowhere, [](Problem &, Plan &, PlanClaims &c) { c.gap = 0.5; }},
      {"plan_c9", stage(1), [](Problem &, Plan &, PlanClaims &c) { c.stages[1].peakBytes += 1; }},
      {"plan_c9", nowhere, [](Problem &, Plan &, PlanClaims &c) { c.stages.pop_back(); }},
  };
  for (const Change &change : changes) {
    Problem problem = published("slow_link_dp_mixed_memory_tight");
    SearchResult result = searchPlan(problem, {});
    ASSERT_TRUE(result.plan);
    PlanClaims claims = claimsOf(result);
    change.make(problem, *result.plan, claims);
    std::vector<Violation> found = verifyPlan(problem, *result.plan, claims);
    ASSERT_FALSE(found.empty()) << change.rule;
    EXPECT_EQ(found[0].rule, change.rule) << found[0].message();
    EXPECT_EQ(Place(found[0].stage, found[0].layer), change.place) << found[0].message();
  }
}

TEST(VerifyPlan, CutsAloneAreCompleted) {
  Problem problem = published("slow_link_dp_mixed_memory_tight");
  SearchResult best = searchPlan(problem, {});
  Plan plan;
  plan.cuts = best.plan->cuts;
  EXPECT_EQ(completePlan(problem, plan), "");
  EXPECT_EQ(messagesOf(verifyPlan(problem, plan, {best.plan->stepNs, {}, {}, {}})), "");
  plan.remat.clear();
  problem.cluster.memoryBytes = {1000};
  EXPECT_NE(completePlan(problem, plan).find("bytes are missing"), std::string::npos);
}

} // namespace
