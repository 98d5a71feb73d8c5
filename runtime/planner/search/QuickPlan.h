//===- QuickPlan.h - Some plan, at once -----------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_QUICKPLAN_H
#define RUNTIME_PLANNER_SEARCH_QUICKPLAN_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <optional>

namespace omnibal::planner {

/// For a search that found nothing in its time: the best of a few simple cuts (the given ones where
/// they may not vary), every layer of a stage with its first option or, where that does not fit,
/// the one that saves least. Timed by the simulator; none where none of these fits. Under "auto" it
/// runs the lists of 1f1b.
std::optional<Plan> quickPlan(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_QUICKPLAN_H
