//===- Specialize.h - Specialization as a library ----------------------------------------===//
#ifndef PASSES_SPECIALIZE_SPECIALIZE_H
#define PASSES_SPECIALIZE_SPECIALIZE_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/StringMap.h"

namespace omnibal {

struct SpecializeOptions {
  /// Graph inputs that become constants of this value (inputs that determine shapes).
  llvm::StringMap<mlir::ElementsAttr> constants;
  /// Graph inputs with all sizes given, instead of V and N.
  llvm::StringMap<llvm::SmallVector<int64_t>> inputDims;
  /// Static input shapes are meant so: no warning about a fixed batch, length or image count.
  bool staticInputs = false;
  /// Folding creates no constant of more elements.
  int64_t foldLimitElements = 1 << 20;
};

/// Takes a function of form I to form S; diagnostics are located and name the ONNX node.
llvm::LogicalResult specialize(mlir::func::FuncOp function, const SpecializeOptions &options);

/// "node 'x' (omnibal.conv)": an op as the user knows it. The node's name is the outermost
/// NameLoc of the location; the NameLoc in it is the module path.
std::string describe(mlir::Operation *op);
/// Name of the ONNX node, "" if the location has none.
std::string nodeName(mlir::Location location);

/// Removes ops without side effect and without use, and equal ops; returns nothing to report.
void eliminateDeadAndEqual(mlir::func::FuncOp function);

} // namespace omnibal
#endif // PASSES_SPECIALIZE_SPECIALIZE_H
