//===- QuickPlan.h - Some plan, at once -----------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_QUICKPLAN_H
#define RUNTIME_PLANNER_SEARCH_QUICKPLAN_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <optional>

namespace omnibal::planner {

/// Returns a plan for a search that found nothing in its time: the best of a few simple cuts (the
/// given ones if they may not vary), where every layer of a stage has its first option or, if that
/// does not fit, the one that saves least. The simulator times the plans. The result is none if
/// none of these fits. Under "auto" it runs the lists of 1f1b.
std::optional<Plan> quickPlan(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_QUICKPLAN_H
