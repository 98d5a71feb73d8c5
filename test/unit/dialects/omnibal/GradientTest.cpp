//===- GradientTest.cpp - Gradient rules against finite differences ----------------------===//
//
// Every case of gradients.mlir: the gradient that an op builds, evaluated by the interpreter in
// float64, against central differences of the op itself. Every op with the interface must have a
// case.
//
//===-------------------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;
using namespace omnibal;

namespace {

constexpr int64_t tiles = 2, tokens = 5;

class GradientTest : public ::testing::Test {
protected:
  GradientTest() {
    context.loadDialect<OmnibalDialect, func::FuncDialect>();
    context.allowUnregisteredDialects(); // the test's own argument attributes
    module = parseSourceFile<ModuleOp>(GRADIENT_CASES, &context);
  }

  /// The op under test: the one that is neither a constant nor the return.
  static DifferentiableOpInterface testedOp(func::FuncOp function) {
    for (Operation &op : function.getBody().front())
      if (auto differentiable = dyn_cast<DifferentiableOpInterface>(op))
        return differentiable;
    return nullptr;
  }

  HostTensor randomTensor(RankedTensorType type, double low, double high) {
    SmallVector<int64_t> shape;
    SymbolicShape symbolic = *getSymbolicShape(type);
    for (const SymbolicDim &dim : symbolic)
      shape.push_back(dim.evaluate(tiles, tokens));
    HostTensor tensor(type.getElementType(), shape);
    std::uniform_real_distribution<double> distribution(low, high);
    for (double &value : tensor.floats)
      value = distribution(random);
    return tensor;
  }

  void checkCase(func::FuncOp function);

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::mt19937 random{7};
};

void GradientTest::checkCase(func::FuncOp function) {
  SCOPED_TRACE(function.getName().str());
  DifferentiableOpInterface tested = testedOp(function);
  ASSERT_TRUE(tested);
  Operation *op = tested;
  Block &block = function.getBody().front();
  size_t givenArguments = block.getNumArguments();
  Interpreter interpreter({tiles, tokens, /*float64=*/true});
  Interpreter::Bindings values;
  for (BlockArgument argument : block.getArguments()) {
    unsigned i = argument.getArgNumber();
    if (auto given = function.getArgAttrOfType<ElementsAttr>(i, "t.values")) {
      values[argument] = *fromAttribute(given);
      continue;
    }
    double low = -1, high = 1;
    if (auto range = function.getArgAttrOfType<ArrayAttr>(i, "t.range")) {
      low = cast<FloatAttr>(range[0]).getValueAsDouble();
      high = cast<FloatAttr>(range[1]).getValueAsDouble();
    }
    values[argument] = randomTensor(cast<RankedTensorType>(argument.getType()), low, high);
  }
  // Constants are fixed; a case without arguments varies them: points that no random draw would
  // hit.
  SmallVector<Value> operands(op->getOperands());
  for (Value operand : operands)
    ASSERT_TRUE(succeeded(interpreter.evaluate(operand, values)));

  // The objective is a weighted sum of the first result; the weights are the incoming gradient.
  Value weights = block.addArgument(op->getResult(0).getType(), op->getLoc());
  values[weights] = randomTensor(cast<RankedTensorType>(weights.getType()), 0.5, 1.5);
  OpBuilder builder(block.getTerminator());
  SmallVector<Value> resultGrads(op->getNumResults()), gradients;
  resultGrads[0] = weights;
  SmallVector<bool> needed;
  for (Value operand : operands) {
    bool isFloat = isa<FloatType>(cast<RankedTensorType>(operand.getType()).getElementType());
    bool isFixed = operand.getDefiningOp() && givenArguments > 0;
    needed.push_back(isFloat && !isFixed);
  }
  ASSERT_TRUE(succeeded(tested.buildGradients(builder, resultGrads, needed, gradients)));
  ASSERT_EQ(gradients.size(), operands.size());
  function.setType(builder.getFunctionType(block.getArgumentTypes(), function.getResultTypes()));
  ASSERT_TRUE(succeeded(verify(function))); // the rules build valid IR

  auto objective = [&](unsigned operand, const HostTensor &changed) {
    SmallVector<const HostTensor *> inputs;
    for (unsigned i = 0; i < operands.size(); ++i)
      inputs.push_back(i == operand ? &changed : &values[operands[i]]);
    auto results = interpreter.evaluateOp(op, inputs);
    EXPECT_TRUE(succeeded(results));
    double sum = 0;
    const HostTensor &w = values[weights];
    for (int64_t k = 0; k < w.size(); ++k)
      sum += (*results)[0].floats[k] * w.floats[k];
    return sum;
  };

  unsigned checked = 0;
  for (unsigned i = 0; i < operands.size(); ++i) {
    if (!needed[i])
      continue;
    ASSERT_TRUE(gradients[i]) << "no gradient for operand " << i;
    EXPECT_EQ(gradients[i].getType(), operands[i].getType());
    auto built = interpreter.evaluate(gradients[i], values);
    ASSERT_TRUE(succeeded(built));
    HostTensor point = values[operands[i]];
    for (int64_t k = 0; k < point.size(); ++k) {
      double step = 1e-5, kept = point.floats[k];
      point.floats[k] = kept + step;
      double above = objective(i, point);
      point.floats[k] = kept - step;
      double below = objective(i, point);
      point.floats[k] = kept;
      double expected = (above - below) / (2 * step);
      EXPECT_NEAR(built->floats[k], expected, 1e-8 + 1e-7 * std::abs(expected))
          << "operand " << i << ", element " << k;
      ++checked;
    }
  }
  EXPECT_GT(checked, 0u);
}

TEST_F(GradientTest, AgreeWithFiniteDifferences) {
  ASSERT_TRUE(module);
  for (auto function : module->getOps<func::FuncOp>())
    checkCase(function);
}

TEST_F(GradientTest, EveryDifferentiableOpHasACase) {
  ASSERT_TRUE(module);
  std::set<std::string> covered;
  for (auto function : module->getOps<func::FuncOp>())
    if (auto op = testedOp(function))
      covered.insert(op->getName().getStringRef().str());
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<DifferentiableOpInterface>() &&
        name.getStringRef() !=
            "omnibal.reshard" && // parts in step: ReshardTest.cpp, FactorTest.cpp
        name.getStringRef() != "omnibal.joined_cross_entropy") {
      EXPECT_TRUE(covered.count(name.getStringRef().str())) << name.getStringRef().str();
    }
}

/// In training the gradient of the losses is all ones: no multiplication may be left of it, and the
/// fused loss gradient is taken.
TEST_F(GradientTest, GradientOfOnesCostsNothing) {
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<func::FuncOp>("linear_cross_entropy");
  Operation *op = testedOp(function);
  OpBuilder builder(function.getBody().front().getTerminator());
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  Value one = ConstantOp::create(builder, op->getLoc(), scalar,
                                 cast<ElementsAttr>(DenseElementsAttr::get(scalar, 1.0)));
  Value ones = ExpandOp::create(builder, op->getLoc(), op->getResult(0).getType(), one, Value());
  SmallVector<Value> gradients, resultGrads{ones};
  SmallVector<bool> needed{true, true, true, false};
  ASSERT_TRUE(succeeded(
      cast<DifferentiableOpInterface>(op).buildGradients(builder, resultGrads, needed, gradients)));
  for (unsigned i = 0; i < 3; ++i)
    EXPECT_TRUE(gradients[i].getDefiningOp<LinearCrossEntropyGradOp>());
  EXPECT_TRUE(function.getBody().getOps<MulOp>().empty());
}

} // namespace
