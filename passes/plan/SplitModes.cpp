//===- SplitModes.cpp - omnibal-split-modes ---------------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/Builders.h"
#include "passes/common/TrainModes.h"
#include "passes/cost/ModesFile.h"
#include "passes/plan/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SPLITMODES
#include "passes/plan/Passes.h.inc"

namespace {

struct SplitModes : impl::SplitModesBase<SplitModes> {
  using SplitModesBase::SplitModesBase;

  /// A wrong file is found before the first pass of the pipeline runs.
  LogicalResult initialize(MLIRContext *context) override {
    auto fail = [&](const std::string &message) {
      return emitError(UnknownLoc::get(context), message);
    };
    auto read = cost::readModes(batches);
    if (!read)
      return fail(read.status().message());
    if (!*read)
      return fail(batches + "/groups.json is missing; omnibal-split-modes needs a folder of "
                            "omnibal-batch --length-groups");
    described = **std::move(read);
    if (described.tokensCap() != tokens)
      return fail(described.file + ": the largest `tokens_cap` is " +
                  std::to_string(described.tokensCap()) + ", but the option tokens of " +
                  "omnibal-split-modes, for which layers were formed, is " +
                  std::to_string(tokens));
    return success();
  }

  void runOnOperation() override {
    if (failed(check()))
      return signalPassFailure();
    ModuleOp program = getOperation();
    OwningOpRef<ModuleOp> whole = program.clone();
    program.getBody()->clear();
    OpBuilder builder = OpBuilder::atBlockEnd(program.getBody());
    for (size_t number = 0; number < described.modes.size(); ++number) {
      auto mode = cast<ModuleOp>(builder.clone(**whole));
      writeMode(mode, attributeOf(number));
    }
    if (!described.cuts.empty())
      program->setAttr(givenCutsAttrName, builder.getDenseI64ArrayAttr(described.cuts));
    // It is of the cuts, too.
    if (!described.cuts.empty() && !described.model.empty())
      program->setAttr(givenModelAttrName, builder.getStringAttr(described.model));
  }

private:
  LogicalResult check() {
    ModuleOp program = getOperation();
    auto cluster = program->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!cluster)
      return program.emitError("omnibal-split-modes: the module has no omnibal.cluster; run "
                               "omnibal-attach-cluster before");
    auto fail = [&](const llvm::Twine &message) {
      return emitError(UnknownLoc::get(&getContext()), described.file + ": " + message);
    };
    if (described.stages != cluster.getStages())
      return fail("`stages` is " + llvm::Twine(described.stages) + ", but the program has " +
                  llvm::Twine(cluster.getStages()) + "; compile with --stages " +
                  llvm::Twine(described.stages) + " or run omnibal-batch with other length groups");
    if (described.replicas != cluster.getDataParallel())
      return fail("`replicas` is " + llvm::Twine(described.replicas) + ", but the program has " +
                  llvm::Twine(cluster.getDataParallel()) + "; compile with --data-parallel " +
                  llvm::Twine(described.replicas) +
                  " or run omnibal-batch with other length groups");
    for (const cost::ModeDescription &mode : described.modes)
      if (mode.degree > 1 && cluster.getParts() > 1)
        return fail("length group " + mode.name + " has a `degree` of " + llvm::Twine(mode.degree) +
                    ", which does not go together with " + llvm::Twine(cluster.getParts()) +
                    " parts of a stage (--model-parallel)");
    int64_t layers = 0;
    program.walk([&](LayerOp) { ++layers; });
    if (!described.cuts.empty() &&
        (described.cuts.front() != 0 || described.cuts.back() != layers ||
         llvm::adjacent_find(described.cuts, std::greater_equal<>()) != described.cuts.end()))
      return fail("`cuts` must ascend from 0 to the model's number of layers, " +
                  llvm::Twine(layers) + "; were the length groups made for another model?");
    for (const cost::ModeDescription &mode : described.modes)
      if (!mode.remat.empty() && static_cast<int64_t>(mode.remat.size()) != layers)
        return fail("length group " + mode.name + ": `remat` has " +
                    llvm::Twine(mode.remat.size()) + " entries, but the model has " +
                    llvm::Twine(layers) +
                    " layers; were the length groups made for another model?");
    return success();
  }

  TrainModeAttr attributeOf(size_t number) {
    Builder builder(&getContext());
    const cost::ModeDescription &mode = described.modes[number];
    ArrayAttr options;
    if (!mode.remat.empty())
      options =
          builder.getStrArrayAttr(SmallVector<StringRef>(mode.remat.begin(), mode.remat.end()));
    const bool isLast = number + 1 == described.modes.size();
    return TrainModeAttr::get(
        &getContext(), static_cast<int64_t>(number), mode.name, mode.tilesCap, mode.tokensCap,
        mode.microbatches, mode.steps,
        mode.schedule.empty() ? StringRef(schedule) : StringRef(mode.schedule), remat, options,
        mode.degree, isLast ? builder.getUnitAttr() : UnitAttr());
  }

  cost::ModesDescription described;
};

} // namespace
} // namespace omnibal
