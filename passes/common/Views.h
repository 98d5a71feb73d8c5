//===- Views.h - Ops that compute nothing -----------------------------------------------------===//
#ifndef PASSES_COMMON_VIEWS_H
#define PASSES_COMMON_VIEWS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal {

/// Whether an op's result is a window of what its operand lies in.
inline bool isView(mlir::Operation *op) {
  return llvm::isa<ReshapeOp, SqueezeOp, UnsqueezeOp, TransposeOp, SliceOp, ExpandOp>(op);
}

} // namespace omnibal

#endif // PASSES_COMMON_VIEWS_H
