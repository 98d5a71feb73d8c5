// The search against the exhaustive solver on small random problems, and what it says where nothing
// fits.
#include "runtime/planner/search/Search.h"
#include "runtime/planner/search/Exhaustive.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

struct Count {
  int feasible = 0, infeasible = 0;
};

/// Searches the problems of these seeds and compares with all plans there are.
Count compareWithAllPlans(Problem (*make)(uint64_t), uint64_t seeds) {
  Count count;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Problem problem = make(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + problem.schedule);
    std::optional<Plan> all = solveExhaustively(problem);
    SearchResult found = searchPlan(problem, {});
    EXPECT_EQ(found.plan.has_value(), all.has_value()) << found.problem;
    ++(all ? count.feasible : count.infeasible);
    if (!all) {
      EXPECT_FALSE(found.problem.empty());
    } else if (found.plan) {
      EXPECT_EQ(found.plan->stepNs, all->stepNs);
      EXPECT_EQ(found.lowerBoundNs, all->stepNs);
      EXPECT_TRUE(found.provedOptimal);
    }
  }
  return count;
}

TEST(Search, EqualsTheExhaustiveSolver) {
  Count count = compareWithAllPlans(randomProblem, 1500);
  EXPECT_GE(count.feasible, 500);
  EXPECT_GE(count.infeasible, 50);
}

TEST(Search, SplitBackwardsAndSeveralChunksEqualTheExhaustiveSolver) {
  Count count = compareWithAllPlans(randomChunkProblem, 600);
  EXPECT_GE(count.feasible, 300);
  EXPECT_GE(count.infeasible, 20);
}

/// Returns the worst step found with little effort, over the best.
double compareQuickWithAllPlans(Problem (*make)(uint64_t), uint64_t seeds) {
  SearchOptions options;
  options.effort = Effort::Quick;
  double worst = 1;
  int feasible = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Problem problem = make(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + problem.schedule);
    std::optional<Plan> best = solveExhaustively(problem);
    SearchResult found = searchPlan(problem, options);
    EXPECT_EQ(found.plan.has_value(), best.has_value()) << found.problem;
    if (!best || !found.plan)
      continue;
    ++feasible;
    EXPECT_LE(found.lowerBoundNs, best->stepNs);
    EXPECT_GE(found.plan->stepNs, best->stepNs);
    worst = std::max(worst,
                     static_cast<double>(found.plan->stepNs) / static_cast<double>(best->stepNs));
  }
  EXPECT_GE(feasible, 200);
  return worst;
}

TEST(Search, WithLittleEffortPlansAreGoodAllTheSame) {
  for (double worst : {compareQuickWithAllPlans(randomProblem, 600),
                       compareQuickWithAllPlans(randomChunkProblem, 600)})
    EXPECT_LE(worst, 1.25);
}

TEST(Search, GivenCutsStay) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Problem problem = randomProblem(seed);
    problem.varyCuts = false;
    auto layers = static_cast<int64_t>(problem.layers.size());
    for (int64_t s = 0; s <= problem.cluster.stages; ++s)
      problem.givenCuts.push_back(s * layers / problem.cluster.stages);
    std::optional<Plan> all = solveExhaustively(problem);
    SearchResult found = searchPlan(problem, {});
    ASSERT_EQ(found.plan.has_value(), all.has_value()) << "seed " << seed << found.problem;
    if (!all)
      continue;
    EXPECT_EQ(found.plan->cuts, problem.givenCuts);
    EXPECT_EQ(found.plan->stepNs, all->stepNs) << "seed " << seed;
  }
}

/// Three layers of 100 bytes of parameters and 10 saved bytes each.
Problem threeLayers(int64_t stages, int64_t memory) {
  Problem p;
  for (int i = 0; i < 3; ++i) {
    Layer layer;
    layer.name = std::string("block.") + static_cast<char>('a' + i);
    layer.kind = "language";
    layer.forwardNs = layer.inputGradNs = 10;
    layer.paramBytes = 100;
    layer.remat = {{"keep", 10, 0, 5}, {"full", 2, 10, 12}};
    p.layers.push_back(layer);
    if (i > 0)
      p.edges.push_back({i - 1, i, 1, 1});
  }
  p.microbatches = 4;
  p.cluster.stages = stages;
  p.cluster.memoryBytes = {memory};
  p.cluster.link = {1, 1'000'000'000};
  return p;
}

TEST(Search, SaysWhatDoesNotFit) {
  // Stage 0 of 2 holds two micro-batches: 100 + 2 * 2 + 12 = 116 a layer at the least, or with two
  // layers 200 + 2 * 4 + 12 = 220; stage 1 holds one: 200 + 4 + 12 = 216 for two layers.
  EXPECT_TRUE(searchPlan(threeLayers(2, 216), {}).plan);
  std::string one = searchPlan(threeLayers(2, 200), {}).problem;
  EXPECT_NE(one.find("block.c does not fit stage 1 beside the layers from block.b"),
            std::string::npos)
      << one;
  EXPECT_NE(one.find("16 bytes are missing"), std::string::npos) << one;
  EXPECT_NE(one.find("16 bytes more on every stage, or 1 more stage"), std::string::npos) << one;
  // Alone on stage 0: 100 + 12 + 2 * 2, or kept 100 + 5 + 2 * 10. On stage 1 1 * 10 would do.
  std::string none = searchPlan(threeLayers(2, 100), {}).problem;
  EXPECT_NE(none.find("block.a fits no stage even alone, even with everything recomputed: on stage "
                      "0, where least is missing, 16 bytes are"),
            std::string::npos)
      << none;
  std::string stages = searchPlan(threeLayers(4, 1000), {}).problem;
  EXPECT_NE(stages.find("at most 3 stages"), std::string::npos) << stages;
}

TEST(Search, SaysWhatChunksOfOneRankLack) {
  // Four layers, a chunk each: 2 * 100 bytes of parameters and workspace 12 on each stage. Stage 0
  // of interleaved:2 holds 2 + 2 + 1 = 5 chunks' micro-batches at most of M = 4, stage 1 three;
  // fully recomputed 2 bytes each: 222 bytes; the layers kept need more.
  Problem p = threeLayers(2, 222);
  p.layers.push_back(p.layers.back());
  p.layers.back().name = "block.d";
  p.edges.push_back({2, 3, 1, 1});
  p.schedule = "interleaved:2";
  EXPECT_TRUE(searchPlan(p, {}).plan);
  p.cluster.memoryBytes = {216};
  std::string why = searchPlan(p, {}).problem;
  EXPECT_NE(why.find("the 2 chunks of a stage do not fit its memory together"), std::string::npos)
      << why;
  EXPECT_NE(why.find("6 bytes more on every stage"), std::string::npos) << why;
}

/// A list by search may have more chunks than one a stage; no bytes that were counted for one a
/// stage say anything about them.
TEST(Search, DoesNotGuessWhatChunksOfGivenCutsLack) {
  Problem p = threeLayers(2, 150);
  p.layers.push_back(p.layers.back());
  p.layers.back().name = "block.d";
  p.edges.push_back({2, 3, 1, 1});
  p.schedule = "auto";
  p.varyCuts = false;
  p.givenCuts = {0, 1, 2, 3, 4};
  SearchResult found = searchPlan(p, {});
  EXPECT_FALSE(found.plan);
  EXPECT_EQ(found.problem, noPlanFound);
  EXPECT_LT(found.seconds, 5);
}

TEST(Search, RefusesNumbersThatCannotBeAddedUp) {
  using Change = void (*)(Problem &);
  const std::pair<const char *, Change> cases[] = {
      {"the sum of all times", [](Problem &p) { p.layers[1].forwardNs = INT64_MAX; }},
      {"the sum of all sizes", [](Problem &p) { p.layers[1].remat[0].savedBytes = INT64_MAX; }},
      {"2^60", [](Problem &p) { p.cluster.memoryBytes = {INT64_MAX}; }},
      {"`cluster.link`", [](Problem &p) { p.cluster.link.latencyNs = INT64_MAX; }},
      {"every action", [](Problem &p) { p.microbatches = INT64_MAX; }}};
  for (const char *schedule : {"1f1b", "interleaved:1", "auto"})
    for (const auto &[what, change] : cases) {
      Problem problem = threeLayers(2, 1'000'000);
      problem.schedule = schedule;
      EXPECT_TRUE(searchPlan(problem, {}).plan);
      change(problem);
      SearchResult found = searchPlan(problem, {});
      EXPECT_FALSE(found.plan) << what;
      EXPECT_NE(found.problem.find(what), std::string::npos) << found.problem;
    }
}

TEST(Search, TheSameProblemGivesTheSamePlan) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SearchResult a = searchPlan(randomProblem(seed), {}), b = searchPlan(randomProblem(seed), {});
    ASSERT_EQ(a.plan.has_value(), b.plan.has_value());
    if (a.plan) {
      EXPECT_EQ(a.plan->cuts, b.plan->cuts);
      EXPECT_EQ(a.plan->remat, b.plan->remat);
    }
  }
}

} // namespace
