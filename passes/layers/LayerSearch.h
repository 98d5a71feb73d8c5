//===- LayerSearch.h - Where a model falls into layers -----------------------------------===//
#ifndef PASSES_LAYERS_LAYERSEARCH_H
#define PASSES_LAYERS_LAYERSEARCH_H

#include "passes/raise/match/Match.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace omnibal::layers {

/// A layer to be: its name, its component and the ops that compute on the micro-batch's content.
struct LayerPlan {
  std::string name;
  LayerKind kind;
  llvm::SetVector<mlir::Operation *> ops;
};

/// The ops that depend on token ids or pictures. All others (parameters, constants, positions) are
/// copied into every layer that reads them and define no cut.
class ContentOps {
public:
  explicit ContentOps(mlir::func::FuncOp function);
  bool contains(mlir::Operation *op) const { return ops.contains(op) || beside.contains(op); }
  bool contains(mlir::Value value) const {
    mlir::Operation *op = value.getDefiningOp();
    return op && contains(op);
  }
  /// Content ops that the values are computed from, in block order.
  llvm::SetVector<mlir::Operation *> backwardFrom(llvm::ArrayRef<mlir::Value> values) const;
  /// Returns the ops that the logits need.
  const llvm::SetVector<mlir::Operation *> &all() const { return ops; }
  /// Returns the ops that only the routers' loss needs; they take no part in the search for layers.
  const llvm::SetVector<mlir::Operation *> &besideLogits() const { return beside; }

private:
  llvm::SetVector<mlir::Operation *> ops, beside; ///< in block order
};

/// True if the op is attention, or the softmax of an attention among as many rows that stayed
/// products.
bool attends(mlir::Operation *op);

/// A component cut at every value through which all of it flows, and its repeated blocks.
struct Segmentation {
  /// Segments in order; each ends in a value that is alone alive.
  std::vector<llvm::SmallVector<mlir::Operation *>> segments;
  /// Block i is segments [starts[i], starts[i + 1]); the last entry is the end of the last block.
  std::vector<size_t> starts;
};
Segmentation segmentComponent(llvm::ArrayRef<mlir::Operation *> component,
                              const ContentOps &content);

/// Layers of form R in the order in which they run; fails with a diagnostic.
llvm::FailureOr<std::vector<LayerPlan>> findLayers(mlir::func::FuncOp function,
                                                   const ContentOps &content);

} // namespace omnibal::layers
#endif // PASSES_LAYERS_LAYERSEARCH_H
