//===- ExportProgramPass.cpp - omnibal-export-program -----------------------------------------===//
#include "passes/export/ExportProgram.h"
#include "passes/export/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_EXPORTPROGRAMPASS
#include "passes/export/Passes.h.inc"

namespace {

struct ExportProgramPass : impl::ExportProgramPassBase<ExportProgramPass> {
  using ExportProgramPassBase::ExportProgramPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (output.empty() || tiles < 0 || tokens < 1) {
      module.emitError("omnibal-export-program needs output=DIR, tiles >= 0 and tokens >= 1");
      return signalPassFailure();
    }
    exporter::ExportOptions options;
    options.model = model;
    options.cpu = cpu;
    options.tilesCap = tiles;
    options.tokensCap = tokens;
    OwningOpRef<ModuleOp> copy(module.clone());
    auto exported = exporter::exportProgram(*copy, options);
    if (failed(exported))
      return signalPassFailure();
    FailureOr<rt::GeneratedCode> kernels = exporter::compileKernels(*exported);
    if (failed(kernels))
      return signalPassFailure();
    rt::Status written =
        rt::writeProgram(exported->program, std::move(exported->constants), *kernels, output);
    if (!written) {
      module.emitError(written.message());
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace omnibal
