//===- FactorTest.cpp - Every rule of division, every way to run an op -----------------------===//
//
// For every case, each combination of layouts that the rules allow is run by parts in step, forward
// and backward, and compared with the op itself. Rules that lie must be found out.
//
//===-------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/ir/FactorRule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/Ways.h"
#include "test/unit/passes/shard/PartsCheck.h"
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace omnibal;
using omnibal::test::PartsCheck;

namespace {

constexpr int64_t tiles = 2, tokens = 5;

class FactorTest : public ::testing::Test {
protected:
  FactorTest() {
    context.loadDialect<OmnibalDialect, func::FuncDialect, PlanDialect>();
    context.allowUnregisteredDialects(); // the test's own argument attributes
    modules.push_back(parseSourceFile<ModuleOp>(GRADIENT_CASES, &context));
    modules.push_back(parseSourceFile<ModuleOp>(FACTOR_CASES, &context));
  }

  std::vector<func::FuncOp> cases() {
    std::vector<func::FuncOp> found;
    for (auto &module : modules)
      for (auto function : module->getOps<func::FuncOp>())
        found.push_back(function);
    return found;
  }
  func::FuncOp caseOf(StringRef name) {
    for (func::FuncOp function : cases())
      if (function.getName() == name)
        return function;
    return {};
  }

  /// The op under test: the last one before the return.
  static Operation *testedOp(func::FuncOp function) {
    return function.getBody().front().getTerminator()->getPrevNode();
  }

  HostTensor argumentOf(func::FuncOp function, unsigned i) {
    if (auto given = function.getArgAttrOfType<ElementsAttr>(i, "t.values"))
      return *fromAttribute(given);
    auto type = cast<RankedTensorType>(function.getArgument(i).getType());
    SmallVector<int64_t> shape;
    SymbolicShape symbolic = *getSymbolicShape(type);
    for (const SymbolicDim &dim : symbolic)
      shape.push_back(dim.evaluate(tiles, tokens));
    HostTensor tensor(type.getElementType(), shape);
    double low = -1, high = 1;
    if (auto range = function.getArgAttrOfType<ArrayAttr>(i, "t.range")) {
      low = cast<FloatAttr>(range[0]).getValueAsDouble();
      high = cast<FloatAttr>(range[1]).getValueAsDouble();
    }
    for (double &value : tensor.floats)
      value = std::uniform_real_distribution<double>(low, high)(random);
    return tensor;
  }

  /// A layer with the ops of a case; its inputs are the arguments, its outputs the op's results.
  LayerOp layerOf(func::FuncOp function) {
    OpBuilder builder(&context);
    Location loc = function.getLoc();
    holder = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(holder->getBody());
    Block &body = function.getBody().front();
    Operation *tested = testedOp(function);
    auto around = func::FuncOp::create(
        builder, loc, "main", builder.getFunctionType(body.getArgumentTypes(), TypeRange()));
    builder.setInsertionPointToEnd(around.addEntryBlock());
    auto layer = LayerOp::create(builder, loc, tested->getResultTypes(), "case",
                                 LayerKind::Language, around.getArguments(), ValueRange());
    Block *block = &layer.getBody().emplaceBlock();
    IRMapping mapping;
    for (BlockArgument argument : body.getArguments())
      mapping.map(argument, block->addArgument(argument.getType(), loc));
    builder.setInsertionPointToEnd(block);
    Operation *last = nullptr;
    for (Operation &op : body.without_terminator()) {
      last = builder.clone(op, mapping);
      setLayouts(last, shard::layoutsAttrName,
                 SmallVector<LayoutAttr>(op.getNumResults(), LayoutAttr::whole(&context)));
    }
    YieldOp::create(builder, loc, last->getResults());
    return layer;
  }

  void setLayouts(Operation *op, StringRef name, ArrayRef<LayoutAttr> layouts) {
    SmallVector<Attribute> list(layouts.begin(), layouts.end());
    op->setAttr(name, ArrayAttr::get(&context, list));
  }

  /// Layouts that a value might have: every way to cut each dimension.
  SmallVector<LayoutAttr> candidates(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<LayoutAttr> layouts{LayoutAttr::copied(&context)};
    if (isa<FloatType>(type.getElementType()))
      layouts.append({LayoutAttr::whole(&context), LayoutAttr::partial(&context)});
    for (auto [i, dim] : llvm::enumerate(*getSymbolicShape(type))) {
      const auto where = static_cast<int64_t>(i);
      if (!dim.isStatic()) {
        for (UnitsOf of : {UnitsOf::Tiles, UnitsOf::Tokens}) {
          const int64_t each = of == UnitsOf::Tiles ? dim.perTile : dim.perToken;
          for (int64_t inner = 1; inner <= each && dim.constant == 0; ++inner)
            if (each % inner == 0)
              layouts.push_back(LayoutAttr::split(&context, where, of, inner));
        }
        continue;
      }
      for (int64_t units = 2; units <= dim.constant; ++units)
        for (int64_t inner = 1; units * inner <= dim.constant; ++inner)
          if (dim.constant % (units * inner) == 0)
            layouts.push_back(LayoutAttr::split(&context, where, units, inner));
    }
    return layouts;
  }

  /// What holds of every way: one set of units is split, and whole values are among themselves.
  /// Results may be whole where operands are divided.
  static bool mayGoTogether(ArrayRef<LayoutAttr> others, LayoutAttr layout, size_t operands) {
    if (layout.isWhole() && others.size() >= operands)
      return llvm::none_of(others.drop_front(operands),
                           [](LayoutAttr other) { return other.isSplit() || other.isPartial(); });
    return llvm::all_of(others, [&](LayoutAttr other) {
      if (other.isSplit() && layout.isSplit())
        return other.getUnitsOf() == layout.getUnitsOf() && other.getUnits() == layout.getUnits();
      return !(other.isWhole() && (layout.isSplit() || layout.isPartial())) &&
             !(layout.isWhole() && (other.isSplit() || other.isPartial()));
    });
  }

  /// Calls body(reads, layouts) for each combination that is allowed under a rule.
  template <typename Body>
  void forEachWay(Operation *op, const std::optional<FactorRule> &rule, Body body) {
    SmallVector<SmallVector<LayoutAttr>> choices;
    for (Value value : op->getOperands())
      choices.push_back(candidates(value));
    for (Value value : op->getResults())
      choices.push_back(candidates(value));
    SmallVector<LayoutAttr> chosen(choices.size());
    auto choose = [&](auto &self, size_t i) -> void {
      if (i < choices.size()) {
        for (LayoutAttr layout : choices[i]) {
          chosen[i] = layout;
          if (mayGoTogether(ArrayRef(chosen).take_front(i), layout, op->getNumOperands()))
            self(self, i + 1);
        }
        return;
      }
      ArrayRef<LayoutAttr> reads = ArrayRef(chosen).take_front(op->getNumOperands());
      ArrayRef<LayoutAttr> layouts = ArrayRef(chosen).drop_front(op->getNumOperands());
      if (shard::findFault(op, rule, reads, layouts).empty())
        body(reads, layouts);
    };
    choose(choose, 0);
  }

  struct Outcome {
    int64_t ways = 0, faults = 0;
    std::string first; ///< the first fault
  };
  /// Runs all ways of a case. A changed rule says other ways than the op's own.
  Outcome runCase(func::FuncOp function, ArrayRef<int64_t> counts,
                  llvm::function_ref<void(FactorRule &)> change = nullptr);

  static std::string text(ArrayRef<LayoutAttr> layouts) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleaveComma(layouts, stream);
    return text;
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
  OwningOpRef<ModuleOp> holder;
  std::mt19937 random{5};
};

FactorTest::Outcome FactorTest::runCase(func::FuncOp function, ArrayRef<int64_t> counts,
                                        llvm::function_ref<void(FactorRule &)> change) {
  Outcome outcome;
  LayerOp layer = layerOf(function);
  Operation *op = layer.getBody().front().getTerminator()->getPrevNode();
  std::optional<FactorRule> rule;
  if (auto divided = dyn_cast<FactorOpInterface>(op))
    rule = divided.getFactorRule();
  if (change)
    change(*rule);
  SmallVector<HostTensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    arguments.push_back(argumentOf(function, i));
  forEachWay(op, rule, [&](ArrayRef<LayoutAttr> reads, ArrayRef<LayoutAttr> layouts) {
    setLayouts(op, shard::readsAttrName, reads);
    setLayouts(op, shard::layoutsAttrName, layouts);
    SmallVector<LayoutAttr> borders(layer.getInputs().size(), LayoutAttr::whole(&context));
    for (auto [operand, read] : llvm::zip_equal(op->getOperands(), reads))
      if (auto argument = dyn_cast<BlockArgument>(operand))
        borders[argument.getArgNumber()] = read;
    borders.append(layouts.begin(), layouts.end());
    setLayouts(layer, shard::bordersAttrName, borders);
    PartsCheck check(layer, arguments, tiles, tokens);
    const bool isLoss = isa<CrossEntropyOp, LinearCrossEntropyOp, PreferenceLossOp>(op);
    check.checksGradients = isa<DifferentiableOpInterface>(op) &&
                            !(isLoss && (layouts[0].isCopied() || layouts[0].isPartial()));
    std::string fault = check.prepare();
    EXPECT_EQ(fault, "");
    ++outcome.ways;
    for (int64_t parts : counts) {
      fault = check.run(parts);
      if (fault.empty())
        continue;
      ++outcome.faults;
      if (outcome.first.empty())
        outcome.first = "reads " + text(reads) + " gives " + text(layouts) + " on " +
                        std::to_string(parts) + ": " + fault;
    }
  });
  return outcome;
}

TEST_F(FactorTest, EveryWayGivesWhatTheOpGives) {
  for (func::FuncOp function : cases()) {
    SCOPED_TRACE(function.getName().str());
    Outcome outcome = runCase(function, {2, 3, 4, 8});
    EXPECT_EQ(outcome.faults, 0) << outcome.first;
    EXPECT_GE(outcome.ways, 2);
    if (auto wanted = function->getAttrOfType<IntegerAttr>("t.ways")) {
      EXPECT_EQ(outcome.ways, wanted.getInt());
    }
  }
}

TEST_F(FactorTest, EveryRuleHasACase) {
  std::set<std::string> covered;
  for (func::FuncOp function : cases())
    covered.insert(testedOp(function)->getName().getStringRef().str());
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<FactorOpInterface>()) {
      EXPECT_TRUE(covered.count(name.getStringRef().str())) << name.getStringRef().str();
    }
}

/// A rule with one thing changed allows a way that gives something else.
TEST_F(FactorTest, RulesThatLieAreFound) {
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  auto lies = [&](StringRef name, llvm::function_ref<void(FactorRule &)> change) {
    func::FuncOp function = caseOf(name);
    if (!function)
      return false;
    return runCase(function, {2, 3}, change).faults > 0;
  };
  // What is closed is no row, what is a maximum is no sum.
  EXPECT_TRUE(lies("gelu_over_axes", [](FactorRule &rule) { rule.linearIn.push_back({0}); }));
  EXPECT_TRUE(lies("product", [](FactorRule &rule) { rule.linearIn.push_back({0, 1}); }));
  EXPECT_TRUE(lies("softmax_of_rows", [](FactorRule &rule) {
    rule.results[0][1] = rule.operands[0][1];
    rule.kinds[rule.operands[0][1][0]] = LetterKind::Free;
  }));
  EXPECT_TRUE(lies("largest", [](FactorRule &rule) {
    for (LetterKind &kind : rule.kinds)
      kind = kind == LetterKind::Closed ? LetterKind::Sum : kind;
  }));
  EXPECT_TRUE(lies("linear_of_rows", [](FactorRule &rule) { rule.added.clear(); }));
  EXPECT_TRUE(lies("linear_of_rows", [](FactorRule &rule) { rule.linearIn = {{0}}; }));
  EXPECT_TRUE(lies("linear_of_rows", [](FactorRule &rule) { // the weight's outputs stay whole
    rule.operands[1][0].clear();
  }));
  EXPECT_TRUE(lies("grouped_attention", [](FactorRule &rule) { // heads: group outside of key heads
    std::swap(rule.operands[0][1][0], rule.operands[0][1][1]);
    for (ValueLetters &letters : rule.results)
      std::swap(letters[1][0], letters[1][1]);
  }));
  EXPECT_TRUE(lies("padded_words", [](FactorRule &rule) { // rows that ids address, cut inside
    rule.kinds[rule.operands[0][0][0]] = LetterKind::Sum;
  }));
  EXPECT_TRUE(lies("pictures", [](FactorRule &rule) { rule.added.clear(); }));
  EXPECT_TRUE(lies("linear_cross_entropy", [](FactorRule &rule) { // words are no rows
    rule.kinds[rule.operands[1][0][0]] = LetterKind::Sum;
  }));
  EXPECT_TRUE(lies("losses_of_words", [](FactorRule &rule) { // the bias has no words
    rule.operands[2][0].clear();
  }));
  EXPECT_TRUE(lies("words", [](FactorRule &rule) { // summands are not told
    rule.kinds[rule.operands[0][0][0]] = LetterKind::Joined;
  }));
  EXPECT_TRUE(lies("mean_of_columns", [](FactorRule &rule) {
    rule.kinds[rule.operands[0][1][0]] = LetterKind::Joined;
  }));
  EXPECT_TRUE(lies("heads_of_columns", [](FactorRule &rule) { // features outside of heads
    std::swap(rule.operands[0][1][0], rule.operands[0][1][1]);
  }));
}

} // namespace
