//===- DrawDropout.cpp - The model's own dropout in training ----------------------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/layers/Passes.h"
#include "passes/layers/RandomValues.h"

namespace omnibal {
#define GEN_PASS_DEF_DRAWDROPOUT
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {

struct DrawDropoutPass : omnibal::impl::DrawDropoutBase<DrawDropoutPass> {
  using DrawDropoutBase::DrawDropoutBase;

  void runOnOperation() override {
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), getArgument());
    if (failed(graph))
      return signalPassFailure();
    // Everything is checked before anything changes.
    for (LayerOp layer : graph->layers)
      for (auto dropout : layer.getBody().front().getOps<DropoutOp>())
        if (failed(layers::RandomDraws::check(dropout.getInput())))
          return signalPassFailure();
    for (LayerOp layer : graph->layers)
      drawIn(layer);
  }

  static void drawIn(LayerOp layer) {
    layers::RandomDraws draws(layer);
    for (auto dropout : llvm::make_early_inc_range(layer.getBody().front().getOps<DropoutOp>())) {
      OpBuilder builder(dropout);
      dropout.getResult().replaceAllUsesWith(
          draws.dropout(builder, dropout.getInput(), dropout.getRatio().convertToDouble()));
      dropout.erase();
    }
  }
};

} // namespace
