//===- BackwardSplit.h - The two halves of a layer's backward ----------------------------===//
//
// I, the first half, computes what other layers wait for: gradients of inputs, and the loss. W, the
// second half, computes gradients of parameters that can wait, some time later. Only matrix
// products are worth postponing: the gradient of a vector (a bias, a norm's scale) is one reduction
// of values that I has at hand, so it stays in I; so does the gradient of a parameter that an op of
// I yields anyway.
//
// W's products read activations and gradients inside the layer. Each is either still there (kept
// from forward on, or a gradient of an output), or held from I to W, or computed again from such
// values by cheap ops: the same minimum cut as for saved values
// (passes/differentiate/SavedValues.h).
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_DIFFERENTIATE_BACKWARDSPLIT_H
#define PASSES_DIFFERENTIATE_BACKWARDSPLIT_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace omnibal {

/// A function of ops of forward and, behind them, gradient ops.
struct BackwardQuery {
  llvm::SmallVector<mlir::Value> urgent;     ///< gradients of inputs, and the loss
  llvm::SmallVector<mlir::Value> parameters; ///< gradients of parameters
  llvm::DenseSet<mlir::Operation *> forwardOps;
  llvm::SetVector<mlir::Value> kept;     ///< from forward on, for the whole backward
  llvm::DenseSet<mlir::Value> available; ///< block arguments that are parameters
};

struct BackwardSplit {
  llvm::SmallVector<bool> waits;     ///< one a value of `parameters`: W computes it
  llvm::SetVector<mlir::Value> read; ///< what W starts from, besides `available`
};

/// Splits a backward. If `urgent` is empty, everything waits and W is the whole backward (`read` is
/// then empty).
mlir::FailureOr<BackwardSplit> splitBackward(const BackwardQuery &query);

/// Returns what `results` are computed from, up to and including block arguments and the values of
/// `stop`.
llvm::DenseSet<mlir::Value> collectSlice(llvm::ArrayRef<mlir::Value> results,
                                         const llvm::SetVector<mlir::Value> &stop);

} // namespace omnibal
#endif // PASSES_DIFFERENTIATE_BACKWARDSPLIT_H
