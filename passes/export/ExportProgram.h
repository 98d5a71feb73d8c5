//===- ExportProgram.h - From form C and a plan to the program ---------------------------===//
#ifndef PASSES_EXPORT_EXPORTPROGRAM_H
#define PASSES_EXPORT_EXPORTPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/lower/Lowering.h"
#include "passes/schedule/GradientBuckets.h"
#include "runtime/program/ProgramIO.h"

namespace omnibal::exporter {

struct ExportOptions {
  std::string model;           ///< file name of the source model
  std::string target = "host"; ///< host | cuda
  std::string compute = "float32", cpu = "x86-64-v3";
  /// How code is made of GPU kernels: lower::deviceCode or a registered conversion.
  std::string gpuCode = lower::deviceCode;
  std::string cudaToolkit; ///< folder of ptxas and fatbinary; empty: found
  int64_t tilesCap = 0, tokensCap = 0;
  bool subMicrobatches = true; ///< plans of single steps may divide micro-batches by their tiles
  int32_t rowBucket = 1; ///< kernels run for N rounded up to a multiple of it (docs/runtime.md)
  int64_t gradientBucketBytes = schedule::defaultBucketBytes;
};

struct ExportedProgram {
  rt::Program program;
  std::vector<rt::ConstantTensor> constants;
  ExportOptions options;
  /// The generated kernels, not compiled yet: a dry run never needs their code.
  std::shared_ptr<lower::KernelLibrary> kernels;
};

/// Where passes leave a program that was laid out: it is no part of the IR.
struct ProgramSlot {
  std::optional<ExportedProgram> program;
};

/// Lowers every layer function, lays out the memory of every stage in every mode and assembles the
/// program. `module` is in form C with its schedule (omnibal-materialize-schedule): chunks, stages,
/// micro-batches, messages and actions are what its attributes and ops say. Rewrites the layer
/// functions. Reports on the module's diagnostics.
llvm::FailureOr<ExportedProgram> exportProgram(mlir::ModuleOp module, const ExportOptions &options);

/// Returns the generated code, or none if no function needs any. Errors are reported at the
/// kernels' module.
llvm::FailureOr<rt::GeneratedCode> compileKernels(const ExportedProgram &exported);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_EXPORTPROGRAM_H
