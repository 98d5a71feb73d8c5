//===- PlanRemarks.h - Why the stages are what they are -------------------------------------===//
#ifndef PASSES_PARTITION_PLANREMARKS_H
#define PASSES_PARTITION_PLANREMARKS_H

#include "passes/partition/SearchPlan.h"

namespace omnibal::partition {

/// Analysis remarks of category `omnibal-partition`, one a chunk at its first layer. Costs nothing
/// where no one asks for remarks.
void explainPlan(mlir::ModuleOp module, const StagePlan &planned);

} // namespace omnibal::partition
#endif // PASSES_PARTITION_PLANREMARKS_H
