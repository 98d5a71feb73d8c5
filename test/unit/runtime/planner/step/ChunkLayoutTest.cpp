//===- ChunkLayoutTest.cpp - Layouts of chunks, static lists and the choice among layouts ----===//
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/LayoutSearch.h"
#include "runtime/planner/step/StaticLists.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/planner/step/StepSearch.h"
#include <gtest/gtest.h>

namespace omnibal::planner {
namespace {

/// A layer whose forward takes `time` a tile or token; its backward takes twice that, in two
/// halves. "keep" holds 100 bytes a tile or token, "full" 10 and runs the forward again.
StepLayer layer(ChunkComponent component, int64_t time) {
  StepLayer result{component, {}};
  bool vision = component == ChunkComponent::Vision;
  for (int64_t again : {int64_t{0}, time}) {
    StepVariant variant{again ? "full" : "keep", {}, {}};
    int64_t times[] = {time, 2 * time + again, time + again, time};
    for (size_t kind = 0; kind < 4; ++kind)
      (vision ? variant.times[kind].tile : variant.times[kind].token) = Decimal::of(times[kind], 1);
    int64_t bytes = again ? 10 : 100;
    variant.blocks = {{vision ? SizeModel{0, bytes, 0} : SizeModel{0, 0, bytes}}};
    result.variants.push_back(variant);
  }
  return result;
}

/// Four layers of vision, of 30 a tile, and six of language, of 2 a token, in a chain.
StepLayers model() {
  StepLayers layers;
  for (int l = 0; l < 10; ++l)
    layers.layers.push_back(l < 4 ? layer(ChunkComponent::Vision, 30)
                                  : layer(ChunkComponent::Language, 2));
  for (int64_t l = 0; l + 1 < 10; ++l)
    layers.edges.push_back({l, l + 1, {0, l < 4 ? 8 : 0, l < 4 ? 0 : 4}, {0, l < 4 ? 8 : 0, 4}});
  return layers;
}

StepProblem frame() {
  StepProblem problem;
  problem.stages = 2;
  problem.microbatches = 6;
  problem.tilesCap = 12;
  problem.tokensCap = 100;
  problem.link = {1, 1'000'000'000};
  return problem;
}

std::vector<StepLoads> samples() {
  std::vector<StepLoads> steps(5);
  for (size_t s = 0; s < steps.size(); ++s)
    for (int64_t m = 0; m < 6; ++m) {
      int64_t tiles = (static_cast<int64_t>(s) * 5 + m * m * 3) % 13;
      int64_t tokens = 40 + (static_cast<int64_t>(s) * 7 + m * 11) % 61;
      steps[s].microbatches.push_back({{tiles, tokens, tokens * tokens, tokens}, {}});
    }
  return steps;
}

TEST(ChunkLayout, ChunksAreTheSumsOfTheirLayers) {
  ChunkLayout layout{"", {0, 3, 5, 10}, {0, 1, 0}};
  StepProblem problem = problemOf(model(), layout, frame());
  ASSERT_EQ(problem.chunks.size(), 3u);
  EXPECT_EQ(problem.chunks[0].component, ChunkComponent::Vision);
  EXPECT_EQ(problem.chunks[1].component, ChunkComponent::Mixed);
  EXPECT_EQ(problem.chunks[2].component, ChunkComponent::Language);
  // Three layers of 3.0 a tile; one of 3.0 a tile and one of .2 a token, whose backward recomputes.
  EXPECT_EQ(problem.chunks[0].variants[0].times[0].tile, Decimal::of(9, 0));
  EXPECT_EQ(problem.chunks[1].variants[1].times[1].tile, Decimal::of(9, 0));
  EXPECT_EQ(problem.chunks[1].variants[1].times[1].token, Decimal::of(6, 1));
  EXPECT_EQ(problem.chunks[2].variants[0].blocks.size(), 5u);
  // Edges within a chunk are gone.
  ASSERT_EQ(problem.edges.size(), 2u);
  EXPECT_EQ(problem.edges[0].bytes.tile, 8);
  EXPECT_EQ(problem.edges[1].bytes.token, 4);
}

TEST(ChunkLayout, WhatLayersHaveBesideBlocksComesOffTheirStagesMemory) {
  StepLayers layers = model();
  for (size_t l = 0; l < layers.layers.size(); ++l) {
    layers.layers[l].residentBytes = 100;
    layers.layers[l].workspaceBytes = static_cast<int64_t>(l);
  }
  layers.actionNs = Decimal::of(7, 0);
  ChunkLayout layout{"", {0, 3, 5, 10}, {0, 1, 0}};
  StepProblem base = frame();
  EXPECT_TRUE(problemOf(layers, layout, base).memoryBytes.empty());
  base.memoryBytes = {1000};
  // Eight layers, of which the last is number 9; two layers up to number 4.
  StepProblem problem = problemOf(layers, layout, base);
  EXPECT_EQ(problem.memoryBytes, (std::vector<int64_t>{1000 - 800 - 9, 1000 - 200 - 4}));
  base.memoryBytes = {500, 1000};
  EXPECT_EQ(problemOf(layers, layout, base).memoryBytes, (std::vector<int64_t>{0, 796}));
  // Once an action, however many layers it has.
  for (const StepChunk &chunk : problem.chunks)
    for (const StepVariant &variant : chunk.variants)
      for (const TimeModel &time : variant.times)
        EXPECT_EQ(time.fixed, Decimal::of(7, 0));
}

TEST(ChunkLayout, AllLayoutsAreProblemsThatPlansAreMadeFor) {
  std::vector<StepLoads> steps = samples();
  std::vector<ChunkLayout> layouts = chunkLayouts(model(), workOf(model(), steps), 2, 4);
  // Mixed: 1 to 4 in turn, 2 to 4 in a wave; apart: 1 to 2 of vision with 1 to 3 of language,
  // twice.
  EXPECT_EQ(layouts.size(), 4u + 3u + 2u * 6u);
  for (const ChunkLayout &layout : layouts) {
    StepProblem problem = problemOf(model(), layout, frame());
    auto again = parseStepProblem(writeStepProblem(problem), layout.name);
    ASSERT_TRUE(again) << again.status().message();
    for (const StepLoads &step : steps) {
      StepPlan plan = StepPlanner(*again, {20'000, 20}).plan(step);
      for (const StepViolation &violation : checkStepPlan(*again, step, plan))
        FAIL() << layout.name << ": " << violation.message();
      EXPECT_EQ(plan.method, StepMethod::Lists) << layout.name;
    }
  }
}

TEST(StaticLists, FitTheMemoryAtTheCapsAndAreShorterThanSerialOnes) {
  std::vector<StepLoads> steps = samples();
  ChunkLayout layout{"", {0, 5, 10}, {0, 1}};
  // At the caps "keep" holds 100 * 12 bytes a layer of vision and 100 * 100 a layer of language.
  int64_t fastest = 0;
  for (int64_t memory : {std::numeric_limits<int64_t>::max(), int64_t{120'000}, int64_t{60'000}}) {
    StepProblem base = frame();
    base.memoryBytes = {memory};
    StepProblem problem = problemOf(model(), layout, base);
    int64_t serial = staticSum(problem, steps), sum = addStaticPlan(problem, steps);
    EXPECT_LT(sum, serial);
    EXPECT_EQ(sum, staticSum(problem, steps));
    EXPECT_GE(sum, fastest); // less memory is never faster here
    fastest = sum;
    // Held bytes by hand: a unit holds its blocks from F to I (B or I).
    for (int64_t stage = 0; stage < 2; ++stage) {
      int64_t held = 0, most = 0;
      for (const StepAction &action : problem.fixed.actions[stage]) {
        bool isLean = problem.fixed.variants[action.chunk][action.microbatch] == 1;
        int64_t bytes = stage == 0 ? 4 * 1200 + 10'000 : 50'000;
        bytes = isLean ? bytes / 10 : bytes;
        if (action.kind == ActionKind::Forward)
          held += bytes;
        most = std::max(most, held);
        if (action.kind == ActionKind::Backward || action.kind == ActionKind::InputGrad)
          held -= bytes;
      }
      EXPECT_LE(most, memory) << "stage " << stage;
    }
  }
}

TEST(StaticLists, WhatCannotFitIsSaidAndLeftAsItIs) {
  StepProblem base = frame();
  base.memoryBytes = {100};
  StepProblem problem = problemOf(model(), {"", {0, 5, 10}, {0, 1}}, base);
  StepProblem before = problem;
  EXPECT_FALSE(fitStaticPlan(problem));
  addStaticPlan(problem, samples());
  EXPECT_EQ(problem.fixed.actions, before.fixed.actions);
}

TEST(LayoutSearch, TheChoiceIsNoWorseThanAnyLayoutAsItIsCut) {
  std::vector<StepLoads> steps = samples();
  std::optional<LayoutChoice> choice = chooseLayout(model(), frame(), steps);
  ASSERT_TRUE(choice);
  EXPECT_EQ(chooseLayout(model(), frame(), steps)->layout.cuts, choice->layout.cuts);
  for (const ChunkLayout &layout : chunkLayouts(model(), workOf(model(), steps), 2, 4)) {
    StepProblem problem = problemOf(model(), layout, frame());
    int64_t sum = 0;
    for (const StepLoads &step : steps)
      sum += StepPlanner(problem, {300'000, 30, true, false}).plan(step).stepNs;
    // Layouts are dropped by a few samples and lists, so one may have been better by a little.
    EXPECT_LE(static_cast<double>(choice->sampleNs), 1.02 * static_cast<double>(sum))
        << layout.name;
  }
}

} // namespace
} // namespace omnibal::planner
