//===- PlanAttributes.h - Plans as attributes and back -----------------------------------===//
//
// The one place that turns planner::Plan into `omnibal.plan` and its actions back into lists.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_COMMON_PLANATTRIBUTES_H
#define PASSES_COMMON_PLANATTRIBUTES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "runtime/planner/model/Plan.h"
#include "llvm/Support/Error.h"

namespace omnibal {

using ActionLists = std::vector<std::vector<planner::Action>>; ///< per stage, in order

/// `omnibal.plan` of a plan with chunk stages and actions. Actions are written out where the rule
/// of the plan's schedule does not give just these.
PlanAttr makePlanAttr(mlir::MLIRContext *context, const planner::Plan &plan, int64_t stages,
                      int64_t microbatches, int64_t dataParallel);

/// What each stage computes in a training step: the attribute's own actions, else its schedule's.
/// Fails where there are none and the schedule is not known or does not run that many chunks.
llvm::Expected<ActionLists> computeActions(PlanAttr plan);

/// By chunk: whether some micro-batch runs its backward in two parts.
std::vector<bool> splitChunks(const ActionLists &lists, int64_t chunks);

} // namespace omnibal

#endif // PASSES_COMMON_PLANATTRIBUTES_H
