// Baselines are valid plans that never beat the optimum, and cut as their rules say.
#include "passes/planner/Baselines.h"
#include "passes/planner/Search.h"
#include "passes/planner/VerifyPlan.h"
#include "test/unit/planner/RandomProblem.h"
#include <gtest/gtest.h>
#include <map>

using namespace omnibal::planner;

namespace {

std::map<std::string, Baseline> byName(const Problem &problem) {
  std::map<std::string, Baseline> result;
  for (Baseline &baseline : baselines(problem))
    result[baseline.name] = std::move(baseline);
  return result;
}

TEST(Baselines, AreValidAndNeverBetter) {
  std::map<std::string, int> plans;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Problem problem = randomProblem(seed);
    SearchResult best = searchPlan(problem, {});
    for (const auto &[name, baseline] : byName(problem)) {
      ASSERT_EQ(baseline.plan.has_value(), baseline.problem.empty()) << name << ", seed " << seed;
      if (!baseline.plan)
        continue;
      ++plans[name];
      ASSERT_TRUE(best.plan) << name << ", seed " << seed;
      EXPECT_GE(baseline.plan->stepNs, best.plan->stepNs) << name << ", seed " << seed;
      PlanClaims claims{baseline.plan->stepNs, {}, {}, baseline.plan->ranks};
      EXPECT_EQ(verifyPlan(problem, *baseline.plan, claims), std::vector<std::string>()) << name;
    }
  }
  for (const char *name : {"equal-layers", "equal-parameters", "vision-first", "profile-greedy",
                           "bmp", "adapipe", "megatron"})
    EXPECT_GE(plans[name], 30) << name;
}

/// Six vision layers of 1, six language layers of 3; backward twice that.
Problem twelveLayers(int64_t stages) {
  Problem p;
  for (int64_t i = 0; i < 12; ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = i < 6 ? "vision" : "language";
    layer.forwardNs = i < 6 ? 1000 : 3000;
    layer.inputGradNs = layer.weightGradNs = layer.forwardNs;
    layer.paramBytes = i == 11 ? 1000 : 10;
    layer.remat = {{"keep", 100, 0, 0}, {"full", 10, layer.forwardNs, 0}};
    p.layers.push_back(layer);
    if (i > 0)
      p.edges.push_back({i - 1, i, 1, 1});
  }
  p.microbatches = 8;
  p.cluster.stages = stages;
  p.cluster.link = {1, 1'000'000'000};
  return p;
}

TEST(Baselines, CutByTheirRules) {
  using Cuts = std::vector<int64_t>;
  std::map<std::string, Baseline> all = byName(twelveLayers(4));
  EXPECT_EQ(all["equal-layers"].plan->cuts, (Cuts{0, 3, 6, 9, 12}));
  EXPECT_EQ(all["vision-first"].plan->cuts, (Cuts{0, 6, 8, 10, 12}));
  EXPECT_EQ(all["equal-parameters"].plan->cuts[3], 11); // the last layer alone
  // 24 time units: 6 a stage.
  for (const char *name : {"profile-greedy", "bmp", "adapipe"})
    EXPECT_EQ(all[name].plan->cuts, (Cuts{0, 6, 8, 10, 12})) << name;
}

TEST(Baselines, MegatronHasOneCountForAllStages) {
  // Stage 0 of 2 holds two micro-batches: 60 + 2 * 600 kept, 180 less for every layer recomputed.
  Problem problem = twelveLayers(2);
  problem.layers[11].paramBytes = 10;
  problem.cluster.memoryBytes = {60 + 2 * 600 - 3 * 180};
  Baseline megatron = byName(problem)["megatron"];
  ASSERT_TRUE(megatron.plan) << megatron.problem;
  std::vector<std::string> want(12, "keep");
  for (int64_t l : {0, 1, 2, 6, 7, 8})
    want[l] = "full";
  EXPECT_EQ(megatron.plan->remat, want);
}

} // namespace
