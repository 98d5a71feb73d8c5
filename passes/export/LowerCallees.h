//===- LowerCallees.h - The lowered functions of a training mode ------------------------------===//
#ifndef PASSES_EXPORT_LOWERCALLEES_H
#define PASSES_EXPORT_LOWERCALLEES_H

#include "passes/export/ExportProgram.h"
#include "passes/layout/ProgramLayout.h"

namespace omnibal::exporter {

/// Reads graph and schedule of a module in form C and lowers every function that its actions run,
/// at the caps of `options`; generated kernels go into `kernels`. A mode that is not the last of
/// its program has none for evaluation and prediction. Rewrites the layer functions.
class CalleeLowering {
public:
  CalleeLowering(mlir::ModuleOp module, const ExportOptions &options, lower::KernelLibrary &kernels,
                 size_t trainMode, bool isLast);

  /// Graph and schedule alone.
  llvm::LogicalResult read();
  llvm::LogicalResult lower();
  layout::ProgramParts parts;

private:
  llvm::LogicalResult lowerCallee(LayerFnOp callee, const std::set<rt::ActionKind> &runs,
                                  layout::CalleeFunctions &out);
  llvm::LogicalResult lowerOne(llvm::StringRef symbol, int64_t &index);

  mlir::ModuleOp module;
  const ExportOptions &options;
  lower::KernelLibrary &kernels;
  std::map<std::string, int64_t> functionIndex;
  llvm::StringMap<std::string> digests; ///< by symbol
};

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_LOWERCALLEES_H
