//===- FitMemory.cpp - omnibal-fit-memory ---------------------------------------------------===//
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/driver/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_FITMEMORY
#include "passes/driver/Passes.h.inc"

namespace {

struct FitMemory : impl::FitMemoryBase<FitMemory> {
  using FitMemoryBase::FitMemoryBase;
  FitMemory(const FitMemoryOptions &options, llvm::function_ref<void(OpPassManager &)> populate)
      : FitMemoryBase(options) {
    populate(round);
    // So that the pass prints as text that gives it again.
    llvm::raw_string_ostream text(pipelineText.getValue());
    round.printAsTextualPipeline(text);
  }

  LogicalResult
  initializeOptions(StringRef options,
                    function_ref<LogicalResult(const Twine &)> errorHandler) override {
    if (failed(FitMemoryBase::initializeOptions(options, errorHandler)))
      return failure();
    FailureOr<OpPassManager> parsed = parsePassPipeline(pipelineText);
    if (failed(parsed))
      return errorHandler("omnibal-fit-memory: the passes of a round cannot be read");
    round = std::move(*parsed);
    return success();
  }

  void getDependentDialects(DialectRegistry &registry) const override {
    FitMemoryBase::getDependentDialects(registry);
    round.getDependentDialects(registry);
  }

  void runOnOperation() override {
    if (failed(fit()))
      signalPassFailure();
  }

private:
  LogicalResult fit() {
    ModuleOp module = getOperation();
    auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!cluster)
      return module.emitError("omnibal-fit-memory: the module has no omnibal.cluster");
    limits.clear();
    if (DenseI64ArrayAttr memory = cluster.getMemory())
      limits.assign(memory.asArrayRef().begin(), memory.asArrayRef().end());
    if (limits.size() == 1)
      limits.resize(cluster.getStages(), limits.front());
    if (limits.empty())
      return runPipeline(round, module);
    SmallVector<int64_t> room(limits.size(), headroom);
    OwningOpRef<ModuleOp> before(maxRounds > 1 ? module.clone() : ModuleOp());
    for (int64_t number = 1;; ++number) {
      module->setAttr(plan::headroomAttrName, Builder(&getContext()).getDenseI64ArrayAttr(room));
      if (failed(runPipeline(round, module)))
        return failure();
      FailureOr<bool> fits = makeRoom(room, /*last=*/number >= maxRounds);
      if (failed(fits) || *fits)
        return failure(failed(fits));
      OwningOpRef<ModuleOp> copy(before->clone());
      module.getBodyRegion().takeBody(copy->getBodyRegion());
      module->setAttrs(before->getOperation()->getAttrDictionary());
    }
  }

  /// Whether the program fits; where it does not, what stages lack goes into `room`.
  FailureOr<bool> makeRoom(MutableArrayRef<int64_t> room, bool last) {
    ModuleOp module = getOperation();
    auto arena = module->getAttrOfType<DenseI64ArrayAttr>(plan::arenaAttrName);
    auto workspace = module->getAttrOfType<DenseI64ArrayAttr>(plan::workspaceAttrName);
    if (!arena || !workspace || arena.size() != static_cast<int64_t>(limits.size()) ||
        workspace.size() != arena.size())
      return module.emitError("omnibal-fit-memory: a round must end with omnibal-lay-out-program"),
             failure();
    bool fits = true;
    for (size_t stage = 0; stage < limits.size(); ++stage) {
      const int64_t beside = workspace[stage], need = arena[stage] + beside;
      const int64_t over = need - limits[stage];
      if (over <= 0)
        continue;
      if (last)
        return module.emitError("infeasible: stage ")
                   << stage << " needs " << need << " bytes"
                   << (beside ? " (" + std::to_string(beside) + " of them beside its arena)" : "")
                   << ", " << over
                   << " more than its limit; use more stages, --remat auto or a larger limit",
               failure();
      fits = false;
      room[stage] = room[stage] < beside ? beside : room[stage] + over;
    }
    return fits;
  }

  OpPassManager round{ModuleOp::getOperationName()};
  SmallVector<int64_t> limits; ///< by stage; empty: none
};

} // namespace

std::unique_ptr<Pass> createFitMemory(const FitMemoryOptions &options,
                                      llvm::function_ref<void(OpPassManager &)> populate) {
  return std::make_unique<FitMemory>(options, populate);
}

} // namespace omnibal
