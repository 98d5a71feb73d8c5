//===- LayerBackward.h - What backward reads of a layer's forward -----------------------------===//
#ifndef PASSES_SHARD_SEARCH_LAYERBACKWARD_H
#define PASSES_SHARD_SEARCH_LAYERBACKWARD_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::shard {

/// Values of a layer as it is, undivided.
struct LayerBackward {
  llvm::DenseSet<mlir::Value> active;       ///< change with what trains
  llvm::DenseSet<mlir::Value> withGradient; ///< backward makes a gradient of them
  llvm::DenseSet<mlir::Value> kept;         ///< from forward to backward, if nothing is recomputed
  llvm::DenseSet<mlir::Operation *> idle;   ///< ops that training does not run (a head's logits)
};

/// `arguments` are those of the body that a gradient reaches. A diagnostic says where a gradient
/// cannot be built.
mlir::FailureOr<LayerBackward> readBackward(LayerOp layer, llvm::ArrayRef<mlir::Value> arguments);

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_LAYERBACKWARD_H
