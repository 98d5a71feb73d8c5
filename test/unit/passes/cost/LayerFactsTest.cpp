//===- LayerFactsTest.cpp - Work and bytes of whole layers against counts by hand ----------===//
//
// The model of test/lit/Inputs/form-l.mlir. A vision block sees V tiles of 4 patches, width
// 8, two heads of 4, an MLP of 16. A language block sees N tokens, width 8, two heads of 4 that
// share one key head, an MLP of 12, causal attention over samples whose squared lengths sum to S.
//
//===----------------------------------------------------------------------------------------===//
#include "passes/cost/LayerFacts.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/differentiate/Passes.h"
#include "passes/layers/Passes.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::analysis;
using namespace omnibal::cost;

namespace {

class Facts : public testing::Test {
protected:
  /// Facts of the first layer whose name is `name`, at the load.
  LayerFacts of(const std::string &name, MicrobatchLoad load, const std::string &remat = "keep",
                std::vector<std::string> freeze = {}, int64_t floatBytes = 4) {
    DialectRegistry registry;
    registry.insert<OmnibalDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    auto module =
        parseSourceFile<ModuleOp>(OMNIBAL_TEST_DATA "/../lit/Inputs/form-l.mlir", &context);
    EXPECT_TRUE(module);
    module->walk([&](LayerOp layer) {
      if (layer.getName() == name)
        layer->setAttr("omnibal.remat", StringAttr::get(&context, remat));
    });
    PassManager passes(&context);
    if (!freeze.empty()) {
      FreezeOptions options;
      options.components.assign(freeze.begin(), freeze.end());
      passes.addPass(createFreeze(options));
    }
    passes.addPass(createAttachLoss());
    passes.addPass(createMaterializeLayers());
    EXPECT_TRUE(succeeded(passes.run(*module)));
    auto graph = readCallGraph(*module);
    EXPECT_TRUE(succeeded(graph));
    auto facts = readLayerFacts(*module, *graph, load, floatBytes);
    for (auto [i, call] : llvm::enumerate(graph->calls))
      if (call.name == name)
        return facts[i];
    ADD_FAILURE() << "no layer " << name;
    return {};
  }

  MLIRContext context;
};

constexpr const char *vision = "vision.layers.1", *language = "language.layers.0";

// A tile: qkv 2*4*8*24, attention 2 heads * 4 * 4 pairs * (2*4 + 2*4), out 2*4*8*8, fc1 and fc2
// 2*4*8*16 each.
constexpr int64_t visionLinear = 1536 + 512 + 1024 + 1024, visionAttention = 512;
// A token: q and o 2*8*8, k and v 2*8*4, gate, up and down 2*8*12. A squared token: half of the
// pairs of two heads, (2*4 + 2*4) each.
constexpr int64_t languageLinear = 2 * 128 + 2 * 64 + 3 * 192, languageAttention = 2 * 16 / 2;

TEST_F(Facts, ForwardOfABlockIsAffineInTiles) {
  for (int64_t tiles : {1, 7, 1000}) {
    LayerFacts facts = of(vision, {tiles, 10});
    EXPECT_EQ(facts.forward.matrixFlops, tiles * (visionLinear + visionAttention));
    // Elements of a tile that are read and written besides: layer norm 32 + 32; three slices and
    // four transposes 2*32 each; scale 32 + 32; two sums 3*32 each; RMS norm 32 + 32; GELU 64 + 64.
    int64_t elements = 64 + 7 * 64 + 64 + 2 * 96 + 64 + 128;
    // And once: scale and bias of the layer norm, the scale, the RMS norm's scale, 8 each.
    EXPECT_EQ(facts.forward.bytes, 4 * (tiles * elements + 4 * 8));
  }
}

TEST_F(Facts, ForwardOfABlockIsAffineInTokensAndSquares) {
  for (MicrobatchLoad load : {MicrobatchLoad{0, 1, 1}, MicrobatchLoad{3, 100, 100},
                              MicrobatchLoad{3, 100, 2500}, MicrobatchLoad{3, 4096}}) {
    LayerFacts facts = of(language, load);
    EXPECT_EQ(facts.forward.matrixFlops,
              load.tokens * languageLinear + load.squares() * languageAttention);
  }
}

TEST_F(Facts, BackwardIsTwiceForwardAndFrozenPartsCostWhatTheyCost) {
  MicrobatchLoad load{5, 100, 2500};
  // Each product has two gradients; attention's scores again, dq, dk, dp, dv: five products of
  // 2*4 for the forward's two.
  LayerFacts trains = of(language, load);
  int64_t inputs = 100 * languageLinear + 2500 * languageAttention * 5 / 2;
  EXPECT_EQ(trains.inputGrad.matrixFlops, inputs);
  EXPECT_EQ(trains.weightGrad.matrixFlops, 100 * languageLinear);
  // Frozen, but with something that trains upstream: no products for weights.
  LayerFacts frozen = of(language, load, "keep", {"language"});
  EXPECT_EQ(frozen.forward.matrixFlops, trains.forward.matrixFlops);
  EXPECT_EQ(frozen.inputGrad.matrixFlops, inputs);
  EXPECT_EQ(frozen.weightGrad.matrixFlops, 0);
  // Frozen with nothing that trains upstream: nothing, and nothing is saved.
  LayerFacts still = of(vision, load, "keep", {"vision"});
  EXPECT_EQ(still.forward.matrixFlops, 5 * (visionLinear + visionAttention));
  EXPECT_EQ(still.inputGrad.matrixFlops + still.weightGrad.matrixFlops, 0);
  EXPECT_EQ(still.inputGrad.bytes + still.weightGrad.bytes, 0);
  EXPECT_EQ(still.savedBytes, 0);
}

TEST_F(Facts, WhatIsSavedAndWhatThatCosts) {
  MicrobatchLoad load{2, 16};
  // Elements a token: the layer's input 8, rotated q 8 and k 4, v 4, attention's output 8 and its
  // log-sum-exp 2, the residual stream 8, gate and up 12 each.
  struct {
    const char *remat;
    int64_t elements, linear, attention; ///< linear: FLOPs a token that backward runs again
  } options[] = {
      {"keep", 8 + 16 + 10 + 8 + 24, 0, 0},
      {"selective-1", 8 + 16 + 10 + 8, 2 * 192, 0},           // gate and up again
      {"selective-2", 8 + 10 + 8, 2 * 192 + 128 + 2 * 64, 0}, // q, k and v as well
      {"selective-3", 8 + 10, 2 * 192 + 2 * 128 + 2 * 64, 0}, // and the output's product
      {"full", 8, 2 * 192 + 2 * 128 + 2 * 64, 1},             // all but the last product
  };
  int64_t backward = 2 * 16 * languageLinear + 256 * languageAttention * 5 / 2;
  for (const auto &option : options) {
    LayerFacts facts = of(language, load, option.remat);
    EXPECT_EQ(facts.savedBytes, 4 * 16 * option.elements) << option.remat;
    EXPECT_EQ(facts.inputGrad.matrixFlops + facts.weightGrad.matrixFlops,
              backward + 16 * option.linear + 256 * languageAttention * option.attention)
        << option.remat;
    // In bfloat16 the log-sum-exp, 2 a token, stays in float32.
    int64_t wide = option.attention ? 0 : 2;
    EXPECT_EQ(of(language, load, option.remat, {}, 2).savedBytes,
              16 * (2 * option.elements + 2 * wide));
  }
}

} // namespace
