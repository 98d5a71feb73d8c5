//===- CostTest.cpp - Costs against counts by hand ---------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace omnibal;

namespace {

class CostTest : public ::testing::Test {
protected:
  CostTest() { context.loadDialect<OmnibalDialect, func::FuncDialect>(); }

  /// Cost of the op in "(arguments) op : (types) -> result".
  OpCost costOf(const std::string &arguments, const std::string &op) {
    std::string text = R"(
      #N = affine_map<(d0, d1) -> (d1)>
      #V17x8 = affine_map<(d0, d1) -> (d0, 17, 8)>
      #V17x6 = affine_map<(d0, d1) -> (d0, 17, 6)>
      #N8 = affine_map<(d0, d1) -> (d1, 8)>
      #qN = affine_map<(d0, d1) -> (1, 4, d1, 16)>
      #kN = affine_map<(d0, d1) -> (1, 2, d1, 16)>
      #vN = affine_map<(d0, d1) -> (1, 2, d1, 8)>
      #oN = affine_map<(d0, d1) -> (1, 4, d1, 8)>
      #lN = affine_map<(d0, d1) -> (1, 4, d1)>
      #kV = affine_map<(d0, d1) -> (1, 2, d0 * 3, 16)>
      #vV = affine_map<(d0, d1) -> (1, 2, d0 * 3, 8)>
      #qV = affine_map<(d0, d1) -> (d0, 4, 17, 16)>
      #lV = affine_map<(d0, d1) -> (d0, 4, 17)>
      func.func @main()" +
                       arguments + ") {\n  " + op + "\n  return\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << op;
    auto function = module->lookupSymbol<func::FuncOp>("main");
    auto interface = cast<CostOpInterface>(function.getBody().front().front());
    cheap = cast<RematerializableOpInterface>(interface.getOperation()).isCheapToRecompute();
    return interface.getCost();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  bool cheap = false;
};

TEST_F(CostTest, Linear) {
  OpCost cost = costOf("%x: tensor<?x17x8xf32, #V17x8>, %w: tensor<6x8xf32>, %b: tensor<6xf32>",
                       "%y = omnibal.linear %x, %w, %b : (tensor<?x17x8xf32, #V17x8>, "
                       "tensor<6x8xf32>, tensor<6xf32>) -> tensor<?x17x6xf32, #V17x6>");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 2 * 17 * 8 * 6)); // V rows of 17, two a multiply-add
  // weight and bias once; input and output a tile
  EXPECT_EQ(cost.bytes, SymbolicDim(4 * (48 + 6), 4 * (17 * 8 + 17 * 6)));
  EXPECT_TRUE(cost.isMatrixProduct);
  EXPECT_FALSE(cheap);
}

TEST_F(CostTest, RowSquares) {
  OpCost cost = costOf("%w: tensor<6x8xf32>, %a: tensor<3x8xf32>, %b: tensor<6x3xf32>",
                       "%y = omnibal.row_squares %w, %a, %b {scale = 2.0 : f64} : "
                       "(tensor<6x8xf32>, tensor<3x8xf32>, tensor<6x3xf32>) -> tensor<6xf32>");
  // A product of depth 3; then each of 6 x 8 elements is added to one of the weight and squared.
  EXPECT_EQ(cost.flops, SymbolicDim(2 * 6 * 8 * 3 + 2 * 6 * 8));
  EXPECT_EQ(cost.bytes, SymbolicDim(4 * (6 * 8 + 3 * 8 + 6 * 3 + 6)));
  EXPECT_FALSE(cheap);
}

TEST_F(CostTest, WordsThatPartsShare) {
  OpCost cost = costOf("%h: tensor<?x8xf32, #N8>, %w: tensor<6x8xf32>, %t: tensor<?xi32, #N>",
                       "%s, %p = omnibal.word_statistics %h, %w, %t {first = 0 : i64, words = 9 : "
                       "i64} : (tensor<?x8xf32, #N8>, tensor<6x8xf32>, tensor<?xi32, #N>) -> "
                       "(tensor<1x?x3xf32, affine_map<(d0, d1) -> (1, d1, 3)>>, tensor<1x?xi32, "
                       "affine_map<(d0, d1) -> (1, d1)>>)");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 0, 2 * 8 * 6));
  EXPECT_TRUE(cost.isMatrixProduct);
  EXPECT_FALSE(cheap);
  const std::string joined =
      "%h: tensor<?x8xf32, #N8>, %w: tensor<6x8xf32>, %t: tensor<?xi32, #N>, %s: "
      "tensor<2x?x3xf32, affine_map<(d0, d1) -> (2, d1, 3)>>";
  const std::string types = "tensor<?x8xf32, #N8>, tensor<6x8xf32>, tensor<?xi32, #N>, "
                            "tensor<2x?x3xf32, affine_map<(d0, d1) -> (2, d1, 3)>>";
  cost = costOf(joined, "%l = omnibal.joined_cross_entropy %h, %w, %t, %s {first = 0 : i64, words "
                        "= 9 : i64} : (" +
                            types + ") -> tensor<?xf32, #N>");
  // Statistics of two parts and a target are read, and a loss is written.
  EXPECT_EQ(cost.bytes, SymbolicDim(0, 0, 4 * (2 * 3 + 1 + 1)));
  EXPECT_TRUE(cheap);
  cost = costOf(joined, "%d:2 = omnibal.joined_cross_entropy_grad %h, %w, %t, %s {first = 0 : i64, "
                        "words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>} : (" +
                            types + ") -> (tensor<?x8xf32, #N8>, tensor<6x8xf32>)");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 0, 6 * 8 * 6)); // logits again, and two gradients
  EXPECT_FALSE(cheap);
}

TEST_F(CostTest, MatMulOfTransposes) {
  OpCost cost = costOf("%a: tensor<3x5x4xf32>, %b: tensor<7x5xf32>",
                       "%y = omnibal.matmul %a, %b {transpose_lhs, transpose_rhs} : "
                       "(tensor<3x5x4xf32>, tensor<7x5xf32>) -> tensor<3x4x7xf32>");
  EXPECT_EQ(cost.flops, SymbolicDim(2 * 3 * 4 * 7 * 5));
  EXPECT_EQ(cost.bytes, SymbolicDim(4 * (60 + 35 + 84)));
}

TEST_F(CostTest, WeightGradient) {
  OpCost cost = costOf("%x: tensor<?x17x8xf32, #V17x8>, %g: tensor<?x17x6xf32, #V17x6>",
                       "%y = omnibal.linear_weight_grad %x, %g : (tensor<?x17x8xf32, #V17x8>, "
                       "tensor<?x17x6xf32, #V17x6>) -> tensor<6x8xf32>");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 2 * 17 * 8 * 6));
}

TEST_F(CostTest, ARowOfExpertsCountsOncePerChoice) {
  OpCost cost = costOf("%x: tensor<?x8xf32, #N8>, %w: tensor<64x6x8xf32>, %o: tensor<?xi32, #N>, "
                       "%b: tensor<65xi32>",
                       "%y = omnibal.grouped_linear %x, %w, %o, %b : (tensor<?x8xf32, #N8>, "
                       "tensor<64x6x8xf32>, tensor<?xi32, #N>, tensor<65xi32>) -> "
                       "tensor<?x6xf32, affine_map<(d0, d1) -> (d1, 6)>>");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 0, 2 * 8 * 6)); // not 64 times as many
  EXPECT_TRUE(cost.isMatrixProduct);
}

TEST_F(CostTest, CausalAttentionOfTokensIsQuadraticInSamples) {
  OpCost cost = costOf(
      "%q: tensor<1x4x?x16xf32, #qN>, %k: tensor<1x2x?x16xf32, #kN>, %v: tensor<1x2x?x8xf32, #vN>",
      "%o:2 = omnibal.attention %q, %k, %v {scale = 0.25 : f64, mask_kind = 2 : i32, "
      "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x?x16xf32, #qN>, "
      "tensor<1x2x?x16xf32, #kN>, tensor<1x2x?x8xf32, #vN>) -> (tensor<1x4x?x8xf32, #oN>, "
      "tensor<1x4x?xf32, #lN>)");
  EXPECT_EQ(cost.flops, SymbolicDim(0));
  EXPECT_EQ(cost.flopsPerSquaredToken, 4 * (2 * 16 + 2 * 8) / 2); // half of the pairs, 4 heads
  EXPECT_EQ(cost.bytes, SymbolicDim(0, 0, 4 * (64 + 32 + 16 + 32 + 4)));
  EXPECT_FALSE(cheap);
}

TEST_F(CostTest, AttentionOfTilesIsAffine) {
  OpCost cost = costOf(
      "%q: tensor<?x4x17x16xf32, #qV>",
      "%o:2 = omnibal.attention %q, %q, %q {scale = 0.25 : f64, mask_kind = 1 : i32, "
      "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<?x4x17x16xf32, #qV>, "
      "tensor<?x4x17x16xf32, #qV>, tensor<?x4x17x16xf32, #qV>) -> (tensor<?x4x17x16xf32, #qV>, "
      "tensor<?x4x17xf32, #lV>)");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 4 * 17 * 17 * (2 * 16 + 2 * 16)));
  EXPECT_EQ(cost.flopsPerSquaredToken, 0);
}

TEST_F(CostTest, AttentionToPicturesCountsOneForEachToken) {
  OpCost cost =
      costOf("%q: tensor<1x4x?x16xf32, #qN>, %k: tensor<1x2x?x16xf32, #kV>, "
             "%v: tensor<1x2x?x8xf32, #vV>, %b: tensor<?xi32, #N>",
             "%o:2 = omnibal.cross_attention %q, %k, %v, %b, %b {scale = 0.25 : f64, rows = 3 : "
             "i64} : (tensor<1x4x?x16xf32, #qN>, tensor<1x2x?x16xf32, #kV>, tensor<1x2x?x8xf32, "
             "#vV>, tensor<?xi32, #N>, tensor<?xi32, #N>) -> (tensor<1x4x?x8xf32, #oN>, "
             "tensor<1x4x?xf32, #lN>)");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 0, 4 * 3 * (2 * 16 + 2 * 8)));
  // queries, results, statistics and the two numbers of each token; keys and values of each picture
  EXPECT_EQ(cost.bytes, SymbolicDim(0, 4 * 3 * (32 + 16), 4 * (64 + 32 + 4 + 1 + 1)));
  EXPECT_TRUE(cost.isMatrixProduct);
  EXPECT_FALSE(cheap);
}

TEST_F(CostTest, Convolution) {
  OpCost cost = costOf("%x: tensor<2x3x8x8xf32>, %w: tensor<5x3x4x4xf32>",
                       "%y = omnibal.conv %x, %w {strides = array<i64: 4, 4>, pads = array<i64: 0, "
                       "0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : "
                       "(tensor<2x3x8x8xf32>, tensor<5x3x4x4xf32>) -> tensor<2x5x2x2xf32>");
  EXPECT_EQ(cost.flops, SymbolicDim(2 * (2 * 5 * 2 * 2) * (3 * 4 * 4)));
}

TEST_F(CostTest, LossHead) {
  OpCost cost = costOf("%h: tensor<?x8xf32, #N8>, %w: tensor<100x8xf32>, %t: tensor<?xi32, #N>",
                       "%l:3 = omnibal.linear_cross_entropy_grad %h, %w, %t {operandSegmentSizes = "
                       "array<i32: 1, 1, 0, 1, 0>} : "
                       "(tensor<?x8xf32, #N8>, tensor<100x8xf32>, tensor<?xi32, #N>) -> "
                       "(tensor<?xf32, #N>, tensor<?x8xf32, #N8>, tensor<100x8xf32>)");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 0, 3 * 2 * 8 * 100)); // logits, dhidden, dweight
}

TEST_F(CostTest, ElementwiseAndViews) {
  OpCost add = costOf("%x: tensor<?x8xf32, #N8>, %b: tensor<8xf32>",
                      "%y = omnibal.add %x, %b : (tensor<?x8xf32, #N8>, tensor<8xf32>) -> "
                      "tensor<?x8xf32, #N8>");
  EXPECT_EQ(add.flops, SymbolicDim(0, 0, 8));
  EXPECT_EQ(add.bytes, SymbolicDim(32, 0, 64));
  EXPECT_TRUE(cheap);
  OpCost exp =
      costOf("%x: tensor<3xf32>", "%y = omnibal.exp %x : (tensor<3xf32>) -> tensor<3xf32>");
  EXPECT_EQ(exp.flops, SymbolicDim(24));
  OpCost compare =
      costOf("%x: tensor<3xf32>", "%y = omnibal.compare %x, %x {predicate = 1 : i32} : "
                                  "(tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>");
  EXPECT_EQ(compare.bytes, SymbolicDim(12 + 12 + 3)); // a boolean is a byte
  OpCost view =
      costOf("%x: tensor<3xf32>", "%y = omnibal.reshape %x : (tensor<3xf32>) -> tensor<3x1xf32>");
  EXPECT_EQ(view.flops, SymbolicDim(0));
  EXPECT_EQ(view.bytes, SymbolicDim(0));
  EXPECT_TRUE(cheap);
}

TEST_F(CostTest, IndexingCountsRowsThatAreTouched) {
  OpCost cost = costOf("%t: tensor<1000x8xf32>, %i: tensor<?xi32, #N>",
                       "%y = omnibal.embedding %t, %i : (tensor<1000x8xf32>, tensor<?xi32, #N>) -> "
                       "tensor<?x8xf32, #N8>");
  EXPECT_EQ(cost.bytes, SymbolicDim(0, 0, 2 * 32 + 4)); // not the table
}

TEST_F(CostTest, Norms) {
  OpCost cost = costOf("%x: tensor<?x8xf32, #N8>, %s: tensor<8xf32>",
                       "%y = omnibal.rms_norm %x, %s {axis = -1 : i64, epsilon = 1.0e-6 : f64} : "
                       "(tensor<?x8xf32, #N8>, tensor<8xf32>) -> tensor<?x8xf32, #N8>");
  EXPECT_EQ(cost.flops, SymbolicDim(0, 0, 4 * 8));
  EXPECT_EQ(cost.bytes, SymbolicDim(32, 0, 64));
  EXPECT_TRUE(cheap);
}

} // namespace
