// Programs whose parts of a stage have entries of their own, and one broken program for each way in
// which these may not fit together.
#include "runtime/program/ProgramIO.h"
#include "runtime/program/Verifier.h"
#include "test/unit/runtime/program/TinyProgram.h"
#include <functional>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

/// The tiny program with an entry for each part; all of them do the same.
Program partsProgram(int32_t parts, int32_t stages = 2) {
  Program p = tinyProgram({.stages = stages, .modelParallel = parts});
  std::vector<Stage> list;
  for (const Stage &stage : p.stageList)
    for (int32_t part = 0; part < parts; ++part) {
      list.push_back(stage);
      list.back().part = part;
    }
  p.stageList = std::move(list);
  return p;
}

LayerCall &firstCall(Program &p, int stage, int part) {
  return p.stageList[stage * p.modelParallel + part].modes.at("train").chunks[0].forward[0];
}

/// All of a buffer.
View viewOf(const Function &f, int32_t buffer) {
  View view;
  view.buffer = buffer;
  view.shape = f.buffers[buffer].shape;
  view.strides.resize(view.shape.size());
  Extent stride{1, 0, 0};
  for (size_t d = view.shape.size(); d-- > 0;) {
    view.strides[d] = stride;
    const int64_t size = view.shape[d].isStatic() ? view.shape[d].constant : 1;
    stride = {stride.constant * size, stride.perTile * size, stride.perToken * size};
  }
  return view;
}

/// Lets the first layer of a part end with a move of its output to itself.
void addMove(Program &p, int stage, int part, const std::string &kernel,
             const nlohmann::json &attributes = nlohmann::json::object()) {
  Function f = p.functions[firstCall(p, stage, part).function];
  for (int32_t b = 0; b < f.formals; ++b)
    if (f.buffers[b].role == Role::Output || f.buffers[b].role == Role::Saved) {
      KernelCall call;
      call.kernel = kernel;
      call.operands = {{"src", viewOf(f, b)}, {"dst", viewOf(f, b)}};
      call.attributes = attributes;
      f.calls.push_back(call);
      break;
    }
  f.name += "." + std::to_string(part);
  firstCall(p, stage, part).function = static_cast<int32_t>(p.functions.size());
  p.functions.push_back(f);
}

/// Exchanges two actions of part 1 of stage 0, which by itself may do so.
void reorder(Program &p) {
  auto &list = p.stageList[1].modes.at("train").actions;
  Program alone = p;
  alone.modelParallel = 1;
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    std::swap(list[i], list[i + 1]);
    alone.stageList = {p.stageList[1], p.stageList[3]};
    for (Stage &stage : alone.stageList)
      stage.part = 0;
    if (verifyProgram(alone))
      return;
    std::swap(list[i], list[i + 1]);
  }
}

TEST(PartsVerifier, AcceptsPartsThatDoTheSame) {
  for (int parts : {2, 3})
    for (int stages : {1, 2}) {
      Status status = verifyProgram(partsProgram(parts, stages));
      EXPECT_TRUE(status) << status.message();
    }
}

TEST(PartsVerifier, AcceptsMovesThatPair) {
  Program p = partsProgram(2);
  for (int part : {0, 1})
    addMove(p, 0, part, "all_reduce");
  Status status = verifyProgram(p);
  EXPECT_TRUE(status) << status.message();
}

TEST(PartsVerifier, EntriesAreReadByPart) {
  const Program p = partsProgram(3);
  EXPECT_TRUE(p.hasOwnParts());
  EXPECT_EQ(&p.stageOf(1, 2), &p.stageList[5]);
  EXPECT_EQ(p.firstParts()[1], &p.stageList[3]);
  const Program alike = tinyProgram({.stages = 2, .modelParallel = 3});
  EXPECT_FALSE(alike.hasOwnParts());
  EXPECT_EQ(&alike.stageOf(1, 2), &alike.stageList[1]);
}

TEST(PartsVerifier, WhatAPartHasOfAParameter) {
  Parameter q;
  q.shape = {12, 5};
  q.held = HeldUnits{0, 3, 2, 1, 3}; // of both rows of 3 units of 2 elements
  EXPECT_EQ(q.heldDims(), (std::vector<int64_t>{8, 5}));
  EXPECT_EQ(q.elements(), 40);
  EXPECT_EQ(q.wholeElements(), 60);
  std::vector<std::vector<int64_t>> runs;
  ASSERT_TRUE(
      HeldRuns(q.shape, *q.held).each(15, 40, [&](int64_t local, int64_t whole, int64_t count) {
        runs.push_back({local, whole, count});
        return Status::ok();
      }));
  EXPECT_EQ(runs, (std::vector<std::vector<int64_t>>{{15, 25, 5}, {20, 40, 20}}));
}

TEST(PartsVerifier, SharesOfRowsNeedPartsOfTheirOwn) {
  Program p = tinyProgram({.stages = 1, .modelParallel = 2});
  p.functions[0].buffers[0].shape = {{0, 0, 0, 0, 1}};
  const Status status = verifyProgram(p);
  EXPECT_EQ(status.code(), Code::DataLoss);
  EXPECT_NE(
      status.message().find("its size is that of a part's own share, but all parts do the same"),
      std::string::npos)
      << status.message();
}

struct BrokenParts {
  const char *name, *message;
  std::function<void(Program &)> change;
};
class BrokenPartsPrograms : public testing::TestWithParam<BrokenParts> {};

TEST_P(BrokenPartsPrograms, AreRefused) {
  Program p = partsProgram(2);
  GetParam().change(p);
  Status status = verifyProgram(p);
  EXPECT_EQ(status.code(), Code::DataLoss);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

const BrokenParts cases[] = {
    {"an_entry_less", "p1: manifest: stages is 2, but stages.json has 3",
     [](Program &p) { p.stageList.pop_back(); }},
    {"another_part", "p20: stages.json: an entry is of stage 0, part 0 where stage 0, part 1",
     [](Program &p) { p.stageList[1].part = 0; }},
    {"another_stage", "p1: manifest: stage 0 has id 1", [](Program &p) { p.stageList[1].id = 1; }},
    {"units_that_do_not_divide", "held: these units do not divide its shape",
     [](Program &p) { p.stageList[0].parameters[0].held = HeldUnits{0, 5, 1, 0, 2}; }},
    {"units_beyond", "held: these units do not divide its shape",
     [](Program &p) {
       p.stageList[0].parameters[0].held = HeldUnits{0, tinyVocabulary, 1, 0, tinyVocabulary + 1};
     }},
    {"a_share_on_one_part", "it differs from that of part 0",
     [](Program &p) {
       p.stageList[1].parameters[0].held = HeldUnits{0, tinyVocabulary, 1, 0, tinyVocabulary};
     }},
    {"all_units_on_both", "the units that it has of it are not its share",
     [](Program &p) {
       for (int entry : {0, 1})
         p.stageList[entry].parameters[0].held = HeldUnits{0, tinyVocabulary, 1, 0, tinyVocabulary};
     }},
    {"another_parameter", "it differs from that of part 0",
     [](Program &p) { p.stageList[1].parameters[0].decay ^= true; }},
    {"a_matrix_of_one_part", "it differs from that of part 0",
     [](Program &p) {
       p.optimizer = OptimizerKind::Muon;
       p.stageList[1].parameters[0].orthogonalized = true;
       p.stageList[1].parameters[0].moment2Offset = -1;
     }},
    {"another_order", "its actions or chunks are not those of part 0",
     [](Program &p) { reorder(p); }},
    {"a_move_of_one_part", "it makes 1 moves, part 0 makes 0",
     [](Program &p) { addMove(p, 0, 1, "all_reduce"); }},
    {"another_move", "move 0 (keep_first) is not that of part 0",
     [](Program &p) {
       addMove(p, 0, 0, "all_reduce");
       addMove(p, 0, 1, "keep_first");
     }},
    {"no_share", "is not that of part 0, or not its share of the same value",
     [](Program &p) {
       for (int part : {0, 1})
         addMove(p, 0, part, "all_gather", {{"from", {1, tinyWidth, 1}}});
     }},
    {"a_move_without_units", "must be a dimension, its units and their elements",
     [](Program &p) {
       for (int part : {0, 1})
         addMove(p, 0, part, "all_gather", {{"from", {1, tinyWidth}}});
     }},
};
INSTANTIATE_TEST_SUITE_P(Parts, BrokenPartsPrograms, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace omnibal::rt
