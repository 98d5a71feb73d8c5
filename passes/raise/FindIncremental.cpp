//===- FindIncremental.cpp - omnibal-find-incremental ----------------------------------------===//
#include "dialects/omnibal/ir/Incremental.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_FINDINCREMENTALPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// Whether attention stays within samples, and not within pictures or batch entries.
bool isOfSamples(AttentionOp attention) {
  Value borders = attention.getCuSeqlens();
  auto value = borders ? borders.getDefiningOp<BatchValueOp>() : BatchValueOp();
  return borders && (!value || value.getName() == "cu_seqlens");
}

/// Whether rows of tokens are looked up, which may be those of any token.
bool looksUpTokens(Operation *op) {
  if (auto gather = dyn_cast<GatherOp>(op))
    return isAlongTokens(gather.getInput(), gather.getAxis());
  if (auto gather = dyn_cast<GatherElementsOp>(op))
    return isAlongTokens(gather.getInput(), gather.getAxis());
  auto gather = dyn_cast<GatherNDOp>(op);
  return gather && llvm::any_of(shapeOf(gather.getInput()), isTokenDim);
}

/// Whether a token may need more of the tokens before it than what attention has of them.
bool needsMore(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getMaskKind() == MaskKind::Full && isOfSamples(attention);
  return isa<ShiftTokensOp, GatedDeltaOp, CrossAttentionOp>(op) || looksUpTokens(op);
}

} // namespace
} // namespace raise

namespace {
struct FindIncrementalPass : impl::FindIncrementalPassBase<FindIncrementalPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    const WalkResult found = module.walk([](Operation *op) {
      return raise::needsMore(op) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (found.wasInterrupted())
      module->removeAttr(incrementalAttrName);
    else
      module->setAttr(incrementalAttrName, UnitAttr::get(&getContext()));
  }
};
} // namespace
} // namespace omnibal
