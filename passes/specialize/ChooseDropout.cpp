//===- ChooseDropout.cpp - omnibal-choose-dropout ---------------------------------------------===//
#include "passes/specialize/Passes.h"
#include "passes/specialize/Specialize.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_CHOOSEDROPOUT
#include "passes/specialize/Passes.h.inc"

namespace {

/// True if nothing but moves, casts and choices lie between a softmax and what is dropped.
bool dropsProbabilities(DropoutOp dropout) {
  SmallVector<Value> open{dropout.getInput()};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (isa_and_nonnull<SoftmaxOp>(op))
      return true;
    if (isa_and_nonnull<SelectOp>(op))
      llvm::append_range(open, op->getOperands().drop_front());
    else if (isa_and_nonnull<CastOp, ReshapeOp, SqueezeOp, UnsqueezeOp, TransposeOp, ExpandOp,
                             SliceOp>(op))
      open.push_back(op->getOperand(0));
  }
  return false;
}

struct ChooseDropoutPass : impl::ChooseDropoutBase<ChooseDropoutPass> {
  using ChooseDropoutBase::ChooseDropoutBase;

  void runOnOperation() override {
    const bool isOfModel = mode == "model", isHidden = mode == "hidden";
    double ratio = 0;
    if (!isOfModel && !isHidden &&
        (StringRef(mode).getAsDouble(ratio) || !(ratio >= 0 && ratio < 1))) {
      getOperation().emitError() << getArgument() << ": mode '" << mode
                                 << "' is neither model nor hidden nor a number in [0, 1)";
      return signalPassFailure();
    }
    SmallVector<DropoutOp> found;
    getOperation().walk([&](DropoutOp dropout) { found.push_back(dropout); });
    bool isSet = false;
    for (DropoutOp dropout : found) {
      const bool isOfAttention = dropsProbabilities(dropout);
      if (isOfAttention && isOfModel) {
        refuse(dropout);
        return signalPassFailure();
      }
      if (isOfAttention || (!isOfModel && !isHidden && ratio == 0)) {
        dropout.getResult().replaceAllUsesWith(dropout.getInput());
        dropout.erase();
      } else if (!isOfModel && !isHidden) {
        dropout.setRatio(APFloat(ratio));
        isSet = true;
      }
    }
    if (ratio > 0 && !isSet) {
      getOperation().emitError() << getArgument() << ": the graph drops no hidden states, so "
                                 << "nothing has the ratio " << mode
                                 << "; set one above 0 in the model's configuration and export it "
                                    "by tools/python/export.py without --no-dropout";
      return signalPassFailure();
    }
  }

  static void refuse(DropoutOp dropout) {
    dropout.emitError() << describe(dropout) << " drops "
                        << llvm::formatv("{0:P}", dropout.getRatio().convertToDouble())
                        << " of an attention's probabilities, which is not supported; leave it "
                           "out with --dropout hidden, or set it to 0 in the model's "
                           "configuration and export again";
  }
};

} // namespace
} // namespace omnibal
