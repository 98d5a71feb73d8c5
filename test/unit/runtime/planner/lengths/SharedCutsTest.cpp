// Cuts that two modes share, against all cuts; recomputation under given cuts, against all choices.
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/lengths/CutFit.h"
#include "runtime/planner/lengths/EvenBound.h"
#include "runtime/planner/lengths/LengthJudge.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/search/Search.h"
#include "test/unit/runtime/planner/lengths/ModeCases.h"
#include <gtest/gtest.h>
#include <limits>

namespace omnibal::planner {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct Outcome {
  double ours = never, optimum = never, bound = 0;
  double worst = 0; ///< of cuts that hold all samples
};

Outcome solve(const Problem &problem, uint64_t seed) {
  const std::vector<rt::Cell> cells = randomCells(seed);
  const std::vector<LengthCandidate> candidates{candidateOf(problem, 4, seed, cells),
                                                candidateOf(problem, 1, seed, cells)};
  const auto stages = static_cast<int32_t>(problem.cluster.stages);
  const LengthJudge judge(cells, candidates, 1, stages);
  std::vector<SearchResult> own;
  for (const LengthCandidate &candidate : candidates)
    own.push_back(searchPlan(candidate.mode.problem, {10, false}));
  Outcome outcome;
  if (JointSearch found = searchSharedCuts(judge, candidates, own); !found.tried.empty())
    outcome.ours = found.tried.front().value;
  const auto layers = static_cast<int64_t>(problem.layers.size());
  for (const std::vector<int64_t> &cuts : allCuts(layers, stages)) {
    CandidateOptions options;
    for (const LengthCandidate &candidate : candidates)
      options.push_back(CutFit(candidate.mode.problem).options(cuts));
    const double ns = judge.judge(cuts, options).relaxedNs;
    outcome.optimum = std::min(outcome.optimum, ns);
    outcome.worst = ns < never ? std::max(outcome.worst, ns) : outcome.worst;
  }
  outcome.bound = boundOverCuts(cells, candidates, stages);
  return outcome;
}

Problem plannable(Problem problem) {
  problem.factors.clear();
  problem.varyRemat = true;
  problem.givenRemat.clear();
  return problem;
}

TEST(SharedCuts, OfPublishedProblemsAreTheBest) {
  for (const char *name : {"microbatch_factors_loose", "microbatch_factors_tight", "gpipe_tight",
                           "frozen_vision_skip_tight_dp", "slow_link_dp_mixed_memory_tight"}) {
    auto problem = readProblem(std::string(OMNIBAL_TEST_DATA "/plan/") + name + ".json");
    ASSERT_TRUE(static_cast<bool>(problem)) << problem.status().message();
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Outcome outcome = solve(plannable(*problem), seed);
      ASSERT_LT(outcome.optimum, never) << name;
      EXPECT_LE(outcome.bound, outcome.optimum * (1 + 1e-9)) << name;
      EXPECT_GT(outcome.bound, 0) << name;
      EXPECT_LE(outcome.optimum, outcome.ours) << name;
      EXPECT_LE(outcome.ours, outcome.optimum * (1 + 1e-9)) << name << " " << seed;
      std::printf("%s %d: bound %.4f of the optimum, ours %.4f, worst cuts %.2f\n", name,
                  static_cast<int>(seed), outcome.bound / outcome.optimum,
                  outcome.ours / outcome.optimum, outcome.worst / outcome.optimum);
    }
  }
}

TEST(SharedCuts, OfRandomProblemsAreNearlyAlwaysTheBest) {
  int solved = 0, best = 0;
  double worst = 1;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const Problem problem = plannable(randomProblem(seed));
    const Outcome outcome = solve(problem, seed);
    if (outcome.optimum == never) {
      EXPECT_EQ(outcome.ours, never) << seed;
      continue;
    }
    ++solved;
    EXPECT_LE(outcome.bound, outcome.optimum * (1 + 1e-9)) << seed;
    EXPECT_LE(outcome.optimum, outcome.ours) << seed;
    best += outcome.ours <= outcome.optimum * (1 + 1e-9);
    worst = std::max(worst, outcome.ours / outcome.optimum);
  }
  std::printf("%d of %d problems: the best cuts; worst %.4f\n", best, solved, worst);
  EXPECT_GT(solved, 300);
  EXPECT_GE(best, solved * 97 / 100);
}

TEST(CutFit, RecomputesTheLeastThatFits) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Problem problem = plannable(randomProblem(seed));
    CutFit fit(problem);
    const auto layers = static_cast<int64_t>(problem.layers.size());
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const std::vector<int64_t> &cuts : allCuts(layers, problem.cluster.stages)) {
      Problem fixed = problem;
      fixed.varyCuts = false;
      fixed.givenCuts = cuts;
      const std::optional<Plan> exact = solveExhaustively(fixed);
      const auto options = fit.options(cuts);
      ASSERT_EQ(exact.has_value(), options.has_value()) << seed;
      if (!exact)
        continue;
      Plan plan = *exact;
      int64_t recomputed = 0;
      for (int64_t l = 0; l < layers; ++l) {
        const RematOption &option = problem.layers[l].remat[(*options)[l]];
        plan.remat[l] = option.name;
        recomputed += option.recomputeNs;
      }
      least = std::min(least, recomputed);
      const Timeline timeline = simulate(fixed, plan);
      EXPECT_EQ(timeline.stepNs, exact->stepNs) << seed;
      for (const StageFigures &stage : timeline.stages)
        EXPECT_TRUE(stage.limitBytes == 0 || stage.peakBytes <= stage.limitBytes) << seed;
      ++compared;
    }
    const std::optional<int64_t> found = fit.leastRecomputationNs();
    EXPECT_EQ(found.value_or(std::numeric_limits<int64_t>::max()), least) << seed;
  }
  EXPECT_GT(compared, 500);
}

} // namespace
} // namespace omnibal::planner
