// Digests of functions, and the times that a calibration table gives layers.
#include "passes/cost/MeasuredTimes.h"
#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::analysis;
using namespace omnibal::cost;

namespace {

class Digests : public testing::Test {
protected:
  Digests() {
    DialectRegistry registry;
    registry.insert<OmnibalDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
  }

  std::string of(const std::string &text, const std::string &compute = "float32",
                 int64_t parts = 1) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module ? digestOf(*module->getOps<func::FuncOp>().begin(), compute, parts) : "";
  }

  MLIRContext context;
};

/// A function with the given name, role of its argument, constant and last op.
std::string function(const std::string &name, const std::string &role = "input",
                     const std::string &constant = "1.0", const std::string &op = "add",
                     const std::string &operands = "%0, %1") {
  return "func.func @" + name + "(%x: tensor<4xf32> {omnibal.role = \"" + role +
         "\"}) -> tensor<4xf32> {\n  %0 = omnibal.constant dense<" + constant +
         "> : tensor<4xf32>\n  %1 = \"omnibal.mul\"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> "
         "tensor<4xf32>\n  %2 = \"omnibal." +
         op + "\"(" + operands +
         ") : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n  return %2 : tensor<4xf32>\n}\n";
}

TEST_F(Digests, NamesAndContentsDoNotCount) {
  std::string digest = of(function("a"));
  EXPECT_EQ(digest.size(), 32u);
  EXPECT_EQ(digest, of(function("another")));
  EXPECT_EQ(digest, of(function("a", "input", "[1.0, 2.0, 3.0, 4.0]")));
}

TEST_F(Digests, WhatIsComputedCounts) {
  std::set<std::string> digests = {
      of(function("a")),
      of(function("a", "saved")),
      of(function("a", "input", "1.0", "mul")),
      of(function("a", "input", "1.0", "add", "%1, %0")),
      of(function("a", "input", "1.0", "add", "%x, %1")),
      of(function("a"), digestKernels("cuda", "bfloat16")),
      of(function("a"), digestKernels("cuda", "float32")),
  };
  EXPECT_EQ(digests.size(), 7u);
  EXPECT_EQ(of(function("a")), of(function("a"), digestKernels("host", "float32")));
}

/// A part has another share of tokens where there are more parts.
TEST_F(Digests, PartsCountWhereTheyHaveShares) {
  auto negates = [](const std::string &map) {
    const std::string type = "tensor<?xf32, affine_map<" + map + ">>";
    return "func.func @f(%x: " + type + ") -> " + type + " {\n  %0 = omnibal.neg %x : (" + type +
           ") -> " + type + "\n  return %0 : " + type + "\n}\n";
  };
  const std::string whole = negates("(d0, d1) -> (d1)"), own = negates("(d0, d1, d2, d3) -> (d3)");
  EXPECT_EQ(of(whole, "float32", 2), of(whole, "float32", 4));
  EXPECT_NE(of(own, "float32", 2), of(own, "float32", 4));
  EXPECT_NE(of(own, "float32", 2), of(whole, "float32", 2));
}

LayerFacts factsWith(std::string forward, std::string backward, MicrobatchLoad load = {3, 100}) {
  LayerFacts facts;
  facts.load = load;
  facts.forwardDigest = std::move(forward);
  facts.backwardDigest = std::move(backward);
  return facts;
}

cost::Calibration table() {
  cost::Calibration table;
  table.labelsPerToken = 0.5;
  table.functions["f"] = {.fixedNs = 10, .tileNs = 100, .tokenNs = 2};
  table.functions["b"] = {.tokenNs = 4, .squareNs = 0.01, .labelNs = 6};
  return table;
}

TEST(MeasuredTimes, StandInForTheRoofline) {
  MeasuredTimes times(table());
  LayerTimes roofline{1000, 300, 100};
  LayerFacts facts = factsWith("f", "b");
  EXPECT_TRUE(times.knows(facts));
  times.compare(facts, roofline);
  LayerTimes got = times.of(facts, roofline);
  EXPECT_EQ(got.forwardNs, 10 + 300 + 200);
  // 400 for tokens, 100 for the square of one sample of 100, 300 for 50 labels; 3 : 1 as in the
  // roofline.
  EXPECT_EQ(got.inputGradNs, 600);
  EXPECT_EQ(got.weightGradNs, 200);
  // Two samples of half the length.
  EXPECT_EQ(times.of(factsWith("f", "b", {3, 100, 5000}), roofline).backwardNs(), 750);
}

TEST(MeasuredTimes, WhatWasNotMeasuredIsScaled) {
  MeasuredTimes times(table());
  LayerTimes roofline{1000, 300, 100};
  EXPECT_DOUBLE_EQ(times.scale(), 1);
  LayerFacts half = factsWith("f", "unknown");
  EXPECT_FALSE(times.knows(half));
  times.compare(half, roofline); // 510 of 1000
  EXPECT_DOUBLE_EQ(times.scale(), 0.51);
  LayerTimes got = times.of(half, roofline);
  EXPECT_EQ(got.forwardNs, 510);
  EXPECT_EQ(got.inputGradNs, 153);
  EXPECT_EQ(got.weightGradNs, 51);
}

TEST(MeasuredTimes, HalvesOfABackward) {
  cost::Calibration known = table();
  known.functions["i"] = {.fixedNs = 660};
  known.functions["w"] = {.fixedNs = 220};
  LayerTimes roofline{1000, 100, 300};
  LayerFacts facts = factsWith("f", "b");
  facts.inputGradDigest = "i";
  facts.weightGradDigest = "w";
  // The whole was measured: its time (800), divided as the halves are.
  LayerTimes got = MeasuredTimes(known).of(facts, roofline);
  EXPECT_EQ(got.inputGradNs, 600);
  EXPECT_EQ(got.weightGradNs, 200);
  // A schedule that splits: the halves' own.
  got = MeasuredTimes(known, true).of(facts, roofline);
  EXPECT_EQ(got.inputGradNs, 660);
  EXPECT_EQ(got.weightGradNs, 220);
  // Only the halves were measured.
  known.functions.erase("b");
  EXPECT_TRUE(MeasuredTimes(known).knows(facts));
  EXPECT_EQ(MeasuredTimes(known).of(facts, roofline).backwardNs(), 880);
  // No second half: the first is all of it.
  facts.weightGradDigest.clear();
  got = MeasuredTimes(known, true).of(facts, roofline);
  EXPECT_EQ(got.inputGradNs, 660);
  EXPECT_EQ(got.weightGradNs, 0);
  // One half is unknown, and so is the whole.
  facts.weightGradDigest = "unknown";
  EXPECT_FALSE(MeasuredTimes(known, true).knows(facts));
}

TEST(MeasuredTimes, NoBackwardTakesNoTime) {
  MeasuredTimes times(table());
  LayerTimes got = times.of(factsWith("f", ""), {1000, 0, 0});
  EXPECT_EQ(got.forwardNs, 510);
  EXPECT_EQ(got.backwardNs(), 0);
  EXPECT_TRUE(times.knows(factsWith("f", "")));
}

CostOptions optionsWith(planner::Link parts) {
  CostOptions options;
  options.device.flops["float32"] = options.device.bytesPerSecond = 1'000'000'000;
  options.partsLink.given = parts;
  return options;
}

TEST(LayerTimes, MovesAreAdded) {
  LayerFacts facts;
  facts.forward = {10, 20, 3000, 2};
  const LayerTimes times = timesOf(facts, optionsWith({7, 1'000'000'000}));
  EXPECT_EQ(times.forwardNs, 10 + 20 + 3000 + 2 * 7);
}

/// Beyond what a problem may take they stay positive.
TEST(LayerTimes, LongMovesDoNotOverflow) {
  LayerFacts facts;
  facts.forward = {0, 0, 0, 1000};
  facts.inputGrad = facts.weightGrad = {0, 0, int64_t{1} << 60, 0};
  const LayerTimes times = timesOf(facts, optionsWith({int64_t{1} << 59, 1}));
  EXPECT_EQ(times.forwardNs, int64_t{1} << 60);
  EXPECT_EQ(times.inputGradNs, int64_t{1} << 60);
  EXPECT_EQ(times.wholeBackwardNs, int64_t{1} << 61);
}

} // namespace
