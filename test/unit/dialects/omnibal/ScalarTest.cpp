//===- ScalarTest.cpp - Scalar forms of elementwise ops against their float64 values -----===//
//
// emitScalar writes what generated kernels compute, evaluate what the interpreter computes. Both
// must agree for every elementwise op and element type. The emitted ops are folded one by one;
// functions without a folder in MLIR are computed here.
//
//===-------------------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace omnibal;

namespace {

struct Case {
  std::string op; ///< name, with attributes after a space
  std::string elements;
  std::vector<std::vector<double>> points;
};

const std::vector<std::vector<double>> anywhere{{-2.5}, {-1}, {-0.25}, {0}, {0.5}, {3}};
const std::vector<std::vector<double>> positive{{0.25}, {1}, {7.5}};
const std::vector<std::vector<double>> pairs{{-2.5, 1.5}, {0.5, 0.5}, {3, -4}, {0, 2}, {-1, -7.5}};
const std::vector<std::vector<double>> integers{{7, 3}, {-7, 3}, {7, -3}, {-6, -3}, {0, 5}, {4, 0}};
const std::vector<std::vector<double>> booleans{{0, 0}, {0, 1}, {1, 0}, {1, 1}};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char *op : {"neg", "exp", "erf", "tanh", "sigmoid", "cos", "sin", "abs", "floor",
                         "sign", "relu", "silu", "quick_gelu", "gelu", "gelu {tanh}"})
    all.push_back({op, "f64", anywhere});
  for (const char *op : {"log", "sqrt", "rsqrt", "reciprocal"})
    all.push_back({op, "f64", positive});
  for (const char *op : {"silu_grad", "quick_gelu_grad", "gelu_grad", "gelu_grad {tanh}", "add",
                         "sub", "mul", "div", "mod", "mod {fmod}", "max", "min"})
    all.push_back({op, "f64", pairs});
  all.push_back({"pow", "f64", {{2, 0.5}, {0.3, -2}, {4, 3}, {-2, 2}}});
  for (const char *op : {"neg", "abs", "sign", "relu", "not"})
    all.push_back({op, "i64", {{-4}, {0}, {9}}});
  for (const char *op :
       {"add", "sub", "mul", "div", "mod", "mod {fmod}", "max", "min", "and", "or", "xor"})
    all.push_back({op, "i64", integers});
  all.push_back({"pow", "i64", {{2, 10}, {-3, 3}, {5, 0}}});
  for (const char *op : {"and", "or", "xor", "max", "min"})
    all.push_back({op, "i1", booleans});
  all.push_back({"not", "i1", {{0}, {1}}});
  all.push_back({"is_nan", "f64", {{1}, {std::nan("")}}});
  for (int predicate = 0; predicate < 5; ++predicate) {
    std::string op = "compare {predicate = " + std::to_string(predicate) + " : i32}";
    all.push_back({op, "f64", pairs});
    all.push_back({op, "i64", integers});
    all.push_back({op, "i1", booleans});
  }
  all.push_back({"random_uniform {stream = 3 : i32}",
                 "i32",
                 {{12345, 7, 2}, {-1, 0, 0}, {-2147483648.0, 4095, 31}, {2147483647, 1, -5}}});
  all.push_back({"select", "f64", {{0, 1.5, 2.5}, {1, 1.5, 2.5}}});
  all.push_back({"select", "i64", {{0, 4, 5}, {1, 4, 5}}});
  for (const char *target : {"f32", "f64", "i64", "i32", "i1"}) {
    all.push_back({std::string("cast ") + target, "f64", {{-2.5}, {0}, {3.75}}});
    all.push_back({std::string("cast ") + target, "i64", {{-4}, {0}, {9}}});
    all.push_back({std::string("cast ") + target, "i1", {{0}, {1}}});
  }
  return all;
}

/// "func @main(args) { one op }" on tensors of rank 0.
std::string textOf(const Case &test) {
  std::string name = test.op.substr(0, test.op.find(' '));
  std::string attributes = name == test.op ? "" : test.op.substr(test.op.find(' '));
  std::string result = test.elements;
  if (name == "cast") { // the case names the target
    result = test.op.substr(5);
    attributes = "";
  }
  if (name == "compare" || name == "is_nan")
    result = "i1";
  if (name == "random_uniform")
    result = "f64";
  std::string arguments, operands, types;
  for (size_t i = 0; i < test.points[0].size(); ++i) {
    std::string type = "tensor<" + (name == "select" && i == 0 ? "i1" : test.elements) + ">";
    std::string separator = i ? ", " : "", value = "%a" + std::to_string(i);
    arguments += separator + value + ": " + type;
    operands += separator + value;
    types += separator + type;
  }
  return "func.func @main(" + arguments + ") -> tensor<" + result + "> {\n  %r = omnibal." + name +
         " " + operands + attributes + " : (" + types + ") -> tensor<" + result +
         ">\n  return %r : tensor<" + result + ">\n}";
}

class ScalarTest : public ::testing::Test {
protected:
  ScalarTest() {
    context
        .loadDialect<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  }

  static double toDouble(Attribute value) {
    if (auto floating = dyn_cast<FloatAttr>(value))
      return floating.getValueAsDouble();
    auto integer = cast<IntegerAttr>(value);
    if (integer.getType().isInteger(1))
      return integer.getValue().getZExtValue();
    return static_cast<double>(integer.getValue().getSExtValue());
  }

  /// Result of one emitted op on constants.
  static Attribute compute(Operation *op, ArrayRef<Attribute> operands,
                           const llvm::DenseMap<Value, Attribute> &known) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return constant.getValue();
    auto unary = [&](double (*rule)(double)) {
      return Attribute(FloatAttr::get(op->getResult(0).getType(), rule(toDouble(operands[0]))));
    };
    if (isa<math::RsqrtOp>(op))
      return unary([](double x) { return 1 / std::sqrt(x); });
    if (isa<math::ErfOp>(op))
      return unary([](double x) { return std::erf(x); });
    if (isa<arith::RemFOp>(op))
      return FloatAttr::get(op->getResult(0).getType(),
                            std::fmod(toDouble(operands[0]), toDouble(operands[1])));
    if (isa<math::PowFOp>(op))
      return FloatAttr::get(op->getResult(0).getType(),
                            std::pow(toDouble(operands[0]), toDouble(operands[1])));
    if (isa<math::IPowIOp>(op))
      return IntegerAttr::get(op->getResult(0).getType(),
                              int64_t(std::pow(toDouble(operands[0]), toDouble(operands[1]))));
    for (int attempt = 0; attempt < 3; ++attempt) { // a fold may first rewrite the op in place
      SmallVector<OpFoldResult> results;
      if (failed(op->fold(operands, results)))
        return nullptr;
      if (results.empty())
        continue;
      if (auto value = dyn_cast<Value>(results[0]))
        return known.lookup(value);
      return cast<Attribute>(results[0]);
    }
    return nullptr;
  }

  MLIRContext context;
};

TEST_F(ScalarTest, AgreesWithTheInterpreter) {
  for (const Case &test : cases()) {
    SCOPED_TRACE(test.op + " on " + test.elements);
    auto module = parseSourceString<ModuleOp>(textOf(test), &context);
    ASSERT_TRUE(module) << textOf(test);
    auto function = module->lookupSymbol<func::FuncOp>("main");
    auto op = cast<ElementwiseOpInterface>(function.getBody().front().front());
    for (const std::vector<double> &point : test.points) {
      Block block;
      OpBuilder builder(&context);
      builder.setInsertionPointToEnd(&block);
      llvm::DenseMap<Value, Attribute> values;
      SmallVector<Value> operands;
      for (auto [i, x] : llvm::enumerate(point)) {
        Type type = cast<RankedTensorType>(op->getOperand(i).getType()).getElementType();
        TypedAttr attr = isa<FloatType>(type) ? TypedAttr(builder.getFloatAttr(type, x))
                                              : TypedAttr(builder.getIntegerAttr(type, int64_t(x)));
        operands.push_back(arith::ConstantOp::create(builder, op->getLoc(), attr));
      }
      Value emitted = op.emitScalar(builder, op->getLoc(), operands);
      ASSERT_TRUE(emitted);
      for (Operation &inner : block) {
        SmallVector<Attribute> constants;
        for (Value operand : inner.getOperands())
          constants.push_back(values.lookup(operand));
        Attribute result = compute(&inner, constants, values);
        ASSERT_TRUE(result) << inner.getName().getStringRef().str() << " did not fold";
        values[inner.getResult(0)] = result;
      }
      double expected = op.evaluate(point), actual = toDouble(values[emitted]);
      EXPECT_NEAR(actual, expected, 1e-12 * std::max(1.0, std::abs(expected)))
          << "at " << point[0] << (point.size() > 1 ? ", " + std::to_string(point[1]) : "");
    }
  }
}

TEST_F(ScalarTest, WorksOnVectors) {
  for (const Case &test : cases()) {
    SCOPED_TRACE(test.op + " on " + test.elements);
    auto module = parseSourceString<ModuleOp>(textOf(test), &context);
    auto function = module->lookupSymbol<func::FuncOp>("main");
    auto op = cast<ElementwiseOpInterface>(function.getBody().front().front());
    auto scope = ModuleOp::create(UnknownLoc::get(&context));
    OpBuilder builder(scope.getBodyRegion());
    SmallVector<Type> types;
    for (Type type : op->getOperandTypes())
      types.push_back(VectorType::get({8}, cast<RankedTensorType>(type).getElementType()));
    Type result =
        VectorType::get({8}, cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
    auto body =
        func::FuncOp::create(builder, op->getLoc(), "f", builder.getFunctionType(types, {result}));
    Block *entry = body.addEntryBlock();
    builder.setInsertionPointToEnd(entry);
    Value emitted = op.emitScalar(builder, op->getLoc(), entry->getArguments());
    EXPECT_EQ(emitted.getType(), result);
    func::ReturnOp::create(builder, op->getLoc(), emitted);
    EXPECT_TRUE(succeeded(verify(scope)));
    scope.erase();
  }
}

TEST_F(ScalarTest, EveryElementwiseOpHasACase) {
  std::set<std::string> covered;
  for (const Case &test : cases())
    covered.insert("omnibal." + test.op.substr(0, test.op.find(' ')));
  size_t found = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<ElementwiseOpInterface>()) {
      ++found;
      EXPECT_TRUE(covered.count(name.getStringRef().str())) << name.getStringRef().str();
    }
  EXPECT_GE(found, 20u);
}

} // namespace
