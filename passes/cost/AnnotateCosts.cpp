//===- AnnotateCosts.cpp - omnibal-annotate-costs -------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/cost/LayerCosts.h"
#include "passes/cost/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_ANNOTATECOSTS
#include "passes/cost/Passes.h.inc"

namespace {

struct AnnotateCosts : impl::AnnotateCostsBase<AnnotateCosts> {
  using AnnotateCostsBase::AnnotateCostsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    AnnotateCostsBase::getDependentDialects(registry);
    // Layers are lowered on the way.
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    if (failed(annotate()))
      signalPassFailure();
  }

private:
  LogicalResult annotate() {
    llvm::Expected<cost::Device> found = cost::findDevice(device.getValue());
    if (!found)
      return getOperation().emitError(llvm::toString(found.takeError()));
    cost::CostOptions options;
    options.device = std::move(*found);
    if (target == "cuda")
      options.precision = cost::mixedPrecision();
    else if (target != "host")
      return getOperation().emitError("omnibal-annotate-costs: unknown target `")
             << target << "` (known: host, cuda)";
    if (tiles < 0 || tokens < 1)
      return getOperation().emitError("omnibal-annotate-costs: tiles must be >= 0, tokens >= 1");
    options.load = {tiles, tokens};
    return cost::annotateCosts(getOperation(), options);
  }
};

} // namespace
} // namespace omnibal
