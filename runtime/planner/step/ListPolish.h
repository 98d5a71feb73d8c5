//===- ListPolish.h - Small changes of finished lists -----------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_LISTPOLISH_H
#define RUNTIME_PLANNER_STEP_LISTPOLISH_H

#include "runtime/planner/step/StepMemory.h"
#include <random>

namespace omnibal::planner {

/// Shortens lists by random changes that do not lengthen the step: an action moves within its list,
/// a whole backward becomes two halves, or halves one. Lists that policies make begin whatever is
/// ready; these may also wait for something better. Short lists profit; for long ones the budget is
/// spent before. `limits`: bytes by stage, empty for none. `mostActions` are simulated at most.
/// Returns the step's time.
int64_t polish(const StepUnits &units, const std::vector<UnitBytes> &bytes,
               const std::vector<int64_t> &limits, int64_t mostActions, std::mt19937_64 &random,
               StepLists &lists);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_LISTPOLISH_H
