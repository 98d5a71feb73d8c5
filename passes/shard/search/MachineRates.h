//===- MachineRates.h - What ops, moves and memory cost parts ---------------------------------===//
#ifndef PASSES_SHARD_SEARCH_MACHINERATES_H
#define PASSES_SHARD_SEARCH_MACHINERATES_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/BuiltinTypes.h"
#include "passes/cost/LayerCosts.h"
#include "passes/shard/search/LayerProblem.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::shard {

/// Work is by the roofline of the device, as layers' costs are: products at its peak, all else at
/// its memory's speed.
struct MachineRates {
  int64_t parts = 2;
  /// Whether parts are replicas, which hold all of every parameter and sum its gradients later.
  bool areReplicas = false;
  cost::CostOptions costs; ///< device, widths of numbers, a full micro-batch
  planner::Link link;      ///< among the parts of a stage
  double priceNs = 0;      ///< of a byte that a rank holds
  /// More, in bytes an element, of a parameter that trains: its gradient and the optimizer's state;
  /// and of a matrix that the optimizer orthogonalizes.
  double trainedBytes = 12, orthogonalizedBytes = 8;

  /// What an op takes, of the sizes that its types have.
  Cost ofOp(mlir::Operation *op) const;
  /// What a part takes to move a value of this type, which is the whole one's.
  Cost ofMove(mlir::RankedTensorType whole, LayoutAttr from, LayoutAttr to) const;
  /// What `bytes` of memory are worth.
  Cost ofMemory(int64_t bytes) const;

  /// What a part holds at most of an activation of this type.
  int64_t heldBytes(mlir::RankedTensorType whole, LayoutAttr layout) const;

private:
  Cost ofWork(const cost::Work &work) const;
};

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_MACHINERATES_H
