//===- LinearWeights.h - Parameters that are the weights of linear layers --------------------===//
#ifndef PASSES_LAYERS_LINEARWEIGHTS_H
#define PASSES_LAYERS_LINEARWEIGHTS_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include "llvm/ADT/MapVector.h"

namespace omnibal::layers {

/// The ops in the layers that read a parameter.
using Readers = llvm::MapVector<ParameterOp, llvm::SmallVector<mlir::Operation *>>;

Readers findReaders(const LayerGraph &graph);

/// Whether all of them are linear layers of this weight, and of one orientation; what squares its
/// rows beside them, for adapters with magnitudes, does not count.
bool areLinearsOf(llvm::ArrayRef<mlir::Operation *> readers, ParameterOp parameter);

} // namespace omnibal::layers
#endif // PASSES_LAYERS_LINEARWEIGHTS_H
