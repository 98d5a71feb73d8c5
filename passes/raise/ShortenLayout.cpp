//===- ShortenLayout.cpp - omnibal-shorten-layout ----------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/LayoutChain.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SHORTENLAYOUTPASS
#include "passes/raise/Passes.h.inc"

namespace {
struct ShortenLayoutPass : impl::ShortenLayoutPassBase<ShortenLayoutPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(function);
      // Only ends of chains: what is in the middle goes, or stays for its other users.
      raise::forEachOp(function, [&](Operation *op) {
        if (!isa<ReshapeOp, TransposeOp>(op) ||
            llvm::all_of(op->getUsers(), llvm::IsaPred<ReshapeOp, TransposeOp>))
          return;
        builder.setInsertionPoint(op);
        Value shorter = raise::shortenLayout(builder, op->getResult(0));
        if (shorter != op->getResult(0))
          op->getResult(0).replaceAllUsesWith(shorter);
      });
    }
  }
};
} // namespace
} // namespace omnibal
