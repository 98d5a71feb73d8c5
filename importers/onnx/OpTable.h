//===- OpTable.h - ONNX operators and who builds them ------------------------------------===//
#ifndef IMPORTERS_ONNX_OPTABLE_H
#define IMPORTERS_ONNX_OPTABLE_H

#include "importers/onnx/NodeContext.h"

namespace omnibal::onnx {

/// Builds a node's results; has reported the error if it fails.
using BuildFunction = mlir::LogicalResult (*)(NodeContext &);

struct OpEntry {
  const char *name;         ///< with its domain before a point, where that is not the default one
  int minOpset, maxOpset;   ///< of the default domain's operator
  int minInputs, maxInputs; ///< maxInputs -1: any number
  BuildFunction build;
};

/// The entry for an operator at an opset; null if there is none. `known` tells whether the operator
/// exists here at another opset.
const OpEntry *findOp(llvm::StringRef name, int64_t opset, bool &known);

// One table a theme (importers/onnx/ops).
llvm::ArrayRef<OpEntry> attentionOps();
llvm::ArrayRef<OpEntry> constantOps();
llvm::ArrayRef<OpEntry> controlOps();
llvm::ArrayRef<OpEntry> einsumOps();
llvm::ArrayRef<OpEntry> elementwiseOps();
llvm::ArrayRef<OpEntry> indexingOps();
llvm::ArrayRef<OpEntry> layoutOps();
llvm::ArrayRef<OpEntry> linearAttentionOps();
llvm::ArrayRef<OpEntry> lossOps();
llvm::ArrayRef<OpEntry> neuralOps();
llvm::ArrayRef<OpEntry> poolingOps();
llvm::ArrayRef<OpEntry> reductionOps();
llvm::ArrayRef<OpEntry> resizeOps();
llvm::ArrayRef<OpEntry> sequenceOps();

/// Entries that hold for every opset that the importer takes.
constexpr int kFirst = 13, kLast = 23;

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_OPTABLE_H
