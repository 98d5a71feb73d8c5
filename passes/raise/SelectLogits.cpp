//===- SelectLogits.cpp - omnibal-select-logits ------------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SELECTLOGITSPASS
#include "passes/raise/Passes.h.inc"

namespace {

/// Number of the result with the logits; none if no result has their shape.
std::optional<unsigned> findLogits(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  std::optional<unsigned> best;
  size_t bestOps = 0;
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    SymbolicShape shape = raise::shapeOf(terminator->getOperand(i));
    if (shape.size() != 3 || !shape[0].isOne() || shape[1] != SymbolicDim::tokens() ||
        !shape[2].isStatic() ||
        !isa<FloatType>(raise::typeOf(terminator->getOperand(i)).getElementType()))
      continue;
    auto name = function.getResultAttrOfType<StringAttr>(i, "omnibal.output");
    if (name && name.getValue() == "logits")
      return i;
    size_t ops = raise::backwardOps(terminator->getOperand(i)).size();
    if (ops > bestOps) {
      best = i;
      bestOps = ops;
    }
  }
  return best;
}

struct SelectLogitsPass : impl::SelectLogitsPassBase<SelectLogitsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      std::optional<unsigned> logits = findLogits(function);
      if (!logits) {
        function.emitError() << "no graph output is a tensor of logits [1, N, W] over all tokens; "
                             << "export the logits of all tokens with a dynamic sequence length";
        return signalPassFailure();
      }
      llvm::BitVector others(function.getNumResults(), true);
      others.reset(*logits);
      Operation *terminator = function.getBody().front().getTerminator();
      Value value = terminator->getOperand(*logits);
      if (others.any() && failed(function.eraseResults(others)))
        return signalPassFailure();
      terminator->setOperands(value);
      eliminateDeadAndEqual(function);
    }
  }
};
} // namespace
} // namespace omnibal
