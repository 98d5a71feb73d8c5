//===- PlanAttributes.h - Plans as attributes and back -----------------------------------===//
//
// This is the one place that turns planner::Plan into `omnibal.plan` and its actions back into
// lists.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_COMMON_PLANATTRIBUTES_H
#define PASSES_COMMON_PLANATTRIBUTES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include "llvm/Support/Error.h"

namespace omnibal {

using ActionLists = std::vector<std::vector<planner::Action>>; ///< per stage, in order

/// Returns `omnibal.plan` of a plan with chunk stages and actions. Actions are written out if the
/// rule of the plan's schedule does not give exactly these.
PlanAttr makePlanAttr(mlir::MLIRContext *context, const planner::Plan &plan,
                      const planner::Cluster &cluster, int64_t microbatches);

/// Returns what each stage computes in a training step: the attribute's own actions, or else its
/// schedule's. Fails if there are none and the schedule is not known or does not run that many
/// chunks.
llvm::Expected<ActionLists> computeActions(PlanAttr plan);

/// Returns for each chunk whether some micro-batch runs its backward in two parts.
std::vector<bool> splitChunks(const ActionLists &lists, int64_t chunks);

} // namespace omnibal

#endif // PASSES_COMMON_PLANATTRIBUTES_H
