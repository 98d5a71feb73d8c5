// Steps that are planned one by one, against formulas in double precision.
#include "runtime/executor/StepRuns.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/program/Verifier.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include "test/unit/runtime/program/PlannedTiny.h"
#include <cmath>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

constexpr int steps = 6;

class PlannedSteps : public testing::Test {
protected:
  void SetUp() override {
    weights = writeTinyWeights(folder.path);
    ASSERT_NE(weights, "");
    options.update.rates = decayAndNone(0.05, 0.01);
    options.clip = 0.3; // small enough to bite
    ::setenv("OMNIBAL_VERIFY_STEPS", "1", 1);
  }

  static LoadedProgram planned(int32_t stages, int32_t replicas, bool tied) {
    LoadedProgram loaded;
    loaded.program = plannedTinyProgram(
        {.stages = stages, .microbatches = 4, .dataParallel = replicas, .tied = tied});
    return loaded;
  }
  /// `shared`: the ranks take each plan from one place, as those of one process do; otherwise each
  /// plans for itself.
  TinyOutcome train(const LoadedProgram &loaded, bool shared) {
    ExecutorOptions executor{.guarded = true};
    if (shared) {
      auto plans = openStepPlans(loaded.program, loaded.program.stages);
      EXPECT_TRUE(plans) << plans.status().message();
      executor.stepPlans = plans ? *plans : nullptr;
    }
    return trainTinyThreads(loaded, weights, steps, options, executor);
  }

  test::TemporaryFolder folder;
  std::string weights;
  StepOptions options;
};

TEST_F(PlannedSteps, MatchFormulasInEveryLayout) {
  for (bool tied : {false, true})
    for (int32_t stages : {1, 2})
      for (int32_t replicas : {1, 2}) {
        SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(replicas) +
                     " replicas, " + (tied ? "tied" : "untied"));
        const LoadedProgram loaded = planned(stages, replicas, tied);
        ASSERT_TRUE(verifyProgram(loaded.program)) << verifyProgram(loaded.program).message();
        const TinyOutcome got = train(loaded, /*shared=*/true);
        ASSERT_TRUE(got.status) << got.status.message();
        TinyReference reference(weights, tied);
        for (int s = 0; s < steps; ++s) {
          const auto expected = reference.step(tinyStep(s, 4 * replicas), options);
          EXPECT_NEAR(got.steps[s].loss, expected.loss, 3e-6 * expected.loss);
          EXPECT_NEAR(got.steps[s].gradientNorm, expected.gradientNorm,
                      3e-6 * expected.gradientNorm);
        }
      }
}

TEST_F(PlannedSteps, AreTheSameWhoeverPlansThem) {
  const LoadedProgram loaded = planned(2, 2, false);
  const TinyOutcome shared = train(loaded, true), alone = train(loaded, false);
  ASSERT_TRUE(shared.status && alone.status) << shared.status.message() << alone.status.message();
  EXPECT_EQ(shared.parameters, alone.parameters);
  int lists = 0;
  for (int s = 0; s < steps; ++s) {
    ASSERT_TRUE(shared.steps[s].plan && alone.steps[s].plan);
    EXPECT_EQ(shared.steps[s].loss, alone.steps[s].loss);
    EXPECT_EQ(shared.steps[s].plan->predictedSeconds, alone.steps[s].plan->predictedSeconds);
    lists += shared.steps[s].plan->hasLists;
  }
  EXPECT_GT(lists, 0) << "no step ran other lists than the program's own";
}

/// Plans must not divide what has no tiles one after the other.
TEST_F(PlannedSteps, APartOfWhatHasNoTilesIsRefused) {
  LoadedProgram loaded = planned(2, 1, false);
  auto problem = planner::parseStepProblem(loaded.program.stepProblem, "problem");
  ASSERT_TRUE(problem) << problem.status().message();
  problem->mostParts = 2;
  problem->chunks[0].component = planner::ChunkComponent::Vision;
  for (planner::TimeModel &time : problem->chunks[0].variants[0].times)
    time.token = {0, 0};
  for (planner::SizeModel *bytes : {&problem->edges[0].bytes, &problem->edges[0].gradBytes})
    *bytes = {0, bytes->token, 0};
  loaded.program.stepProblem = planner::writeStepProblem(*problem);
  auto runs = StepRuns::open(loaded.program, loaded.program.stageList[0], 0, nullptr);
  ASSERT_FALSE(runs);
  EXPECT_NE(runs.status().message().find("cannot be divided by tiles"), std::string::npos)
      << runs.status().message();
}

TEST_F(PlannedSteps, AProblemThatLacksAChunkIsRefused) {
  LoadedProgram loaded = planned(2, 1, false);
  auto problem = planner::parseStepProblem(loaded.program.stepProblem, "problem");
  ASSERT_TRUE(problem) << problem.status().message();
  problem->chunks.pop_back();
  problem->edges.clear();
  problem->fixed.variants.pop_back();
  problem->fixed.actions.back().clear();
  loaded.program.stepProblem = planner::writeStepProblem(*problem);
  ASSERT_TRUE(verifyProgram(loaded.program)) << verifyProgram(loaded.program).message();
  auto runs = StepRuns::open(loaded.program, loaded.program.stageList[1], 0, nullptr);
  ASSERT_FALSE(runs);
  EXPECT_NE(runs.status().message().find("lacks chunk 1"), std::string::npos)
      << runs.status().message();
}

} // namespace
} // namespace omnibal::rt
