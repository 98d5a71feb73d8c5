//===- TilesTest.cpp - Which functions compute each tile by itself ------------------------===//
#include "dialects/omnibal/analysis/TileRows.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace omnibal;

namespace {

class TilesTest : public ::testing::Test {
protected:
  TilesTest() { context.loadDialect<OmnibalDialect, func::FuncDialect>(); }

  /// Of a function of %x (V tiles of 6 rows with 8 values), %w and %n with this body.
  bool isApart(const std::string &body) {
    std::string text = R"(
      #x = affine_map<(d0, d1) -> (d0, 6, 8)>
      #t = affine_map<(d0, d1) -> (d0, 8, 6)>
      #s = affine_map<(d0, d1) -> (6, d0, 8)>
      #r = affine_map<(d0, d1) -> (d0 * 6, 8)>
      #q = affine_map<(d0, d1) -> (d0, 2, 6, 4)>
      #l = affine_map<(d0, d1) -> (d0, 2, 6)>
      #o = affine_map<(d0, d1) -> (1, 2, d0 * 6, 4)>
      #p = affine_map<(d0, d1) -> (1, 2, d0 * 6)>
      #two = affine_map<(d0, d1) -> (d0 * 2, 6, 8)>
      #half = affine_map<(d0, d1) -> (d0, 3, 8)>
      #N = affine_map<(d0, d1) -> (d1, 8)>
      func.func @main(%x: tensor<?x6x8xf32, #x>, %w: tensor<8x8xf32>, %n: tensor<?x8xf32, #N>) {
        )" + body + "\n return\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << body;
    return module && analysis::computesTileByTile(
                         module->lookupSymbol<func::FuncOp>("main").getBody().front());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(TilesTest, RowsAndBatchesAreApart) {
  EXPECT_TRUE(isApart("%y = omnibal.linear %x, %w : (tensor<?x6x8xf32, #x>, tensor<8x8xf32>) -> "
                      "tensor<?x6x8xf32, #x>"));
  EXPECT_TRUE(isApart("%y = omnibal.gelu %x : (tensor<?x6x8xf32, #x>) -> tensor<?x6x8xf32, #x>"));
  EXPECT_TRUE(isApart("%y = omnibal.reshape %x : (tensor<?x6x8xf32, #x>) -> tensor<?x8xf32, #r>\n"
                      "%z = omnibal.softmax %y {axis = -1 : i64} : (tensor<?x8xf32, #r>) -> "
                      "tensor<?x8xf32, #r>"));
  EXPECT_TRUE(isApart("%y = omnibal.transpose %x {permutation = array<i64: 0, 2, 1>} : "
                      "(tensor<?x6x8xf32, #x>) -> tensor<?x8x6xf32, #t>"));
  EXPECT_TRUE(isApart("%y = omnibal.slice %x {begin = array<i64: 0, 3, 0>, step = array<i64: 1, 1, "
                      "1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : "
                      "(tensor<?x6x8xf32, #x>) -> tensor<?x3x8xf32, #half>"));
}

TEST_F(TilesTest, AttentionWithinTilesIsApart) {
  const std::string attributes =
      " {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: "
      "1, 1, 1, 0, 0, 0, 0>} : ";
  auto attention = [&](const std::string &q, const std::string &l) {
    const std::string type = "tensor<" + q + ">", lse = "tensor<" + l + ">";
    return "%o:2 = omnibal.attention %q, %q, %q" + attributes + "(" + type + ", " + type + ", " +
           type + ") -> (" + type + ", " + lse + ")";
  };
  EXPECT_TRUE(isApart("%q = omnibal.reshape %x : (tensor<?x6x8xf32, #x>) -> tensor<?x2x6x4xf32, "
                      "#q>\n" +
                      attention("?x2x6x4xf32, #q", "?x2x6xf32, #l")));
  // All tiles in one sequence.
  EXPECT_FALSE(isApart("%q = omnibal.reshape %x : (tensor<?x6x8xf32, #x>) -> "
                       "tensor<1x2x?x4xf32, #o>\n" +
                       attention("1x2x?x4xf32, #o", "1x2x?xf32, #p")));
}

TEST_F(TilesTest, WhatMixesTilesIsSeen) {
  EXPECT_FALSE(isApart("%y = omnibal.softmax %x {axis = 0 : i64} : (tensor<?x6x8xf32, #x>) -> "
                       "tensor<?x6x8xf32, #x>"));
  EXPECT_FALSE(isApart("%y = omnibal.softmax %x {axis = -3 : i64} : (tensor<?x6x8xf32, #x>) -> "
                       "tensor<?x6x8xf32, #x>"));
  EXPECT_FALSE(isApart("%y = omnibal.transpose %x {permutation = array<i64: 1, 0, 2>} : "
                       "(tensor<?x6x8xf32, #x>) -> tensor<6x?x8xf32, #s>"));
  EXPECT_FALSE(isApart("%y = omnibal.concat %x, %x {axis = 0 : i64} : (tensor<?x6x8xf32, #x>, "
                       "tensor<?x6x8xf32, #x>) -> tensor<?x6x8xf32, #two>"));
  EXPECT_FALSE(isApart("%y = omnibal.reduce %x {kind = 0 : i32, axes = "
                       "array<i64: 0>} : (tensor<?x6x8xf32, #x>) -> tensor<6x8xf32>"));
  EXPECT_FALSE(isApart("%y = omnibal.linear %n, %w : (tensor<?x8xf32, #N>, tensor<8x8xf32>) -> "
                       "tensor<?x8xf32, #N>"));
}

} // namespace
