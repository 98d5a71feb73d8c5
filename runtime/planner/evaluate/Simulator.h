//===- Simulator.h - What a plan means (docs/planner.md) ---------------------------------===//
#ifndef RUNTIME_PLANNER_EVALUATE_SIMULATOR_H
#define RUNTIME_PLANNER_EVALUATE_SIMULATOR_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <string>

namespace omnibal::planner {

/// When an action runs; index-parallel to Plan::actions.
struct ActionTime {
  int64_t startNs = 0, endNs = 0;
};

struct Timeline {
  std::string error; ///< empty, or why the plan cannot run (deadlock, unknown remat option, ...)
  std::vector<std::vector<ActionTime>> times;
  int64_t stepNs = 0;
  std::vector<StageFigures> stages;
};

/// Runs the plan's action lists: each stage in list order, each action as early as its inputs
/// allow; transfers overlap with everything; memory is what rule 5 of docs/planner.md counts.
Timeline simulate(const Problem &problem, const Plan &plan);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_EVALUATE_SIMULATOR_H
