// The five numbers of a mode against the simulator on random loads.
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/lengths/LengthJudge.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/Search.h"
#include "test/unit/runtime/planner/lengths/ModeCases.h"
#include <cmath>
#include <gtest/gtest.h>

namespace omnibal::planner {
namespace {

/// Micro-batches of their own loads: every layer is a kind, whose factor is its time over that of a
/// typical micro-batch.
int64_t simulated(const ModeProblem &mode, const ModeLoad &typical, const Plan &plan,
                  const std::vector<int> &options, const std::vector<ModeLoad> &loads) {
  Problem problem = mode.problem;
  problem.cluster.memoryBytes.clear();
  for (size_t l = 0; l < problem.layers.size(); ++l)
    problem.layers[l].kind = "layer" + std::to_string(l);
  for (const ModeLoad &load : loads) {
    LoadFactors &factors = problem.factors.emplace_back();
    for (size_t l = 0; l < problem.layers.size(); ++l) {
      const LoadTime &time = mode.times[l][options[l]].forward;
      const double share = time.of(load) / std::max(1e-9, time.of(typical));
      factors[problem.layers[l].kind] = Decimal::of(std::llround(share * 1e6), 6);
    }
  }
  return simulate(problem, plan).stepNs;
}

TEST(ModeTimes, PredictStepsOfRandomLoads) {
  double sum = 0, worst = 0;
  int count = 0;
  for (const char *name : {"microbatch_factors_loose", "microbatch_factors_tight", "gpipe_tight",
                           "frozen_vision_skip_tight_dp", "slow_link_dp_mixed_memory_tight"}) {
    auto problem = readProblem(std::string(OMNIBAL_TEST_DATA "/plan/") + name + ".json");
    ASSERT_TRUE(static_cast<bool>(problem)) << problem.status().message();
    for (int64_t divisor : {1, 4}) {
      const LengthCandidate candidate = candidateOf(*problem, divisor, 1, randomCells(1));
      const ModeProblem &mode = candidate.mode;
      const ModeLoad typical = typicalLoad(candidate.group, randomCells(1));
      SearchResult found = searchPlan(mode.problem, {10, false});
      ASSERT_TRUE(found.plan) << found.problem;
      const std::vector<int> options = optionsOf(mode.problem, found.plan->remat);
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        Draw draw(seed);
        std::vector<ModeLoad> loads;
        ModeLoad mean;
        for (int64_t m = 0; m < mode.problem.microbatches; ++m) {
          const double share = static_cast<double>(draw(80, 100)) / 100;
          auto vary = [&](double mean) { return mean * static_cast<double>(draw(80, 120)) / 100; };
          loads.push_back({vary(typical.tiles), typical.tokens * share, vary(typical.squares)});
          mean.add(loads.back().tiles, loads.back().tokens, loads.back().squares);
        }
        const auto rows = static_cast<double>(mode.problem.microbatches);
        const rt::ModeCost cost = modeCost(mode, found.plan->cuts, options, mean.times(1 / rows));
        double predicted = cost.stepNs, dearest = 0;
        for (const ModeLoad &load : loads) {
          const double row = cost.microbatchNs + cost.tileNs * load.tiles +
                             cost.tokenNs * load.tokens + cost.squareNs * load.squares;
          predicted += row;
          dearest = std::max(dearest, row);
        }
        predicted += dearest * static_cast<double>(mode.problem.cluster.stages - 1);
        const auto real =
            static_cast<double>(simulated(mode, typical, *found.plan, options, loads));
        const double error = predicted / real - 1;
        sum += std::abs(error);
        worst = std::max(worst, std::abs(error));
        ++count;
      }
    }
  }
  std::printf("error of a step: mean %.2f %%, worst %.1f %%\n", 100 * sum / count, 100 * worst);
  EXPECT_LE(sum / count, 0.08);
  EXPECT_LE(worst, 0.25);
}

TEST(ModeTimes, OfATypicalMicrobatchAreThoseOfTheProblem) {
  auto problem = readProblem(OMNIBAL_TEST_DATA "/plan/slow_link_dp_mixed_memory_tight.json");
  ASSERT_TRUE(static_cast<bool>(problem));
  const std::vector<rt::Cell> cells = randomCells(1);
  const LengthCandidate candidate = candidateOf(*problem, 1, 1, cells);
  const ModeProblem &mode = candidate.mode;
  const ModeLoad load = typicalLoad(candidate.group, cells);
  SearchResult found = searchPlan(mode.problem, {10, false});
  ASSERT_TRUE(found.plan) << found.problem;
  const Timeline timeline = simulate(mode.problem, *found.plan);
  const std::vector<int> options = optionsOf(mode.problem, found.plan->remat);
  const std::vector<LoadTime> stages = stageTimes(mode, found.plan->cuts, options);
  ASSERT_EQ(stages.size(), timeline.stages.size());
  const auto rows = static_cast<double>(mode.problem.microbatches);
  size_t slowest = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageFigures &figures = timeline.stages[s];
    const double busy = static_cast<double>(figures.forwardNs + figures.backwardNs) / rows;
    EXPECT_NEAR(stages[s].of(load), busy, 1e-6 * busy);
    if (stages[s].of(load) > stages[slowest].of(load))
      slowest = s;
  }
  EXPECT_EQ(slowestStage(stages, load), slowest);
  const rt::ModeCost cost = modeCost(mode, found.plan->cuts, options, load);
  EXPECT_EQ(cost.tokenNs, stages[slowest].tokenNs);
  EXPECT_EQ(cost.tileNs, stages[slowest].tileNs);
  EXPECT_EQ(cost.squareNs, stages[slowest].squareNs);
  // Of equal micro-batches the estimate is never below the simulator.
  const double estimate =
      (rows + static_cast<double>(stages.size()) - 1) * stages[slowest].of(load) + cost.stepNs;
  EXPECT_GE(estimate, static_cast<double>(timeline.stepNs) * (1 - 1e-6));
}

} // namespace
} // namespace omnibal::planner
