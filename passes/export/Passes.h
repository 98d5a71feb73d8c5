//===- Passes.h - From form C to a program directory ------------------------------------------===//
#ifndef PASSES_EXPORT_PASSES_H
#define PASSES_EXPORT_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/export/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/export/Passes.h.inc"

namespace exporter {
struct ProgramSlot;
}
/// The same passes, of which the first leaves the program in `slot` for the second, and for whoever
/// made the pipeline.
std::unique_ptr<mlir::Pass> createLayOutProgram(const LayOutProgramPassOptions &options,
                                                std::shared_ptr<exporter::ProgramSlot> slot);
std::unique_ptr<mlir::Pass> createExportProgram(const ExportProgramPassOptions &options,
                                                std::shared_ptr<exporter::ProgramSlot> slot);
} // namespace omnibal

#endif // PASSES_EXPORT_PASSES_H
