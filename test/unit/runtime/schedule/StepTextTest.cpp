//===- StepTextTest.cpp - The plan of a step as text -----------------------------------------===//
#include "runtime/schedule/StepText.h"
#include "runtime/planner/step/StepProblemJson.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

/// Chunk 0 on stage 0 may keep or recompute; its forward takes 10 us a tile, backwards 20 and 30.
/// Chunk 1 on stage 1 takes 1 us a token. A message takes 5 us.
constexpr const char *problemText = R"({"schema": "omnibal.step-problem/1", "ranks": 2,
  "microbatches": 2, "tiles_cap": 8, "tokens_cap": 100,
  "chunks": [
    {"component": "mixed", "rank": 0, "variants": [
      {"name": "keep", "forward": {"tile_ns": 10000}, "backward": {"tile_ns": 20000},
       "input_grad": {"tile_ns": 10000}, "weight_grad": {"tile_ns": 10000},
       "blocks": [{"bytes": [0, 128, 0], "from": "F", "to": "I"}]},
      {"name": "full", "forward": {"tile_ns": 10000}, "backward": {"tile_ns": 30000},
       "input_grad": {"tile_ns": 20000}, "weight_grad": {"tile_ns": 10000},
       "blocks": [{"bytes": [0, 64, 0], "from": "F", "to": "I"}]}]},
    {"component": "mixed", "rank": 1, "variants": [
      {"name": "keep", "forward": {"token_ns": 1000}, "backward": {"token_ns": 1000},
       "input_grad": {"token_ns": 1000}, "weight_grad": {"token_ns": 0}, "blocks": []}]}],
  "edges": [{"from": 0, "to": 1, "bytes": [1, 0, 0], "grad_bytes": [1, 0, 0]}],
  "link": {"latency_ns": 5000, "bytes_per_s": 1000000000000}, "memory_bytes": 1024,
  "alignment": 64, "sub_microbatches": {"most": 1, "least_tiles": 1},
  "weight_gradients": "free",
  "static": {"variants": [[0, 0], [0, 0]], "actions": [
    [["F", 0, 0, 0], ["B", 0, 0, 0], ["F", 1, 0, 0], ["B", 1, 0, 0]],
    [["F", 0, 0, 1], ["B", 0, 0, 1], ["F", 1, 0, 1], ["B", 1, 0, 1]]]}})";

using Kind = planner::ActionKind;

struct Sample {
  planner::StepProblem problem = *planner::parseStepProblem(problemText, "problem");
  planner::StepLoads loads{7, {{{2, 40, 1600, 0}, {}}, {{1, 20, 400, 0}, {}}}};
  PlannedStep planned;

  Sample() {
    planned.plan.step = 7;
    planned.plan.borders = {{0, 2}, {0, 1}};
    planned.plan.variants = {{{0}, {1}}, {{0}, {0}}};
  }

  std::string text() {
    const planner::StepModel model(problem);
    const planner::StepUnits units(model, loads, planned.plan.borders);
    const planner::StepLists lists = planner::listsOf(units, planned.plan);
    planned.times = plannedTimes(units, lists, *planner::timesOf(units, lists));
    const std::vector<Message> messages = messagesOf(problem);
    if (planned.plan.method == planner::StepMethod::Lists)
      planned.lists = insertCommunication(planned.plan.actions, planned.times, messages);
    return textOf(problem, loads, planned, messages);
  }
};

TEST(StepText, ListsHaveTimesVariantsMessagesAndMemory) {
  Sample sample;
  planner::StepPlan &plan = sample.planned.plan;
  plan.method = planner::StepMethod::Lists;
  plan.stepNs = 180002; // as counted below
  plan.boundNs = 100000;
  plan.staticNs = 270003;
  plan.evaluated = 12;
  plan.actions = {{{Kind::Forward, 0, 0, 0},
                   {Kind::Forward, 1, 0, 0},
                   {Kind::InputGrad, 0, 0, 0},
                   {Kind::WeightGrad, 0, 0, 0},
                   {Kind::Backward, 1, 0, 0}},
                  {{Kind::Forward, 0, 0, 1},
                   {Kind::Backward, 0, 0, 1},
                   {Kind::Forward, 1, 0, 1},
                   {Kind::Backward, 1, 0, 1}}};
  plan.places = {{{0, 0, 0, 0, 0}, {0, 1, 0, 0, 256}}, {}};
  const std::string text = sample.text();
  EXPECT_EQ(text.substr(0, text.find("\n    ")),
            "step 7: lists, predicted 0.180 ms (1.800 of bound), bound 0.100 ms, static 0.270 ms "
            "(1.500 of predicted), 12 lists tried\n"
            "  tiles+tokens: 2+40 1+20\n"
            "  stage 0, chunk 0: works 55.55 %, memory 320 of 1024 bytes");
  // A message of one byte is under way for 5.001 us: stage 1 runs from 25.001 to 145.001 us.
  for (const char *words :
       {"F0/keep@0.000+0.020", "F1/full@0.020+0.010", "I0@0.110+0.020", "W0@0.130+0.020",
        "B1@0.150+0.030", "  stage 1, chunk 1: works 66.67 %, memory 0 of 1024 bytes\n",
        "F0@0.025+0.040", "B0@0.065+0.040", "F1@0.105+0.020", "B1@0.125+0.020", "S0:0>1", "R0:1>0",
        "r1:1>0 B1@0.150", "s1:0>1"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " in\n" << text;
}

TEST(StepText, SeveralChunksOfAStageAreNamed) {
  Sample sample;
  sample.problem.stages = 1;
  sample.problem.chunks[1].stage = 0;
  sample.problem.memoryBytes.clear();
  planner::StepPlan &plan = sample.planned.plan;
  plan.method = planner::StepMethod::Lists;
  plan.actions = {{{Kind::Forward, 0, 0, 0},
                   {Kind::Forward, 0, 0, 1},
                   {Kind::Backward, 0, 0, 1},
                   {Kind::Backward, 0, 0, 0},
                   {Kind::Forward, 1, 0, 0},
                   {Kind::Forward, 1, 0, 1},
                   {Kind::Backward, 1, 0, 1},
                   {Kind::Backward, 1, 0, 0}}};
  plan.places = {{}};
  plan.stepNs = 220000;
  const std::string text = sample.text();
  EXPECT_NE(text.find("  stage 0, chunks 0, 1: works 100.00 %, memory 0 bytes\n"
                      "    F0.0/keep@0.000+0.020 F0.1@0.020+0.040 B0.1@0.060+0.040 "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find('>'), std::string::npos) << "nothing is sent\n" << text;
}

TEST(StepText, LinesAreShort) {
  Sample sample;
  sample.problem.microbatches = 40;
  sample.loads.microbatches.resize(40, sample.loads.microbatches[0]);
  sample.planned.plan.borders.resize(40, {0, 2});
  for (auto &chunk : sample.planned.plan.variants)
    chunk.resize(40, {0});
  sample.planned.plan.actions.resize(2);
  for (int32_t m = 0; m < 40; ++m)
    for (int32_t c = 0; c < 2; ++c)
      for (Kind kind : {Kind::Forward, Kind::Backward})
        sample.planned.plan.actions[c].push_back({kind, m, 0, c});
  const std::string text = sample.text();
  size_t lines = 0;
  for (size_t begin = text.find('\n') + 1; begin < text.size(); ++lines) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 100U);
    begin = end + 1;
  }
  EXPECT_GT(lines, 20U);
}

TEST(StepText, AStaticPlanIsThatOfTheProgram) {
  Sample sample;
  planner::StepPlan &plan = sample.planned.plan;
  plan.actions = sample.problem.fixed.actions;
  plan.places = {{}, {}};
  plan.variants[0][1][0] = 0;
  const std::string text = sample.text();
  EXPECT_EQ(text.substr(0, 14), "step 7: static");
  EXPECT_NE(text.find("memory as the program's own lists\n    F0/keep@0.000+0.020 B0@"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find('>'), std::string::npos) << text;
}

} // namespace
} // namespace omnibal::rt
