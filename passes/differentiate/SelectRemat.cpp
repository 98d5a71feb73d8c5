//===- SelectRemat.cpp - One choice for all layers ---------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/differentiate/Passes.h"

namespace omnibal {
#define GEN_PASS_DEF_SELECTREMAT
#include "passes/differentiate/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {
struct SelectRematPass : omnibal::impl::SelectRematBase<SelectRematPass> {
  using SelectRematBase::SelectRematBase;

  void runOnOperation() override {
    if (!isRematName(choice)) {
      getOperation().emitError()
          << "omnibal-select-remat: choice is '" << choice
          << "'; known are 'keep', 'selective-1', 'selective-2' .. and 'full'";
      return signalPassFailure();
    }
    auto attribute = StringAttr::get(&getContext(), choice);
    getOperation().walk([&](LayerOp layer) {
      if (!layer->hasAttr("omnibal.remat"))
        layer->setAttr("omnibal.remat", attribute);
      return WalkResult::skip();
    });
  }
};
} // namespace
