// The schedule "auto": valid plans, never worse than the named schedules, with a bound that no plan
// undercuts.
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/search/Infeasible.h"
#include "runtime/planner/search/Search.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

TEST(Auto, IsNeverWorseThanANamedSchedule) {
  int feasible = 0, better = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Problem problem = randomChunkProblem(seed);
    problem.schedule = "auto";
    SearchResult found = searchPlan(problem, {});
    int64_t least = INT64_MAX;
    for (const char *name : {"gpipe", "1f1b", "zb-h1", "interleaved:2", "interleaved:3"}) {
      Problem named = problem;
      named.schedule = name;
      if (SearchResult fixed = searchPlan(named, {}); fixed.plan)
        least = std::min(least, fixed.plan->stepNs);
    }
    if (!found.plan) {
      EXPECT_EQ(least, INT64_MAX) << "seed " << seed;
      EXPECT_FALSE(found.problem.empty());
      continue;
    }
    ++feasible;
    better += found.plan->stepNs < least;
    EXPECT_LE(found.plan->stepNs, least) << "seed " << seed;
    EXPECT_LE(found.lowerBoundNs, found.plan->stepNs) << "seed " << seed;
    EXPECT_TRUE(verifyPlan(problem, *found.plan, {}).empty())
        << "seed " << seed << ": " << verifyPlan(problem, *found.plan, {}).front().message();
  }
  EXPECT_GE(feasible, 80);
  EXPECT_GE(better, 20);
}

/// All lists of one stage and chunk for two micro-batches, with B or with I and W.
std::vector<std::vector<Action>> allLists(int64_t chunk) {
  std::vector<std::vector<Action>> lists;
  using enum ActionKind;
  const std::vector<ActionKind> whole = {Forward, Backward},
                                split = {Forward, InputGrad, WeightGrad};
  for (const auto &first : {whole, split})
    for (const auto &second : {whole, split}) {
      std::vector<int> turn(first.size(), 0);
      turn.insert(turn.end(), second.size(), 1);
      do {
        size_t next[2] = {0, 0};
        std::vector<Action> &list = lists.emplace_back();
        for (int who : turn)
          list.push_back({(who ? second : first)[next[who]++], who, chunk});
      } while (std::next_permutation(turn.begin(), turn.end()));
    }
  return lists;
}

TEST(Auto, NoPlanOfTwoRanksUndercutsTheBound) {
  int solved = 0, optimal = 0;
  for (uint64_t seed = 0; seed < 400 && solved < 30; ++seed) {
    Problem problem = randomChunkProblem(seed);
    problem.schedule = "auto";
    if (problem.cluster.stages != 2 || problem.layers.size() > 4 || problem.microbatches < 2)
      continue;
    problem.microbatches = 2;
    if (!problem.factors.empty())
      problem.factors.resize(2);
    problem.cluster.memoryBytes.clear();
    int64_t least = INT64_MAX;
    Plan plan;
    plan.schedule = "auto";
    plan.chunkStage = {0, 1};
    for (const Layer &layer : problem.layers)
      plan.remat.push_back(problem.varyRemat ? "keep" : problem.givenRemat[plan.remat.size()]),
          (void)layer;
    auto layers = static_cast<int64_t>(problem.layers.size());
    for (int64_t cut = 1; cut < layers; ++cut)
      for (const auto &first : allLists(0))
        for (const auto &second : allLists(1)) {
          plan.cuts = {0, cut, layers};
          plan.actions = {first, second};
          Timeline timeline = simulate(problem, plan);
          if (timeline.error.empty())
            least = std::min(least, timeline.stepNs);
        }
    SearchResult found = searchPlan(problem, {});
    ASSERT_TRUE(found.plan) << found.problem;
    ++solved;
    EXPECT_LE(found.lowerBoundNs, least) << "seed " << seed;
    // Several chunks a stage may be faster still; what is far from the best of one chunk is a
    // fault.
    EXPECT_LE(static_cast<double>(found.plan->stepNs), 1.1 * static_cast<double>(least))
        << "seed " << seed;
    optimal += found.plan->stepNs <= least;
  }
  EXPECT_EQ(solved, 30);
  EXPECT_GE(optimal, 15);
}

TEST(Auto, TheSameProblemGivesTheSamePlan) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem = randomChunkProblem(seed);
    problem.schedule = "auto";
    SearchResult a = searchPlan(problem, {}), b = searchPlan(problem, {});
    ASSERT_EQ(a.plan.has_value(), b.plan.has_value());
    if (a.plan) {
      EXPECT_EQ(a.plan->cuts, b.plan->cuts);
      EXPECT_EQ(a.plan->stepNs, b.plan->stepNs);
    }
  }
}

/// Little work gives a plan all the same, a worse one at times, and a bound that holds.
TEST(Auto, WorkIsLimitedAndNotSecondsAlone) {
  int worse = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Problem problem = randomChunkProblem(seed);
    problem.schedule = "auto";
    SearchResult all = searchPlan(problem, {});
    SearchOptions options;
    for (options.work = 10; options.work <= 1'000'000; options.work *= 10) {
      SearchResult found = searchPlan(problem, options);
      EXPECT_FALSE(found.stoppedByTime);
      if (!found.plan || !all.plan) {
        EXPECT_FALSE(found.plan) << "seed " << seed;
        continue;
      }
      EXPECT_TRUE(verifyPlan(problem, *found.plan, {}).empty()) << "seed " << seed;
      EXPECT_GE(found.plan->stepNs, all.lowerBoundNs) << "seed " << seed;
      EXPECT_LE(found.lowerBoundNs, all.plan->stepNs) << "seed " << seed;
      EXPECT_EQ(found.plan->stepNs, searchPlan(problem, options).plan->stepNs) << "seed " << seed;
      worse += found.plan->stepNs > all.plan->stepNs;
    }
  }
  EXPECT_GE(worse, 20);
}

TEST(Auto, CutsByHandGetListsOfTheirOwn) {
  Problem problem = randomChunkProblem(3);
  problem.schedule = "auto";
  problem.cluster.stages = 2;
  problem.cluster.memoryBytes.clear();
  auto layers = static_cast<int64_t>(problem.layers.size());
  ASSERT_GE(layers, 2);
  Plan plan;
  plan.cuts = {0, layers / 2, layers};
  ASSERT_EQ(completePlan(problem, plan, {}), "");
  EXPECT_EQ(plan.chunkStage, (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(verifyPlan(problem, plan, {}).empty());
}

TEST(Auto, SaysWhatDoesNotFit) {
  Problem problem = randomChunkProblem(1);
  problem.schedule = "auto";
  problem.varyRemat = true;
  problem.cluster.memoryBytes = {1};
  std::string why = searchPlan(problem, {}).problem;
  EXPECT_NE(why.find("bytes"), std::string::npos) << why;
  problem.cluster.stages = 100;
  why = searchPlan(problem, {}).problem;
  EXPECT_NE(why.find("100 stages need at least as many layers"), std::string::npos) << why;
}

/// A micro-batch of a chain of which every layer keeps 8 bytes, or 1 and 7 more for a while; the
/// last one needs 3 in any case.
TEST(Auto, WhatAllStagesHaveIsCounted) {
  Problem problem;
  problem.schedule = "auto";
  problem.microbatches = 1;
  problem.cluster.stages = 2;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t always = i == 3 ? 3 : 0;
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = "language";
    layer.forwardNs = layer.inputGradNs = layer.weightGradNs = 10;
    layer.paramBytes = 20;
    layer.remat = {{"keep", 8, 0, always}, {"full", 1, 10, 7}};
    problem.layers.push_back(layer);
    if (i > 0)
      problem.edges.push_back({i - 1, i, 1, 1});
  }
  // Two layers a stage: 40 for parameters, and 1, 1 and 7 with both recomputed.
  for (auto [limit, isPossible] : {std::pair(49, true), std::pair(48, false)}) {
    problem.cluster.memoryBytes = {limit};
    EXPECT_EQ(searchPlan(problem, {}).plan.has_value(), isPossible) << limit;
  }
  // All stages: 80 for parameters, 4 saved, 3 for a while.
  for (auto [limit, isExceeded] : {std::pair(44, false), std::pair(43, true)}) {
    problem.cluster.memoryBytes = {limit};
    EXPECT_EQ(exceedsAllMemory(PlanningModel(problem)), isExceeded) << limit;
  }
  problem.cluster.memoryBytes = {46, 41};
  EXPECT_FALSE(exceedsAllMemory(PlanningModel(problem)));
  problem.cluster.memoryBytes.clear();
  EXPECT_FALSE(exceedsAllMemory(PlanningModel(problem)));
}

TEST(Auto, NoPlanThatFitsExceedsAllMemory) {
  int feasible = 0, exceeded = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Problem problem = randomChunkProblem(seed);
    std::optional<Plan> best = solveExhaustively(problem);
    const bool isExceeded = exceedsAllMemory(PlanningModel(problem));
    feasible += best.has_value();
    exceeded += isExceeded;
    EXPECT_FALSE(best && isExceeded) << "seed " << seed;
  }
  EXPECT_GE(feasible, 300);
  EXPECT_GE(exceeded, 5);
}

} // namespace
