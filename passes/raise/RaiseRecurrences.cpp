//===- RaiseRecurrences.cpp - omnibal-raise-recurrences -------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISERECURRENCESPASS
#include "passes/raise/Passes.h.inc"

namespace {
/// A state that passes from token to token starts again with every sample.
void separateSamples(GatedDeltaOp op) {
  SymbolicShape query = raise::shapeOf(op.getQuery());
  if (op.getCuSeqlens() || query[2] != SymbolicDim::tokens() || !query[0].isOne())
    return;
  OpBuilder builder(op);
  auto type = makeTensorType(builder.getContext(), {SymbolicDim(1) + SymbolicDim::tokens()},
                             builder.getI32Type());
  Value borders =
      BatchValueOp::create(builder, op.getLoc(), type, builder.getStringAttr("cu_seqlens"));
  op.getCuSeqlensMutable().assign(borders);
}

struct RaiseRecurrencesPass : impl::RaiseRecurrencesPassBase<RaiseRecurrencesPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      function.walk(separateSamples);
  }
};
} // namespace
} // namespace omnibal
