// Shared cuts of several training modes, against all cuts with the exhaustive solver's plans.
#include "runtime/planner/lengths/JointCuts.h"
#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/search/LoadedSearch.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace omnibal::planner;

namespace {

/// The same model at caps that are larger for language alone.
Problem longer(Problem problem, int64_t times) {
  for (Layer &layer : problem.layers) {
    if (layer.kind != "language")
      continue;
    for (int64_t *value : {&layer.forwardNs, &layer.inputGradNs, &layer.weightGradNs})
      *value *= times;
    for (RematOption &option : layer.remat) {
      option.savedBytes *= times;
      option.recomputeNs *= times;
    }
  }
  for (int64_t &bytes : problem.cluster.memoryBytes)
    bytes *= times;
  problem.microbatches = std::max<int64_t>(1, problem.microbatches / times);
  problem.factors.clear();
  return problem;
}

std::vector<JointMode> randomModes(uint64_t seed) {
  Draw draw(seed * 7919 + 1);
  Problem shorter = randomProblem(seed);
  shorter.factors.clear();
  Problem other = longer(shorter, draw(2, 4));
  return {{shorter, static_cast<double>(draw(1, 20))}, {other, static_cast<double>(draw(1, 5))}};
}

/// The least of all cuts, by the exhaustive solver; infinite where none fits.
double leastOfAll(const std::vector<JointMode> &modes) {
  const auto layers = static_cast<int64_t>(modes[0].problem.layers.size());
  const int64_t stages = modes[0].problem.cluster.stages;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t mask = 0; mask < int64_t{1} << (layers - 1); ++mask) {
    std::vector<int64_t> cuts = {0};
    for (int64_t l = 1; l < layers; ++l)
      if (mask >> (l - 1) & 1)
        cuts.push_back(l);
    cuts.push_back(layers);
    if (static_cast<int64_t>(cuts.size()) != stages + 1)
      continue;
    double sum = 0;
    for (const JointMode &mode : modes) {
      Problem given = mode.problem;
      given.varyCuts = false;
      given.givenCuts = cuts;
      std::optional<Plan> plan = solveExhaustively(given);
      sum += plan ? mode.steps * static_cast<double>(plan->stepNs)
                  : std::numeric_limits<double>::infinity();
    }
    least = std::min(least, sum);
  }
  return least;
}

TEST(JointCuts, AreNearTheBestOfAllCutsAndNoneIsBelowTheBound) {
  int compared = 0, optimal = 0;
  double worst = 1;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    std::vector<JointMode> modes = randomModes(seed);
    double least = leastOfAll(modes);
    JointSearch found = searchJointCuts(modes, {});
    if (std::isinf(least) || found.tried.empty() || std::isinf(found.tried.front().value))
      continue; // nothing fits both, or not where the modes' own cuts and their neighbors are
    const JointPlans &best = found.tried.front();
    for (size_t m = 0; m < modes.size(); ++m)
      EXPECT_EQ(best.modes[m].plan->cuts, best.cuts) << seed;
    EXPECT_LE(found.boundNs, least * (1 + 1e-12)) << seed;
    EXPECT_GE(best.value, least * (1 - 1e-12)) << seed;
    ++compared;
    optimal += best.value <= least * (1 + 1e-12);
    worst = std::max(worst, best.value / least);
  }
  EXPECT_GE(compared, 60);
  EXPECT_GE(optimal, compared * 19 / 20);
  EXPECT_LE(worst, 1.05);
}

TEST(JointCuts, OfEqualModesAreThoseOfOne) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Problem problem = randomProblem(seed);
    JointSearch found = searchJointCuts({{problem, 3}, {problem, 2}}, {});
    SearchResult alone = searchForLoads(problem, {});
    ASSERT_EQ(!found.tried.empty(), alone.plan.has_value()) << seed;
    if (alone.plan && problem.factors.empty())
      EXPECT_EQ(found.tried.front().value, 5.0 * static_cast<double>(alone.plan->stepNs)) << seed;
  }
}

TEST(JointCuts, AreRefusedWhereTheValueSaysSo) {
  JointOptions options;
  options.value = [](const std::vector<SearchResult> &) {
    return std::numeric_limits<double>::infinity();
  };
  JointSearch found = searchJointCuts(randomModes(3), options);
  for (const JointPlans &plans : found.tried)
    EXPECT_TRUE(std::isinf(plans.value));
}

} // namespace
