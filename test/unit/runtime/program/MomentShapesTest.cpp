// What Adafactor keeps, and programs that have it.
#include "runtime/program/MomentShapes.h"
#include "runtime/program/Verifier.h"
#include "test/unit/runtime/program/TinyProgram.h"
#include <functional>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

TEST(MomentShapes, ByHand) {
  EXPECT_EQ(momentShapes(OptimizerKind::AdamW, {7, 5}, false), (Shapes{{7, 5}, {7, 5}}));
  EXPECT_EQ(momentShapes(OptimizerKind::Muon, {7, 5}, true), (Shapes{{7, 5}}));
  EXPECT_EQ(momentShapes(OptimizerKind::Muon, {7, 5}, false), (Shapes{{7, 5}, {7, 5}}));
  EXPECT_EQ(momentShapes(OptimizerKind::Lion, {7}, false), (Shapes{{7}}));
  // torch.optim.Adafactor's row_var and col_var, or its variance.
  EXPECT_EQ(momentShapes(OptimizerKind::Adafactor, {7, 5}, false), (Shapes{{7, 1}, {1, 5}}));
  EXPECT_EQ(momentShapes(OptimizerKind::Adafactor, {8, 3, 14, 15}, false),
            (Shapes{{8, 3, 14, 1}, {8, 3, 1, 15}}));
  EXPECT_EQ(momentShapes(OptimizerKind::Adafactor, {7}, false), (Shapes{{7}}));
  EXPECT_EQ(momentShapes(OptimizerKind::Adafactor, {}, false), Shapes(1));
  EXPECT_EQ(momentBytes(OptimizerKind::Adafactor, {8, 3, 14, 15}, false),
            (std::vector<int64_t>{8 * 3 * 14 * 4, 8 * 3 * 15 * 4}));
  EXPECT_EQ(momentBytes(OptimizerKind::AdamW8bit, {256}, false),
            (std::vector<int64_t>{64 + 256, 64 + 256}));
}

/// The verdict on a tiny program of Adafactor's, whose parameters are matrices of 11 rows and 6
/// columns. Each moment has more room than its variances need.
std::string verdictOn(const TinyOptions &options, const std::function<void(Program &)> &change) {
  Program p = tinyProgram(options);
  p.optimizer = OptimizerKind::Adafactor;
  change(p);
  return verifyProgram(p).message();
}

/// Variances have their own places, just as large as they are.
TEST(MomentShapes, OfAProgramHaveTheirPlaces) {
  auto behind = [](int64_t bytes) {
    return [=](Program &p) {
      for (Parameter &q : p.stageList[0].parameters)
        q.moment2Offset = q.moment1Offset + bytes;
    };
  };
  EXPECT_EQ(verdictOn({}, behind(tinyVocabulary * 4)), "");
  EXPECT_NE(verdictOn({}, behind(tinyVocabulary * 4 - 4)).find("overlap"), std::string::npos);
}

TEST(MomentShapes, OfBrokenProgramsAreRefused) {
  auto first = [](Program &p) -> Parameter & { return p.stageList[0].parameters[0]; };
  auto refuses = [](const TinyOptions &options, const std::function<void(Program &)> &change,
                    const std::string &why) {
    const std::string message = verdictOn(options, change);
    EXPECT_NE(message.find(why), std::string::npos) << message;
  };
  refuses(
      {}, [&](Program &p) { first(p).held.emplace(); },
      "p3: stage 0, parameter \"" + tinyProgram({}).stageList[0].parameters[0].name +
          "\": optimizer adafactor: it updates whole parameters only");
  refuses(
      {}, [&](Program &p) { first(p).shape = {tinyVocabulary, 0}; },
      "optimizer adafactor: a parameter without elements");
  refuses(
      {}, [&](Program &p) { first(p).shape = {tinyVocabulary * tinyWidth}; },
      "optimizer adafactor has no second moment of it");
  refuses(
      {}, [&](Program &p) { p.target = "cuda"; },
      "p1: manifest: optimizer adafactor: only target host has it");
  refuses({.dataParallel = 2, .zero = true}, [](Program &) {}, "replicas do not divide its state");
}

} // namespace
} // namespace omnibal::rt
