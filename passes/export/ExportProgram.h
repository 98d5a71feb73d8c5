//===- ExportProgram.h - From form C and a plan to the program
//------------------------------------------------===//
#ifndef PASSES_EXPORT_EXPORTPROGRAM_H
#define PASSES_EXPORT_EXPORTPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/lower/Lowering.h"
#include "passes/planner/Plan.h"
#include "runtime/program/ProgramIO.h"

namespace omnibal::exporter {

struct ExportOptions {
  std::string model; ///< file name of the source model
  std::string target = "host", cpu = "x86-64-v3";
  int64_t tilesCap = 0, tokensCap = 0;
  int64_t stages = 1, dataParallel = 1, microbatches = 1;
  int64_t gradientBucketBytes = int64_t{32} << 20; ///< data-parallel reduction happens by bucket
};

struct ExportedProgram {
  rt::Program program;
  std::vector<rt::ConstantTensor> constants;
  /// The generated kernels, not compiled yet: a dry run never needs kernels.so.
  std::shared_ptr<lower::KernelLibrary> kernels;
};

/// Lowers every layer function, lays out the memory of every stage in every mode and assembles the
/// program. `module` is in form C with omnibal.chunk on its calls; `plan` gives the ranks of chunks
/// and the action lists. Reports on the module's diagnostics.
llvm::FailureOr<ExportedProgram> exportProgram(mlir::ModuleOp module, const planner::Plan &plan,
                                               const ExportOptions &options);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_EXPORTPROGRAM_H
