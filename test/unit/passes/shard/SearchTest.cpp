//===- SearchTest.cpp - Layouts that are found for layers -------------------------------------===//
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "passes/differentiate/Autodiff.h"
#include "passes/shard/ApplyLayouts.h"
#include "passes/shard/Ways.h"
#include "test/unit/passes/shard/SearchFixture.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::shard;
using omnibal::test::AllWays;

namespace {

class SearchTest : public test::SearchFixture {
protected:
  /// Some of the arguments are frozen.
  SmallVector<Value> someArguments(LayerOp layer) {
    SmallVector<Value> active;
    const int64_t kind = between(0, 3); // all, none, inputs alone, any
    for (BlockArgument each : layer.getBody().front().getArguments())
      if (kind == 0 || (kind == 2 && each.getArgNumber() < layer.getInputs().size()) ||
          (kind == 3 && between(0, 1)))
        active.push_back(each);
    return active;
  }
  void write(LayerOp layer, const LayerLayouts &layouts) {
    clear(); // parameters of other layers too
    writeLayouts(layer, layouts);
    for (auto [parameter, held] : llvm::zip_equal(layer.getParameters(), layouts.held))
      SymbolTable::lookupNearestSymbolFrom<ParameterOp>(
          layer, parameter.getDefiningOp<GetParameterOp>().getParameterAttr())
          ->setAttr(heldAttrName, held);
  }

  /// Any way for each op, with parameters held as is cheapest.
  LayerChoice anyChoice(const LayerProblem &problem) {
    LayerProblem drawn = problem;
    LayerChoice choice;
    for (SearchOp &op : drawn.ops) {
      choice.ways.push_back(
          static_cast<unsigned>(between(0, static_cast<int64_t>(op.ways.size()) - 1)));
      op.ways = {op.ways[choice.ways.back()]};
    }
    auto only = solveLayer(drawn);
    EXPECT_TRUE(only.has_value());
    choice.held = only->choice.held;
    return choice;
  }

  /// The collectives of what the last part runs forward and backward; an all_reduce is two.
  int64_t collectivesOf(LayerOp layer, int64_t parts) {
    OpBuilder builder(&context);
    OwningOpRef<ModuleOp> scratch = ModuleOp::create(layer.getLoc());
    builder.setInsertionPointToEnd(scratch->getBody());
    PartChoice choice{parts, parts - 1, std::pair<int64_t, int64_t>(tiles, 7)};
    choice.sumsGradients = true;
    auto function = applyLayouts(builder, layer, "part", choice);
    EXPECT_TRUE(succeeded(function));
    Block &block = function->getBody().front();
    Operation *end = block.getTerminator();
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    SmallVector<Value> arguments(block.getArguments()), results(end->getOperands());
    SmallVector<std::pair<Value, Value>> seeds;
    for (Value output : end->getOperands())
      seeds.push_back({output, block.addArgument(output.getType(), output.getLoc())});
    builder.setInsertionPoint(end);
    auto gradients = buildGradients(builder, ops, seeds, findActiveValues(ops, arguments));
    EXPECT_TRUE(succeeded(gradients));
    for (Value argument : arguments)
      if (Value gradient = gradients->of.lookup(argument))
        results.push_back(gradient);
    end->setOperands(results);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    int64_t count = 0;
    for (auto move : block.getOps<ReshardOp>()) {
      const Move kind = moveOf(move.getFrom(), move.getTo());
      count += sends(kind) + (kind == Move::AllReduce);
    }
    return count;
  }
};

TEST_F(SearchTest, SmallLayersEqualAllAssignments) {
  int64_t assignments = 0;
  for (StringRef name : {"gated", "normed", "heads", "pairs"})
    for (int i = 0; i < 60; ++i) {
      LayerOp layer = layerOf(name);
      // A loss is there only where something reaches it.
      const bool isLoss = layer.getKind() == LayerKind::Head;
      SmallVector<Value> active(layer.getBody().front().getArguments());
      LayerReading reading =
          read(layer, isLoss ? active : someArguments(layer), machine(), someBorders(layer));
      reading.setPrice(price());
      const AllWays all(reading.problem);
      assignments += all.count;
      auto found = solveLayer(reading.problem);
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(found->cost.total(), all.least) << name.str() << " " << i;
      auto bound = boundOf(reading.problem);
      ASSERT_TRUE(bound.has_value());
      ASSERT_LE(bound->total(), all.least);
    }
  std::cout << assignments << " assignments\n";
}

/// What the rule of an op allows of the layouts that its values may have is offered.
TEST_F(SearchTest, EveryLegalWayIsOffered) {
  for (StringRef name : {"gated", "normed", "heads", "pairs"}) {
    LayerOp layer = layerOf(name);
    const OpWays possible(layer);
    llvm::DenseMap<Value, SmallVector<LayoutAttr>> known;
    auto include = [&](Value value, LayoutAttr layout) {
      if (!llvm::is_contained(known[value], layout))
        known[value].push_back(layout);
    };
    Block &body = layer.getBody().front();
    for (Operation &op : body.without_terminator())
      for (const Way &way : possible.list(&op)) {
        for (auto [value, layout] : llvm::zip_equal(op.getOperands(), way.reads))
          include(value, layout);
        for (auto [value, layout] : llvm::zip_equal(op.getResults(), way.layouts))
          include(value, layout);
      }
    for (Operation &op : body.without_terminator()) {
      SmallVector<Value> values(op.getOperands());
      values.append(op.result_begin(), op.result_end());
      Way way{SmallVector<LayoutAttr>(op.getNumOperands()),
              SmallVector<LayoutAttr>(op.getNumResults())};
      // Whole and copied are the same of integers.
      auto add = [&](Way way, SmallVector<Way> &list) {
        for (auto [value, read] : llvm::zip_equal(op.getOperands(), way.reads))
          if (areAlike(cast<RankedTensorType>(value.getType()), read, LayoutAttr::whole(&context)))
            read = LayoutAttr::whole(&context);
        for (auto [value, made] : llvm::zip_equal(op.getResults(), way.layouts))
          if (areAlike(cast<RankedTensorType>(value.getType()), made, LayoutAttr::whole(&context)))
            made = LayoutAttr::whole(&context);
        if (!llvm::is_contained(list, way))
          list.push_back(way);
      };
      SmallVector<Way> offered, legal;
      for (const Way &each : possible.list(&op))
        add(each, offered);
      std::function<void(size_t)> walk = [&](size_t i) {
        if (i == values.size()) {
          if (findFault(&op, way.reads, way.layouts).empty())
            add(way, legal);
          return;
        }
        for (LayoutAttr layout : known[values[i]]) {
          (i < way.reads.size() ? way.reads[i] : way.layouts[i - way.reads.size()]) = layout;
          walk(i + 1);
        }
      };
      walk(0);
      EXPECT_EQ(legal.size(), offered.size()) << "an op of " << name.str();
      for (const Way &each : legal)
        EXPECT_TRUE(llvm::is_contained(offered, each)) << "an op of " << name.str();
    }
  }
}

/// With nothing but latency, what a choice costs is the number of its collectives.
TEST_F(SearchTest, MovesAreThoseThatPartsMake) {
  int64_t seen = 0;
  for (StringRef name : {"gated", "normed", "block"})
    for (int i = 0; i < 40; ++i) {
      LayerOp layer = layerOf(name);
      MachineRates rates = machine();
      rates.costs.load.tokens = 7;
      rates.costs.device.flops["float32"] = rates.costs.device.bytesPerSecond =
          rates.link.bytesPerSecond = 1'000'000'000'000'000'000;
      rates.link.latencyNs = 1'000'000;
      SmallVector<Value> active(layer.getBody().front().getArguments());
      LayerReading reading = read(layer, active, rates, someBorders(layer));
      const LayerChoice choice = anyChoice(reading.problem);
      const auto cost = costOf(reading.problem, choice);
      ASSERT_TRUE(cost.has_value());
      write(layer, reading.layoutsAt(choice));
      ASSERT_TRUE(verifies());
      const int64_t made = collectivesOf(layer, rates.parts);
      seen += made;
      ASSERT_EQ(made, (cost->total() + 500'000'000) / 1'000'000'000) << name.str();
    }
  EXPECT_GT(seen, 500);
}

/// What is found trains as the layer itself does.
TEST_F(SearchTest, FoundLayoutsComputeTheSame) {
  int divided = 0;
  for (StringRef name : {"block", "tower", "ends", "gated"})
    for (int i = 0; i < 12; ++i) {
      LayerOp layer = layerOf(name);
      MachineRates rates = machine();
      rates.costs.load.tokens = 7;
      SmallVector<Value> active(layer.getBody().front().getArguments());
      LayerReading reading = read(layer, active, rates, someBorders(layer));
      reading.setPrice(price());
      auto found = solveLayer(reading.problem);
      ASSERT_TRUE(found.has_value());
      const LayerLayouts layouts = reading.layoutsAt(found->choice);
      divided += layouts.isDivided();
      write(layer, layouts);
      EXPECT_GE(sentBy(layer, rates.parts, 7), 0);
    }
  EXPECT_GT(divided, 10);
}

/// More layouts of a value than a search knows: the layer stays whole, and a warning names it.
TEST_F(SearchTest, LayersOfTooManyLayoutsStayWhole) {
  LayerOp layer = layerOf("block");
  SmallVector<Value> active(layer.getBody().front().getArguments());
  const MachineRates rates = machine();
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    EXPECT_EQ(diagnostic.getSeverity(), DiagnosticSeverity::Warning);
    said += diagnostic.str();
  });
  auto reading = LayerReading::read(layer, active, rates, {}, {}, 2);
  ASSERT_TRUE(succeeded(reading));
  EXPECT_NE(said.find("layer " + layer.getName().str() + " is not divided"), std::string::npos)
      << said;
  reading->setPrice(1);
  auto found = solveLayer(reading->problem);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(reading->layoutsAt(found->choice).isDivided());
  LayerReading usual = read(layer, active, rates);
  usual.setPrice(1);
  EXPECT_TRUE(usual.layoutsAt(solveLayer(usual.problem)->choice).isDivided());
}

} // namespace
