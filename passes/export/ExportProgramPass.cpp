//===- ExportProgramPass.cpp - omnibal-lay-out-program and omnibal-export-program -------------===//
#include "passes/common/ProblemAttributes.h"
#include "passes/export/ExportProgram.h"
#include "passes/export/Passes.h"
#include "runtime/program/Workspace.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_LAYOUTPROGRAMPASS
#define GEN_PASS_DEF_EXPORTPROGRAMPASS
#include "passes/export/Passes.h.inc"

namespace {

/// What both passes have: the options of a program, and where it goes.
template <typename Base> class ProgramPass : public Base {
public:
  using Base::Base;
  template <typename OptionsT>
  ProgramPass(const OptionsT &options, std::shared_ptr<exporter::ProgramSlot> slot)
      : Base(options), slot(std::move(slot)) {}

protected:
  FailureOr<exporter::ExportedProgram> layOut() {
    ModuleOp module = this->getOperation();
    const bool host = this->target == "host";
    if ((!host && this->target != "cuda") || this->tiles < 0 || this->tokens < 1)
      return module.emitError() << this->getArgument()
                                << " needs tiles >= 0, tokens >= 1 and a target that is known "
                                   "(host, cuda)",
             failure();
    if (this->gpuCode != lower::deviceCode && !lower::findKernelConversion(this->gpuCode))
      return module.emitError() << this->getArgument() << ": gpu-code is '" << this->gpuCode
                                << "'; known are: " << llvm::join(lower::gpuCodeNames(), ", "),
             failure();
    exporter::ExportOptions options;
    options.model = this->model;
    options.target = this->target;
    options.compute = this->compute;
    if (options.compute.empty())
      options.compute = host ? "float32" : "bfloat16";
    options.cpu = this->cpu;
    options.gpuCode = this->gpuCode;
    options.subMicrobatches = this->subMicrobatches;
    options.tilesCap = this->tiles;
    options.tokensCap = this->tokens;
    options.rowBucket = lower::rowBucketOf(options.target);
    // Of a copy, since lowering rewrites the layer functions.
    OwningOpRef<ModuleOp> copy(module.clone());
    return exporter::exportProgram(*copy, options);
  }

  std::shared_ptr<exporter::ProgramSlot> slot;
};

struct LayOutProgramPass : ProgramPass<impl::LayOutProgramPassBase<LayOutProgramPass>> {
  using ProgramPass::ProgramPass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto laidOut = layOut();
    if (failed(laidOut))
      return signalPassFailure();
    const rt::Program &program = laidOut->program;
    SmallVector<int64_t> arena(program.stages, 0), workspace(program.stages, 0); // of any part
    for (const rt::Stage &stage : program.stageList) {
      arena[stage.id] = std::max(arena[stage.id], stage.arenaBytes);
      workspace[stage.id] =
          std::max(workspace[stage.id], rt::totalOf(rt::workspaceOf(program, stage)));
    }
    Builder builder(&getContext());
    module->setAttr(plan::arenaAttrName, builder.getDenseI64ArrayAttr(arena));
    module->setAttr(plan::workspaceAttrName, builder.getDenseI64ArrayAttr(workspace));
    if (slot)
      slot->program = std::move(*laidOut);
  }
};

struct ExportProgramPass : ProgramPass<impl::ExportProgramPassBase<ExportProgramPass>> {
  using ProgramPass::ProgramPass;

  void runOnOperation() override {
    if (failed(write()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult write() {
    if (output.empty())
      return getOperation().emitError("omnibal-export-program needs output=DIR");
    auto here = slot && slot->program ? slot : std::make_shared<exporter::ProgramSlot>();
    if (!here->program) {
      FailureOr<exporter::ExportedProgram> laidOut = layOut();
      if (failed(laidOut))
        return failure();
      here->program = std::move(*laidOut);
    }
    exporter::ExportedProgram &exported = *here->program;
    exported.options.cudaToolkit = cudaToolkit;
    FailureOr<rt::GeneratedCode> kernels = exporter::compileKernels(exported);
    if (failed(kernels))
      return failure();
    rt::Status written =
        rt::writeProgram(exported.program, std::move(exported.constants), *kernels, output);
    if (!written)
      return emitError(UnknownLoc::get(&getContext()), written.message());
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createLayOutProgram(const LayOutProgramPassOptions &options,
                                          std::shared_ptr<exporter::ProgramSlot> slot) {
  return std::make_unique<LayOutProgramPass>(options, std::move(slot));
}

std::unique_ptr<Pass> createExportProgram(const ExportProgramPassOptions &options,
                                          std::shared_ptr<exporter::ProgramSlot> slot) {
  return std::make_unique<ExportProgramPass>(options, std::move(slot));
}

} // namespace omnibal
