//===- StepVariants.h - What plans of single steps may recompute -----------------------------===//
#ifndef PASSES_PLAN_STEPVARIANTS_H
#define PASSES_PLAN_STEPVARIANTS_H

#include "passes/layout/PlannedMemory.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::plan {

/// The ways to run each chunk of a plan that differ in what they recompute: at most eight, and the
/// plan's own one besides. They begin with all layers' fastest options and end with their leanest
/// ones; between, bytes shrink by about equal factors, and the options that free most bytes for
/// their time change first.
layout::StepVariants chooseStepVariants(const planner::Problem &problem, const planner::Plan &plan);

} // namespace omnibal::plan
#endif // PASSES_PLAN_STEPVARIANTS_H
