//===- SimulatorTest.cpp - Hand-computed steps and memory --------------------------------===//
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

/// `stages` layers of forward 10 and backward 20, saving 100 bytes, on as many stages.
Problem chain(int64_t stages, int64_t microbatches, Link link = {0, 1}) {
  Problem problem;
  for (int64_t s = 0; s < stages; ++s) {
    Layer layer;
    layer.name = "l" + std::to_string(s);
    layer.forwardNs = 10;
    layer.inputGradNs = 12;
    layer.weightGradNs = 8;
    layer.paramBytes = 1000;
    layer.gradBytes = 400;
    layer.remat = {{"keep", 100, 0, 7}, {"full", 10, 10, 60}};
    problem.layers.push_back(layer);
    if (s > 0)
      problem.edges.push_back({s - 1, s, link.latencyNs ? 5 : 0, link.latencyNs ? 5 : 1});
  }
  problem.cluster.stages = stages;
  problem.cluster.link = link;
  problem.microbatches = microbatches;
  return problem;
}

Plan planOf(const Problem &problem, const std::string &schedule, const char *remat = "keep") {
  Plan plan;
  for (int64_t s = 0; s <= problem.cluster.stages; ++s)
    plan.cuts.push_back(s);
  for (int64_t s = 0; s < problem.cluster.stages; ++s)
    plan.chunkStage.push_back(s);
  plan.remat.assign(problem.layers.size(), remat);
  plan.schedule = schedule;
  plan.actions = *scheduleActions(schedule, problem.cluster.stages, problem.microbatches);
  return plan;
}

TEST(Simulator, OneRankIsTheSumOfItsWork) {
  Problem problem = chain(1, 5);
  Timeline timeline = simulate(problem, planOf(problem, "1f1b"));
  ASSERT_EQ(timeline.error, "");
  EXPECT_EQ(timeline.stepNs, 5 * 30);
  EXPECT_EQ(timeline.stages[0].idleNs, 0);
  // 1f1b on one stage holds one micro-batch.
  EXPECT_EQ(timeline.stages[0].peakBytes, 1000 + 100 + 7);
}

TEST(Simulator, EqualStagesFollowTheBubbleFormula) {
  // Without transfer costs both schedules take (M + P - 1) * (F + B).
  for (const char *schedule : {"1f1b", "gpipe"})
    for (int64_t stages : {2, 3, 4})
      for (int64_t microbatches : {1, 2, 6}) {
        Problem problem = chain(stages, microbatches);
        for (Edge &edge : problem.edges)
          edge.bytes = 0, edge.gradBytes = 1; // gradient flows, its transfer takes 1e9 ns at 1 B/s
        problem.cluster.link = {0, 1000000000000};
        Timeline timeline = simulate(problem, planOf(problem, schedule));
        ASSERT_EQ(timeline.error, "");
        int64_t ideal = (microbatches + stages - 1) * 30;
        EXPECT_GE(timeline.stepNs, ideal) << schedule;
        // Each of the stages - 1 gradient hops in the drain adds at most one nanosecond, and each
        // steady-state hop at most one more a micro-batch.
        EXPECT_LE(timeline.stepNs, ideal + (stages - 1) * (microbatches + 1)) << schedule;
      }
}

TEST(Simulator, TwoStagesTwoMicrobatchesByHand) {
  // latency 3 + 5 bytes at 1e9 B/s = 8 ns a hop.
  // stage 0: F0 0-10, F1 10-20, B0 waits for stage 1's B0 (18..28 F0, 28-48 B0) + 8 = 56 -> 76;
  // stage 1: F1 needs 20 + 8 = 28, runs 48-58, B1 58-78; stage 0: B1 at 86 -> 106.
  Problem problem = chain(2, 2, {3, 1000000000});
  Timeline timeline = simulate(problem, planOf(problem, "1f1b"));
  ASSERT_EQ(timeline.error, "");
  EXPECT_EQ(timeline.times[0][2].startNs, 56);
  EXPECT_EQ(timeline.times[0][3].startNs, 86);
  EXPECT_EQ(timeline.stepNs, 106);
}

TEST(Simulator, MemoryOfGPipeHoldsAllMicrobatches) {
  Problem problem = chain(2, 4);
  Timeline gpipe = simulate(problem, planOf(problem, "gpipe"));
  Timeline interleaving = simulate(problem, planOf(problem, "1f1b"));
  EXPECT_EQ(gpipe.stages[0].peakBytes, 1000 + 4 * 100 + 7);
  EXPECT_EQ(interleaving.stages[0].peakBytes, 1000 + 2 * 100 + 7);
  EXPECT_EQ(interleaving.stages[1].peakBytes, 1000 + 1 * 100 + 7);
}

TEST(Simulator, RecomputationCostsTimeAndSavesMemory) {
  Problem problem = chain(1, 3);
  Timeline full = simulate(problem, planOf(problem, "1f1b", "full"));
  EXPECT_EQ(full.stepNs, 3 * 40);
  EXPECT_EQ(full.stages[0].recomputeNs, 30);
  EXPECT_EQ(full.stages[0].peakBytes, 1000 + 10 + 60);
}

TEST(Simulator, DataParallelReductionIsAddedAtTheEnd) {
  Problem problem = chain(1, 1);
  problem.cluster.dataParallel = 4;
  problem.cluster.dataParallelLink = {2, 1000000000};
  // 2 * 3 * 2 latency + ceil(2 * 3 * 400 / 4) bytes at one byte a nanosecond.
  EXPECT_EQ(simulate(problem, planOf(problem, "1f1b")).stepNs, 30 + 12 + 600);
}

TEST(Simulator, ReplicasWithSharesKeepAPartOfTheState) {
  Problem problem = chain(1, 1);
  problem.cluster.dataParallel = 3;
  problem.cluster.dataParallelLink = {2, 1000000000};
  problem.cluster.zero = 1;
  problem.layers[0].stateBytes = 500;
  problem.layers[0].updateBytes = 200;
  const Timeline timeline = simulate(problem, planOf(problem, "1f1b"));
  // Twice 2 * 2 latency, ceil(2 * 400 / 3) bytes of gradients and ceil(2 * 200 / 3) of parameters.
  EXPECT_EQ(timeline.stepNs, 30 + 8 + 267 + 134);
  EXPECT_EQ(timeline.stages[0].peakBytes, 500 + 167 + 100 + 7);
  problem.cluster.zero = 0; // the same numbers do nothing
  EXPECT_EQ(simulate(problem, planOf(problem, "1f1b")).stages[0].peakBytes, 1000 + 100 + 7);
}

TEST(Simulator, FrozenFrontWaitsForNoGradient) {
  Problem problem = chain(2, 1);
  problem.layers[0].inputGradNs = problem.layers[0].weightGradNs = 0;
  problem.edges[0].gradBytes = 0;
  Timeline timeline = simulate(problem, planOf(problem, "1f1b"));
  EXPECT_EQ(timeline.times[0][1].startNs, 10);
  EXPECT_EQ(timeline.stepNs, 40);
}

TEST(Simulator, DeadlockAndBadPlansAreErrors) {
  Problem problem = chain(2, 1);
  Plan plan = planOf(problem, "1f1b");
  std::swap(plan.actions[1][0], plan.actions[1][1]);
  EXPECT_NE(simulate(problem, plan).error.find("waits for ever"), std::string::npos);
  plan = planOf(problem, "1f1b");
  plan.remat[1] = "half";
  EXPECT_NE(simulate(problem, plan).error.find("half"), std::string::npos);
  plan = planOf(problem, "1f1b");
  plan.cuts = {0, 0, 2};
  EXPECT_NE(simulate(problem, plan).error.find("empty"), std::string::npos);
  plan.cuts = {0, 1'000'000, 2}; // behind the last layer
  EXPECT_NE(simulate(problem, plan).error.find("is empty"), std::string::npos);
}

TEST(Simulator, FactorsScaleEachNumberOfTheirKindByHand) {
  // Two stages, two micro-batches; vision below language. Micro-batch 1 has half of the vision
  // load.
  Problem problem = chain(2, 2, {3, 1000000000});
  problem.layers[0].kind = "vision";
  problem.layers[1].kind = "language";
  problem.layers[0].forwardNs = 11; // 5.5 rounds up to 6
  problem.factors = {{}, {{"vision", *Decimal::parse("0.5")}}};
  Plan plan = planOf(problem, "gpipe");
  Timeline timeline = simulate(problem, plan);
  ASSERT_EQ(timeline.error, "");
  // F0 0-11, F1 11-17 of stage 0. The activations of micro-batch 1 have ceil(2.5) = 3 bytes.
  EXPECT_EQ(timeline.times[0][1].endNs, 17);
  EXPECT_EQ(timeline.times[1][0].startNs, 11 + 3 + 5);
  EXPECT_EQ(timeline.times[1][1].startNs, 29); // after F0; its input is there at 17 + 6
  // stage 1: B0 39-59, B1 59-79. stage 0: B0 at 59 + 8, B1 = 6 + 4 at 79 + 6.
  EXPECT_EQ(timeline.times[0][2].startNs, 67);
  EXPECT_EQ(timeline.times[0][3].startNs, 87); // B0 of stage 0 ends at 87
  EXPECT_EQ(timeline.stepNs, 97);
  EXPECT_EQ(timeline.stages[0].forwardNs, 17);
  EXPECT_EQ(timeline.stages[0].backwardNs, 30);
  // Saved 100 and 50; workspace and parameters as they are.
  EXPECT_EQ(timeline.stages[0].peakBytes, 1000 + 150 + 7);
  EXPECT_EQ(timeline.stages[1].peakBytes, 1000 + 200 + 7);
}

TEST(Simulator, EachLayerAndEdgeIsRoundedUpBeforeTheSum) {
  Problem problem = chain(4, 1, {3, 1000000000});
  for (Layer &layer : problem.layers)
    layer.forwardNs = 1, layer.inputGradNs = 1, layer.weightGradNs = 1,
    layer.remat[1].recomputeNs = 1, layer.remat[1].savedBytes = 1;
  problem.edges.push_back({0, 3, 5, 5}); // skips a layer
  problem.cluster.stages = 2;
  problem.factors = {{{"", *Decimal::parse("0.1")}}};
  Plan plan = planOf(problem, "1f1b", "full");
  plan.cuts = {0, 2, 4};
  Timeline timeline = simulate(problem, plan);
  ASSERT_EQ(timeline.error, "");
  EXPECT_EQ(timeline.stages[0].forwardNs, 2);      // not ceil(0.2)
  EXPECT_EQ(timeline.stages[0].backwardNs, 2 * 3); // recomputation and both gradients
  EXPECT_EQ(timeline.stages[0].peakBytes, 2000 + 2 + 60);
  EXPECT_EQ(timeline.times[1][0].startNs, 2 + 3 + 2); // two edges of ceil(0.5) bytes
}

TEST(Simulator, AFactorOfZeroLeavesTheLatency) {
  Problem problem = chain(2, 1, {3, 1000000000});
  problem.factors = {{{"", *Decimal::parse("0")}}};
  Timeline timeline = simulate(problem, planOf(problem, "1f1b"));
  ASSERT_EQ(timeline.error, "");
  EXPECT_EQ(timeline.stepNs, 6); // there and back
  problem.edges[0].bytes = 0;    // nothing flows forward whatever the load: free
  EXPECT_EQ(simulate(problem, planOf(problem, "1f1b")).stepNs, 3);
}

TEST(Simulator, SplitBackwardHoldsSplitBytesFromItsInputGradient) {
  Problem problem = chain(1, 2);
  problem.layers[0].remat[0].splitBytes = 130;
  Plan plan = planOf(problem, "1f1b");
  auto actions = [](std::initializer_list<std::pair<ActionKind, int64_t>> list) {
    std::vector<Action> result;
    for (auto [kind, microbatch] : list)
      result.push_back({kind, microbatch, 0});
    return result;
  };
  using enum ActionKind;
  plan.actions = {actions({{Forward, 0},
                           {Forward, 1},
                           {InputGrad, 0},
                           {InputGrad, 1},
                           {WeightGrad, 0},
                           {WeightGrad, 1}})};
  Timeline both = simulate(problem, plan);
  EXPECT_EQ(both.stages[0].peakBytes, 1000 + 260 + 7);
  EXPECT_EQ(both.stepNs, 60);
  plan.actions = {actions({{Forward, 0},
                           {Forward, 1},
                           {InputGrad, 0},
                           {WeightGrad, 0},
                           {InputGrad, 1},
                           {WeightGrad, 1}})};
  EXPECT_EQ(simulate(problem, plan).stages[0].peakBytes, 1000 + 230 + 7);
  problem.factors = {{{"", *Decimal::parse("0.5")}}, {}};
  EXPECT_EQ(simulate(problem, plan).stages[0].peakBytes, 1000 + 65 + 100 + 7);
}

TEST(Simulator, ActionsOfOthersAreErrors) {
  Problem problem = chain(2, 1);
  Plan plan = planOf(problem, "1f1b");
  plan.actions[0][0].microbatch = 1;
  EXPECT_NE(simulate(problem, plan).error.find("not its own"), std::string::npos);
  plan = planOf(problem, "1f1b");
  plan.actions[0][0].chunk = 1;
  EXPECT_NE(simulate(problem, plan).error.find("not its own"), std::string::npos);
}

TEST(ScheduleRules, OneForwardOneBackwardOfThreeRanks) {
  auto lists = *scheduleActions("1f1b", 3, 3);
  auto text = [](const std::vector<Action> &list) {
    std::string out;
    for (const Action &action : list)
      out += (action.kind == ActionKind::Forward ? "F" : "B") + std::to_string(action.microbatch);
    return out;
  };
  EXPECT_EQ(text(lists[0]), "F0F1F2B0B1B2");
  EXPECT_EQ(text(lists[1]), "F0F1B0F2B1B2");
  EXPECT_EQ(text(lists[2]), "F0B0F1B1F2B2");
  EXPECT_FALSE(scheduleActions("dream", 3, 3).has_value());
}

} // namespace
