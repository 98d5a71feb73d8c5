//===- PlanRemarks.h - Why the stages are what they are -------------------------------------===//
#ifndef PASSES_PLAN_PLANREMARKS_H
#define PASSES_PLAN_PLANREMARKS_H

#include "passes/plan/SearchPlan.h"

namespace omnibal::plan {

/// Returns the problem that the plan answers: its schedule, and its options if the search did not
/// decide them.
planner::Problem problemOf(const StagePlan &planned);

/// Emits analysis remarks of category `omnibal-partition`: at the first layer of each chunk its
/// figures (`stage`) and what limits it, with the next best place of the cut (`cut`); at @main what
/// more memory or another stage would gain (`resources`). It costs nothing if no one asks for
/// remarks.
void explainPlan(mlir::ModuleOp module, const StagePlan &planned);

} // namespace omnibal::plan
#endif // PASSES_PLAN_PLANREMARKS_H
