//===- ShapeTest.cpp - Symbolic arithmetic and shape rules that depend on contents -------===//
#include "dialects/omnibal/ir/Builders.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace omnibal;

namespace {

const SymbolicDim V = SymbolicDim::tiles(), N = SymbolicDim::tokens();

class ShapeTest : public ::testing::Test {
protected:
  ShapeTest() { context.loadDialect<OmnibalDialect, func::FuncDialect>(); }

  /// Result shapes of the op in a function with open result types, from operand shapes and
  /// contents.
  std::optional<SymbolicShape> infer(const std::string &text, ArrayRef<SymbolicShape> shapes,
                                     const std::map<unsigned, SymbolicShape> &known = {}) {
    messages.clear();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) { messages.push_back(d.str()); });
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module) {
      ADD_FAILURE() << (messages.empty() ? "does not parse" : messages[0]);
      return std::nullopt;
    }
    auto function = *module->getOps<func::FuncOp>().begin();
    auto op = cast<ShapeInferenceOpInterface>(function.getBody().front().front());
    auto contents = [&](unsigned i) -> std::optional<SymbolicShape> {
      auto it = known.find(i);
      return it == known.end() ? std::nullopt : std::optional(it->second);
    };
    SmallVector<SymbolicShape> results;
    if (failed(op.inferSymbolicShapes(shapes, contents, results)))
      return std::nullopt;
    return results[0];
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> messages;
};

const char *reshape = R"(func.func @f(%x: tensor<?x?x?xf32>, %s: tensor<4xi64>) {
  %y = omnibal.reshape %x, %s : (tensor<?x?x?xf32>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  return })";

TEST_F(ShapeTest, ReshapeDividesSymbols) {
  // [V, 17, 48] to [V, -1, 4, 12] and [1, N, 64] to [0, -1, 4, 16]
  EXPECT_EQ(infer(reshape, {{V, 17, 48}, {4}}, {{1, {V, -1, 4, 12}}}),
            (SymbolicShape{V, 17, 4, 12}));
  EXPECT_EQ(infer(reshape, {{1, N, 64}, {4}}, {{1, {0, -1, 4, 16}}}), (SymbolicShape{1, N, 4, 16}));
  // N * N / N: a product that is not affine itself
  EXPECT_EQ(infer(reshape, {{N, N, 2}, {4}}, {{1, {1, N, -1, 2}}}), (SymbolicShape{1, N, N, 2}));
  EXPECT_FALSE(infer(reshape, {{V, 17, 48}, {4}}, {{1, {N, -1, 4, 12}}}));
  EXPECT_NE(messages[0].find("cannot divide [V, 17, 48] by [N, 4, 12]"), std::string::npos);
  EXPECT_FALSE(infer(reshape, {{V, 17, 48}, {4}}));
  EXPECT_NE(messages[0].find("depends on data"), std::string::npos);
}

const char *slice = R"(func.func @f(%x: tensor<?xf32>, %b: tensor<1xi64>) {
  %y = omnibal.slice %x, %b, %b, %b, %b {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}
    : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return })";

TEST_F(ShapeTest, SliceBoundsOfSymbols) {
  auto run = [&](SymbolicDim size, SymbolicDim start, SymbolicDim end, int64_t step) {
    return infer(slice, {{size}, {1}, {1}, {1}, {1}},
                 {{1, {start}}, {2, {end}}, {3, {0}}, {4, {step}}});
  };
  constexpr int64_t open = INT64_MAX;
  EXPECT_EQ(run(N, 0, open, 1), SymbolicShape{N});
  EXPECT_EQ(run(N, 1, open, 1), SymbolicShape{N - 1});
  EXPECT_EQ(run(N, 0, -1, 1), SymbolicShape{N - 1});
  EXPECT_EQ(run(N, -1, open, 1), SymbolicShape{1});
  EXPECT_EQ(run(2048, 0, N, 1), SymbolicShape{N}); // a table cut to the sequence
  EXPECT_EQ(run(SymbolicDim(0, 17), 0, V, 1), SymbolicShape{V});
  EXPECT_EQ(run(SymbolicDim(0, 4), 0, open, 2), SymbolicShape{SymbolicDim(0, 2)});
  EXPECT_EQ(run(10, 9, -open, -3), SymbolicShape{4});
  EXPECT_EQ(run(N, -1, -open, -1), SymbolicShape{N});
  EXPECT_FALSE(run(N, 0, 5, 1)); // min(N, 5) is not affine
  EXPECT_NE(messages[0].find("for some micro-batches only"), std::string::npos);
  EXPECT_FALSE(run(N, 0, open, 2));
  EXPECT_NE(messages[0].find("not affine"), std::string::npos);
}

TEST_F(ShapeTest, RangeOfSymbols) {
  const char *range = R"(func.func @f(%x: tensor<i64>) {
    %y = omnibal.range %x, %x, %x : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
    return })";
  EXPECT_EQ(infer(range, {{}, {}, {}}, {{0, {0}}, {1, {N}}, {2, {1}}}), SymbolicShape{N});
  EXPECT_EQ(infer(range, {{}, {}, {}}, {{0, {7}}, {1, {0}}, {2, {-2}}}), SymbolicShape{4});
  EXPECT_EQ(infer(range, {{}, {}, {}}, {{0, {3}}, {1, {3}}, {2, {1}}}), SymbolicShape{0});
  EXPECT_FALSE(infer(range, {{}, {}, {}}, {{0, {0}}, {1, {N}}, {2, {3}}})); // range_c4
}

TEST_F(ShapeTest, TileBySymbols) {
  const char *tile = R"(func.func @f(%x: tensor<?xf32>, %r: tensor<1xi64>) {
    %y = omnibal.tile %x, %r : (tensor<?xf32>, tensor<1xi64>) -> tensor<?xf32>
    return })";
  EXPECT_EQ(infer(tile, {{3}, {1}}, {{1, {V}}}), SymbolicShape{SymbolicDim(0, 3)});
  EXPECT_FALSE(infer(tile, {{N}, {1}}, {{1, {V}}})); // tile_c2
  EXPECT_NE(messages[0].find("not affine"), std::string::npos);
}

TEST_F(ShapeTest, BuildersInferTypes) {
  OpBuilder builder(&context);
  Block block;
  builder.setInsertionPointToEnd(&block);
  Type f32 = builder.getF32Type();
  Location loc = builder.getUnknownLoc();
  Value x = block.addArgument(makeTensorType(&context, {V, 17, 8}, f32), loc);
  Value w = block.addArgument(makeTensorType(&context, {6, 8}, f32), loc);
  auto y = createOp<LinearOp>(builder, loc, x, w, Value(), false);
  EXPECT_EQ(y.getType(), makeTensorType(&context, {V, 17, 6}, f32));
  auto less = createOp<CompareOp>(builder, loc, y, y, ComparePredicate::LT);
  EXPECT_EQ(less.getType(), makeTensorType(&context, {V, 17, 6}, builder.getI1Type()));
  block.clear();
}

TEST_F(ShapeTest, Arithmetic) {
  EXPECT_EQ(multiply(V + 1, 3), SymbolicDim(3, 3));
  EXPECT_FALSE(multiply(V, N));
  EXPECT_EQ(divideExactly(SymbolicDim(6, 4), 2), SymbolicDim(3, 2));
  EXPECT_FALSE(divideExactly(SymbolicDim(5, 4), 2));
  EXPECT_EQ(divideExactly(SymbolicDim(2, 0, 4), SymbolicDim(1, 0, 2)), SymbolicDim(2));
  EXPECT_EQ(toString(SymbolicDim(-1, 0, 2)), "2*N + -1");
  auto type = makeTensorType(&context, {V, 3, N + 1}, Float32Type::get(&context));
  EXPECT_EQ(getSymbolicShape(type), (SymbolicShape{V, 3, N + 1}));
  EXPECT_FALSE(makeTensorType(&context, {2, 3}, Float32Type::get(&context)).getEncoding());
}

} // namespace
