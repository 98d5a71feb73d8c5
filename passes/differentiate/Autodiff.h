//===- Autodiff.h - Reverse sweep over the body of one layer -----------------------------===//
#ifndef PASSES_DIFFERENTIATE_AUTODIFF_H
#define PASSES_DIFFERENTIATE_AUTODIFF_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal {

/// Returns the values of `ops` that change (differentiably) with one of `active`, including those.
llvm::DenseSet<mlir::Value> findActiveValues(llvm::ArrayRef<mlir::Operation *> ops,
                                             llvm::ArrayRef<mlir::Value> active);

/// Gradients with respect to the sum of the token losses.
struct Gradients {
  llvm::DenseMap<mlir::Value, mlir::Value> of; ///< absent: zero
  mlir::Value loss;                            ///< per-token losses, if one of the ops makes them
};

/// Appends gradient ops at `builder`. `seeds` are the gradients of values that leave the ops; loss
/// ops need none. Gradients are built only for values in `active`. Fails at the op that a gradient
/// reaches and that has no gradient rule.
mlir::FailureOr<Gradients> buildGradients(mlir::OpBuilder &builder,
                                          llvm::ArrayRef<mlir::Operation *> ops,
                                          llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> seeds,
                                          const llvm::DenseSet<mlir::Value> &active);

} // namespace omnibal
#endif // PASSES_DIFFERENTIATE_AUTODIFF_H
