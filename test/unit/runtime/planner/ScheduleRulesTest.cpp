// The action lists of the named schedules: by hand, against their papers' formulas, and free of
// deadlock for many sizes.
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/evaluate/Simulator.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

/// "F0.1" = forward of micro-batch 0, chunk 1.
std::string text(const std::vector<Action> &actions, bool chunks = false) {
  std::string out;
  for (const Action &a : actions) {
    out += (out.empty() ? "" : " ") + std::string(1, "FBIW"[static_cast<int>(a.kind)]) +
           std::to_string(a.microbatch);
    if (chunks)
      out += "." + std::to_string(a.chunk);
  }
  return out;
}

/// As many layers as chunks, one each, of equal times; transfers are free.
Timeline timed(const std::string &schedule, int64_t stages, int64_t microbatches, int64_t forward,
               int64_t inputGrad, int64_t weightGrad) {
  Problem problem;
  Plan plan;
  int64_t chunks = stages * *chunksPerStage(schedule);
  for (int64_t c = 0; c < chunks; ++c) {
    Layer layer;
    layer.name = std::to_string(c);
    layer.forwardNs = forward;
    layer.inputGradNs = inputGrad;
    layer.weightGradNs = weightGrad;
    layer.remat = {{"keep", 1, 0, 0}};
    problem.layers.push_back(layer);
    if (c > 0)
      problem.edges.push_back({c - 1, c, 1, 1});
    plan.cuts.push_back(c);
    plan.chunkStage.push_back(c % stages);
  }
  plan.cuts.push_back(chunks);
  plan.remat.assign(chunks, "keep");
  plan.schedule = schedule;
  plan.actions = *scheduleActions(schedule, stages, microbatches);
  problem.cluster.stages = stages;
  problem.cluster.link = {0, int64_t{1} << 60}; // a transfer takes one nanosecond
  problem.microbatches = microbatches;
  return simulate(problem, plan);
}

TEST(ScheduleRules, ZeroBubbleByHand) {
  auto lists = *scheduleActions("zb-h1", 3, 4);
  EXPECT_EQ(text(lists[0]), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(lists[1]), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(text(lists[2]), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST(ScheduleRules, InterleavedByHand) {
  // P = 2, V = 2, M = 2: groups of two micro-batches; stage 0 runs 2 + 2 forwards ahead, stage 1
  // two.
  auto lists = *scheduleActions("interleaved:2", 2, 2);
  EXPECT_EQ(text(lists[0], true), "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0");
  EXPECT_EQ(text(lists[1], true), "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1");
  // Three micro-batches: as for four, without the last one.
  EXPECT_EQ(text((*scheduleActions("interleaved:2", 2, 3))[1], true),
            "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 F2.1 B0.1 B1.1 F2.3 B2.3 B2.1");
}

TEST(ScheduleRules, InterleavedOfOneChunkIsOneForwardOneBackward) {
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(text((*scheduleActions("interleaved:1", 4, 6))[r]),
              text((*scheduleActions("1f1b", 4, 6))[r]));
}

TEST(ScheduleRules, StepsFollowThePapersBubbles) {
  // Idle time of a stage beyond its work, by the papers: 1f1b (P-1)(F+B), interleaved (P-1)(F+B)/V
  // of the stage's own times, zb-h1 (P-1)(F+I-W). Each hop adds a nanosecond.
  const int64_t unit = 1'000'000;
  for (int64_t stages : {2, 3, 4, 8}) {
    int64_t microbatches = 4 * stages;
    auto bubble = [&](const std::string &schedule) {
      int64_t chunks = *chunksPerStage(schedule);
      Timeline timeline = timed(schedule, stages, microbatches, unit, unit, unit);
      EXPECT_EQ(timeline.error, "");
      return timeline.stepNs - microbatches * chunks * 3 * unit;
    };
    int64_t hops = 4 * microbatches * stages;
    EXPECT_NEAR(bubble("1f1b"), (stages - 1) * 3 * unit, hops);
    EXPECT_NEAR(bubble("interleaved:2"), (stages - 1) * 3 * unit, hops); // of chunks half as long
    EXPECT_NEAR(bubble("interleaved:3"), (stages - 1) * 3 * unit, hops);
    EXPECT_NEAR(bubble("zb-h1"), (stages - 1) * unit, hops);
  }
}

TEST(ScheduleRules, MemoryFollowsThePapers) {
  // Micro-batches in flight: zb-h1 P on every stage (1f1b: on the first one); interleaved on stage
  // 0, in chunks: 2 (P-1) + (V-1) P + 1.
  for (int64_t stages : {2, 4, 8}) {
    Timeline timeline = timed("zb-h1", stages, 3 * stages, 10, 10, 10);
    for (int64_t r = 0; r < stages; ++r)
      EXPECT_EQ(timeline.stages[r].peakBytes, stages) << r;
    EXPECT_EQ(timed("interleaved:3", stages, 3 * stages, 10, 10, 10).stages[0].peakBytes,
              2 * (stages - 1) + 2 * stages + 1);
  }
}

TEST(ScheduleRules, EveryListEndsAndHoldsEachActionOnce) {
  for (const char *schedule :
       {"gpipe", "1f1b", "zb-h1", "interleaved:2", "interleaved:3", "interleaved:5"})
    for (int64_t stages = 1; stages <= 6; ++stages)
      for (int64_t microbatches = 1; microbatches <= 15; ++microbatches) {
        Timeline timeline = timed(schedule, stages, microbatches, 7, 5, 3);
        ASSERT_EQ(timeline.error, "") << schedule << " " << stages << " " << microbatches;
        int64_t chunks = *chunksPerStage(schedule);
        ASSERT_EQ(static_cast<int64_t>(timeline.stages.size()), stages);
        for (const StageFigures &stage : timeline.stages) {
          EXPECT_EQ(stage.forwardNs, microbatches * chunks * 7);
          EXPECT_EQ(stage.backwardNs, microbatches * chunks * 8);
        }
      }
}

TEST(ScheduleRules, UnknownNames) {
  for (const char *name :
       {"", "auto", "1F1B", "interleaved", "interleaved:", "interleaved:0", "interleaved:02",
        "interleaved:-1", "interleaved:65", "interleaved:99999999999999999999", "zb-h2"})
    EXPECT_FALSE(scheduleActions(name, 2, 2)) << name;
}

} // namespace
