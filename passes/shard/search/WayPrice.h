//===- WayPrice.h - What a part takes for an op in one of its ways ----------------------------===//
#ifndef PASSES_SHARD_SEARCH_WAYPRICE_H
#define PASSES_SHARD_SEARCH_WAYPRICE_H

#include "passes/shard/OpWays.h"
#include "passes/shard/search/LayerBackward.h"
#include "passes/shard/search/MachineRates.h"

namespace omnibal::shard {

/// Built for the last part, which has the largest share.
struct BuiltWay {
  Cost work = 0; ///< forward and backward
  /// Operands and results that the gradient ops read.
  llvm::SmallVector<bool> readsOperand, readsResult;
};

/// Builds what a part runs of the op, and its gradients where the layer has them, away from the
/// module. Fails with a diagnostic where that is not possible.
mlir::FailureOr<BuiltWay> buildWay(mlir::Operation *op, const Way &way,
                                   const LayerBackward &backward, const MachineRates &rates);

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_WAYPRICE_H
