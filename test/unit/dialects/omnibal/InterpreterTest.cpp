//===- InterpreterTest.cpp - The reference interpreter against PyTorch and by hand -------===//
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace omnibal;

namespace {

class InterpreterTest : public ::testing::Test {
protected:
  InterpreterTest() { context.loadDialect<OmnibalDialect, func::FuncDialect>(); }

  func::FuncOp parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    return module ? module->lookupSymbol<func::FuncOp>("main") : nullptr;
  }

  HostTensor fromJson(const nlohmann::json &json, Type elementType) {
    HostTensor tensor(elementType, json["shape"].get<std::vector<int64_t>>());
    for (auto [i, value] : llvm::enumerate(json["values"])) {
      std::string text = value.get<std::string>();
      if (tensor.isFloat())
        tensor.floats[i] = std::stod(text);
      else
        tensor.ints[i] = elementType.isInteger(1) ? text == "1.0" : std::stoll(text);
    }
    return tensor;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(InterpreterTest, AgreesWithPyTorch) {
  std::ifstream file(INTERPRETER_CASES);
  ASSERT_TRUE(file);
  nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 100u);
  for (const nlohmann::json &test : cases) {
    SCOPED_TRACE(test["name"].get<std::string>());
    func::FuncOp function = parse(test["function"].get<std::string>());
    ASSERT_TRUE(function);
    SmallVector<HostTensor> arguments;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      arguments.push_back(
          fromJson(test["inputs"][i], cast<RankedTensorType>(type).getElementType()));
    Interpreter interpreter({0, 0, /*float64=*/true});
    auto results = interpreter.run(function, arguments);
    ASSERT_TRUE(succeeded(results));
    ASSERT_EQ(results->size(), test["results"].size());
    for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
      HostTensor expected =
          fromJson(test["results"][i], cast<RankedTensorType>(type).getElementType());
      const HostTensor &actual = (*results)[i];
      EXPECT_EQ(actual.shape, expected.shape);
      EXPECT_EQ(actual.ints, expected.ints);
      ASSERT_EQ(actual.floats.size(), expected.floats.size());
      for (size_t k = 0; k < actual.floats.size(); ++k) {
        double wanted = expected.floats[k];
        if (std::isinf(wanted))
          EXPECT_EQ(actual.floats[k], wanted);
        else
          EXPECT_NEAR(actual.floats[k], wanted, 1e-12 * std::max(1.0, std::abs(wanted)))
              << "result " << i << ", element " << k;
      }
    }
  }
}

TEST_F(InterpreterTest, RoundsToFloat32UnlessAsked) {
  func::FuncOp function = parse(R"(
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %y = omnibal.mul %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %y : tensor<f32>
    })");
  HostTensor x(Float32Type::get(&context), {});
  x.floats[0] = 1 + 0x1p-20; // the square needs 41 bits
  Interpreter single({}), exact({0, 0, true});
  EXPECT_EQ((*single.run(function, {x}))[0].floats[0], 1 + 0x1p-19);
  EXPECT_EQ((*exact.run(function, {x}))[0].floats[0], 1 + 0x1p-19 + 0x1p-40);
}

TEST_F(InterpreterTest, RunsLayersWithNamedValues) {
  func::FuncOp function = parse(R"(
    #N = affine_map<(d0, d1) -> (d1)>
    #N2 = affine_map<(d0, d1) -> (d1, 2)>
    omnibal.parameter @table : tensor<3x2xf32>
    omnibal.parameter @bias : tensor<2xf32> {value = dense<[10.0, 20.0]> : tensor<2xf32>}
    func.func @main() -> tensor<?x2xf32, #N2> {
      %t = omnibal.get_parameter @table : tensor<3x2xf32>
      %b = omnibal.get_parameter @bias : tensor<2xf32>
      %y = omnibal.layer "language.embedding" language inputs() parameters(%t, %b)
          : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<?x2xf32, #N2> {
      ^bb0(%table: tensor<3x2xf32>, %bias: tensor<2xf32>):
        %ids = omnibal.batch_value "input_ids" : tensor<?xi32, #N>
        %e = omnibal.embedding %table, %ids : (tensor<3x2xf32>, tensor<?xi32, #N>) -> tensor<?x2xf32, #N2>
        %s = omnibal.add %e, %bias : (tensor<?x2xf32, #N2>, tensor<2xf32>) -> tensor<?x2xf32, #N2>
        omnibal.yield %s : tensor<?x2xf32, #N2>
      }
      return %y : tensor<?x2xf32, #N2>
    })");
  ASSERT_TRUE(function);
  Interpreter interpreter({0, 2});
  HostTensor table(Float32Type::get(&context), {3, 2}), ids(IntegerType::get(&context, 32), {2});
  table.floats = {1, 2, 3, 4, 5, 6};
  ids.ints = {2, 0};
  interpreter.parameters["table"] = table;
  interpreter.batchValues["input_ids"] = ids;
  auto results = interpreter.run(function, {});
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].floats, (std::vector<double>{15, 26, 11, 22}));
}

TEST_F(InterpreterTest, RunsGemmsWithEpilogues) {
  func::FuncOp function = parse(R"(
    func.func @main(%a: tensor<1x2xf32>, %b: tensor<2x2xf32>, %bias: tensor<2xf32>,
                    %residual: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
      %y, %pre = omnibal.gemm %a, %b bias(%bias) residual(%residual)
          {alpha = 2.0 : f64, transpose_rhs, activation = 5 : i32,
           resultSegmentSizes = array<i32: 1, 1, 0>}
          : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<1x2xf32>)
          -> (tensor<1x2xf32>, tensor<1x2xf32>)
      return %y, %pre : tensor<1x2xf32>, tensor<1x2xf32>
    })");
  ASSERT_TRUE(function);
  Type f32 = Float32Type::get(&context);
  HostTensor a(f32, {1, 2}), b(f32, {2, 2}), bias(f32, {2}), residual(f32, {1, 2});
  a.floats = {1, 2};
  b.floats = {3, 4, -5, 1};
  bias.floats = {0.5, 0.25};
  residual.floats = {100, 200};
  auto results = Interpreter({}).run(function, {a, b, bias, residual});
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[1].floats, (std::vector<double>{2 * 11 + 0.5, 2 * -3 + 0.25}));
  EXPECT_EQ((*results)[0].floats, (std::vector<double>{122.5, 200}));
}

TEST_F(InterpreterTest, RunsGemmsOfABackward) {
  func::FuncOp function = parse(R"(
    func.func @main(%a: tensor<2x1xf32>, %b: tensor<2x3xf32>, %at: tensor<1x3xf32>)
        -> (tensor<1x3xf32>, tensor<1xf32>, tensor<1x3xf32>, tensor<3xf32>) {
      %y, %sa = omnibal.gemm %a, %b at(%at)
          {transpose_lhs, activation = 5 : i32, resultSegmentSizes = array<i32: 1, 0, 1>}
          : (tensor<2x1xf32>, tensor<2x3xf32>, tensor<1x3xf32>) -> (tensor<1x3xf32>, tensor<1xf32>)
      %z, %sb = omnibal.gemm %a, %b
          {transpose_lhs, sum_rhs, activation = 0 : i32, resultSegmentSizes = array<i32: 1, 0, 1>}
          : (tensor<2x1xf32>, tensor<2x3xf32>) -> (tensor<1x3xf32>, tensor<3xf32>)
      return %y, %sa, %z, %sb : tensor<1x3xf32>, tensor<1xf32>, tensor<1x3xf32>, tensor<3xf32>
    })");
  ASSERT_TRUE(function);
  Type f32 = Float32Type::get(&context);
  HostTensor a(f32, {2, 1}), b(f32, {2, 3}), at(f32, {1, 3});
  a.floats = {1, 2};
  b.floats = {3, 4, -5, 1, 0, 7};
  at.floats = {0.5, -0.5, 2};
  auto results = Interpreter({}).run(function, {a, b, at});
  ASSERT_TRUE(succeeded(results));
  using Values = std::vector<double>;
  EXPECT_EQ((*results)[0].floats, (Values{5, 0, 9})); // relu's derivative is 0 below 0
  EXPECT_EQ((*results)[1].floats, (Values{3}));
  EXPECT_EQ((*results)[2].floats, (Values{5, 4, 9}));
  EXPECT_EQ((*results)[3].floats, (Values{4, 4, 2}));
}

TEST_F(InterpreterTest, EvaluatesASliceFromCutPoints) {
  func::FuncOp function = parse(R"(
    func.func @main(%x: tensor<2xf32>, %unused: tensor<2xf32>) -> tensor<2xf32> {
      %bad = omnibal.log %unused : (tensor<2xf32>) -> tensor<2xf32>
      %a = omnibal.neg %x : (tensor<2xf32>) -> tensor<2xf32>
      %b = omnibal.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %b : tensor<2xf32>
    })");
  Block &block = function.getBody().front();
  Value result = block.getTerminator()->getOperand(0);
  Interpreter interpreter({});
  Interpreter::Bindings bindings;
  HostTensor x(Float32Type::get(&context), {2});
  x.floats = {1, -3};
  bindings[block.getArgument(0)] = x; // the other argument is not needed
  auto value = interpreter.evaluate(result, bindings);
  ASSERT_TRUE(succeeded(value));
  EXPECT_EQ(value->floats, (std::vector<double>{-2, 6}));
  // A bound value is taken as it is, whatever would compute it.
  Interpreter::Bindings cut;
  cut[result.getDefiningOp()->getOperand(0)] = x;
  EXPECT_EQ(interpreter.evaluate(result, cut)->floats, (std::vector<double>{2, -6}));
}

TEST_F(InterpreterTest, ReportsBadIndicesAndMissingValues) {
  SmallVector<std::string> messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) { messages.push_back(d.str()); });
  func::FuncOp function = parse(R"(
    func.func @main(%t: tensor<2x1xf32>, %i: tensor<1xi64>) -> tensor<1x1xf32> {
      %y = omnibal.embedding %t, %i : (tensor<2x1xf32>, tensor<1xi64>) -> tensor<1x1xf32>
      return %y : tensor<1x1xf32>
    })");
  Interpreter interpreter({});
  HostTensor table(Float32Type::get(&context), {2, 1}), index(IntegerType::get(&context, 64), {1});
  index.ints = {2};
  EXPECT_TRUE(failed(interpreter.run(function, {table, index})));
  Interpreter::Bindings none;
  Value result = function.getBody().front().getTerminator()->getOperand(0);
  EXPECT_TRUE(failed(interpreter.evaluate(result, none)));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NE(messages[0].find("index 2 is out of range for size 2"), std::string::npos);
  EXPECT_NE(messages[1].find("no value bound"), std::string::npos);
}

TEST_F(InterpreterTest, AttributesKeepEveryElementType) {
  Builder b(&context);
  for (Type type : {Type(b.getF64Type()), Type(b.getF32Type()), Type(b.getBF16Type()),
                    Type(b.getI64Type()), Type(b.getI32Type()), Type(b.getI1Type()),
                    Type(IntegerType::get(&context, 8, IntegerType::Unsigned))}) {
    HostTensor tensor(type, {3});
    for (int64_t i = 0; i < 3; ++i)
      tensor.set(i, type.isInteger(1) ? i % 2 : 60 * i);
    auto back = fromAttribute(toAttribute(tensor));
    ASSERT_TRUE(succeeded(back));
    EXPECT_EQ(back->floats, tensor.floats);
    EXPECT_EQ(back->ints, tensor.ints);
  }
}

} // namespace
