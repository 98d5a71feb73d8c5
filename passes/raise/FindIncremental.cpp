//===- FindIncremental.cpp - omnibal-find-incremental ----------------------------------------===//
#include "dialects/omnibal/ir/Incremental.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "passes/raise/Passes.h"

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

/// Whether a token may need more of the tokens before it than what attention has of them.
bool needsMore(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getMaskKind() == MaskKind::Full && isOfSamples(attention);
  return isa<ShiftTokensOp, GatedDeltaOp, CrossAttentionOp>(op);
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
