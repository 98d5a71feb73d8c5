//===- AddEmbeddingNoise.cpp - Noise on embedded words in training
//------------------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/layers/Passes.h"
#include "passes/layers/RandomValues.h"
#include <cmath>

namespace omnibal {
#define GEN_PASS_DEF_ADDEMBEDDINGNOISE
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {

bool embedsWords(EmbeddingOp embedding) {
  Value ids = embedding.getIds();
  while (Operation *op = ids.getDefiningOp()) {
    if (auto batch = dyn_cast<BatchValueOp>(op))
      return batch.getName() == "input_ids";
    if (!isa<ReshapeOp, SqueezeOp, UnsqueezeOp, CastOp>(op))
      return false;
    ids = op->getOperand(0);
  }
  return false;
}

struct AddEmbeddingNoisePass : omnibal::impl::AddEmbeddingNoiseBase<AddEmbeddingNoisePass> {
  using AddEmbeddingNoiseBase::AddEmbeddingNoiseBase;

  void runOnOperation() override {
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), getArgument());
    if (failed(graph))
      return signalPassFailure();
    if (!std::isfinite(alpha) || alpha <= 0) {
      getOperation().emitError() << getArgument() << ": alpha must be a number above 0";
      return signalPassFailure();
    }
    SmallVector<EmbeddingOp> found;
    for (LayerOp layer : graph->layers)
      for (auto embedding : layer.getBody().front().getOps<EmbeddingOp>())
        if (embedsWords(embedding))
          found.push_back(embedding);
    if (failed(checkFound(found)) || failed(layers::RandomDraws::check(found.front().getResult())))
      return signalPassFailure();
    addNoise(found.front());
  }

  LogicalResult checkFound(ArrayRef<EmbeddingOp> found) {
    if (found.empty())
      return getOperation().emitError() << getArgument() << ": no layer embeds input_ids";
    if (found.size() == 1)
      return success();
    InFlightDiagnostic error = EmbeddingOp(found[0]).emitOpError()
                               << "is one of " << found.size() << " embeddings of input_ids; "
                               << getArgument() << " needs exactly one";
    error.attachNote(EmbeddingOp(found[1]).getLoc()) << "another one is here";
    return error;
  }

  void addNoise(EmbeddingOp embedding) {
    OpBuilder builder(embedding->getContext());
    builder.setInsertionPointAfter(embedding);
    layers::RandomDraws draws(embedding->getParentOfType<LayerOp>());
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : embedding.getResult().getUses())
      uses.push_back(&use);
    Value noisy = draws.addNoise(builder, embedding.getResult(), alpha);
    for (OpOperand *use : uses)
      use->set(noisy);
  }
};
} // namespace
