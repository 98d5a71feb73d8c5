//===- StepPlan.h - The plan of one training step --------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPPLAN_H
#define RUNTIME_PLANNER_STEP_STEPPLAN_H

#include "runtime/planner/step/StepProblem.h"

namespace omnibal::planner {

/// Where a unit's block lies in its stage's memory.
struct BlockPlace {
  int32_t chunk = 0, microbatch = 0, part = 0;
  int32_t block = 0; ///< number among its variant's blocks
  int64_t offset = 0;
};

enum class StepMethod {
  Lists, ///< lists of this step
  Static ///< the problem's static plan, in places of its own
};

struct StepPlan {
  int64_t step = 0;
  /// By micro-batch: where its sub-micro-batches begin and the last one ends; empty without tiles.
  std::vector<std::vector<int64_t>> borders;
  std::vector<std::vector<std::vector<int64_t>>> variants; ///< [chunk][micro-batch][part]
  std::vector<std::vector<StepAction>> actions;            ///< by stage, in order
  std::vector<std::vector<BlockPlace>> places;             ///< by stage; none for a static plan
  int64_t stepNs = 0;
  int64_t boundNs = 0;  ///< no plan of these chunks and sub-micro-batches is shorter
  int64_t staticNs = 0; ///< what the static plan takes with these loads
  StepMethod method = StepMethod::Static;
  int64_t evaluated = 0; ///< lists that the search made
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPPLAN_H
