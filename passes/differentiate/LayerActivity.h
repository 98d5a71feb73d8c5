//===- LayerActivity.h - Equal layers, and where gradients reach -----------------------------===//
#ifndef PASSES_DIFFERENTIATE_LAYERACTIVITY_H
#define PASSES_DIFFERENTIATE_LAYERACTIVITY_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal {

/// Whether two layers compute the same of their inputs and parameters.
bool haveSameBody(LayerOp a, LayerOp b);

/// Returns the arguments of the body that a gradient reaches: parameters that train, and inputs
/// that are in `active`.
llvm::SmallVector<mlir::Value> activeArguments(const LayerGraph &graph, LayerOp layer,
                                               const llvm::DenseSet<mlir::Value> &active);
/// Returns the outputs of layers downstream of something that trains.
llvm::DenseSet<mlir::Value> findActiveOutputs(const LayerGraph &graph);

} // namespace omnibal
#endif // PASSES_DIFFERENTIATE_LAYERACTIVITY_H
