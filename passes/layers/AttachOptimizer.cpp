//===- AttachOptimizer.cpp - Says how parameters are updated ------------------------------===//
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "dialects/pipeline/TrainingAttrs.h"
#include "passes/layers/LinearWeights.h"
#include "passes/layers/Passes.h"

namespace omnibal {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {
/// AdamW whose moments are codes.
constexpr llvm::StringLiteral codedAdamW = "adamw8bit";

struct AttachOptimizerPass : omnibal::impl::AttachOptimizerBase<AttachOptimizerPass> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const bool coded = StringRef(optimizer.getValue()) == codedAdamW;
    std::optional<Optimizer> kind = coded ? Optimizer::AdamW : symbolizeOptimizer(optimizer);
    if (!kind) {
      InFlightDiagnostic error = module.emitError()
                                 << "omnibal-attach-optimizer: unknown optimizer '" << optimizer
                                 << "'; known are ";
      for (uint64_t i = 0; i <= getMaxEnumValForOptimizer(); ++i)
        error << (i == 0 ? "" : ", ") << stringifyOptimizer(static_cast<Optimizer>(i));
      error << ", " << codedAdamW;
      return signalPassFailure();
    }
    FailureOr<SmallVector<ParameterOp>> matrices = findMatrices(*kind);
    if (failed(matrices))
      return signalPassFailure();
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      parameter->removeAttr(orthogonalizedAttrName);
    for (ParameterOp matrix : *matrices)
      matrix->setAttr(orthogonalizedAttrName, UnitAttr::get(&getContext()));
    // Left out where it is the usual one, so that the IR of most programs does not speak of it.
    if (*kind == Optimizer::AdamW)
      module->removeAttr(optimizerAttrName);
    else
      module->setAttr(optimizerAttrName, OptimizerAttr::get(&getContext(), *kind));
    setUnit(module, codedMomentsAttrName, coded);
    setUnit(module, averagesAttrName, ema);
  }

  static void setUnit(ModuleOp module, StringRef name, bool isThere) {
    if (isThere)
      module->setAttr(name, UnitAttr::get(module.getContext()));
    else
      module->removeAttr(name);
  }

  /// What Muon orthogonalizes. The head's weight maps to words, not from features to features.
  FailureOr<SmallVector<ParameterOp>> findMatrices(Optimizer kind) {
    SmallVector<ParameterOp> matrices;
    if (kind != Optimizer::Muon)
      return matrices;
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), "omnibal-attach-optimizer");
    if (failed(graph))
      return failure();
    for (auto &[parameter, readers] : layers::findReaders(*graph))
      if (!ParameterOp(parameter).getFrozen() && layers::areLinearsOf(readers, parameter) &&
          llvm::none_of(readers, [](Operation *reader) {
            return reader->getParentOfType<LayerOp>().getKind() == LayerKind::Head;
          }))
        matrices.push_back(parameter);
    if (matrices.empty())
      return getOperation().emitError()
             << "omnibal-attach-optimizer: muon finds no weight of a linear layer that trains; "
                "choose another --optimizer";
    return matrices;
  }
};
} // namespace
