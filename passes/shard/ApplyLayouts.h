//===- ApplyLayouts.h - What a part runs of a layer ------------------------------------------===//
#ifndef PASSES_SHARD_APPLYLAYOUTS_H
#define PASSES_SHARD_APPLYLAYOUTS_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/SymbolTable.h"

namespace omnibal::shard {

/// For which part a body is made.
struct PartChoice {
  int64_t parts = 1, part = 0;
  /// Tiles and tokens of a micro-batch: then the body's sizes are numbers.
  std::optional<std::pair<int64_t, int64_t>> microbatch;
  /// Whether parameters that are held copied are whole in front of their first move, so that their
  /// gradients are summed by its gradient; without it their gradients are partial.
  bool sumsGradients = false;
};

/// Appends a function of this name at `builder`: what a part runs of a layer that has layouts.
/// Arguments are what the part holds of inputs and parameters, results what it holds of the
/// outputs. A value that is read in another layout than it is made in moves where it is first read
/// so, once. The layer's layouts have been verified.
llvm::FailureOr<mlir::func::FuncOp> applyLayouts(mlir::OpBuilder &builder, LayerOp layer,
                                                 llvm::StringRef name, const PartChoice &choice);

/// The same as a layer of its own, which is in no block: what a part runs in place of `layer`, with
/// the gradients of all parameters summed, unless parts are replicas, which sum them at the end of
/// a step. Its operands are those of `layer`, although its body's
/// arguments have the part's types. `symbols` are of the layer's module.
llvm::FailureOr<mlir::OwningOpRef<LayerOp>> makePartLayer(LayerOp layer, const PartChoice &choice,
                                                          mlir::SymbolTableCollection &symbols);

} // namespace omnibal::shard
#endif // PASSES_SHARD_APPLYLAYOUTS_H
