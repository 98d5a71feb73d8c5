//===- StepPlacement.h - Where the blocks of a step lie ---------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPPLACEMENT_H
#define RUNTIME_PLANNER_STEP_STEPPLACEMENT_H

#include "runtime/planner/step/StepTimes.h"

namespace omnibal::planner {

/// Lists whose blocks have places.
struct PlacedLists {
  StepLists lists;
  StepTimes times;
  std::vector<std::vector<BlockPlace>> places; ///< by stage
};

/// Places all blocks of the lists in their stages' memory, in the order of the lists, each in the
/// smallest gap that holds it. Where none does, the list is repaired: the forward takes a leaner
/// variant, halves of a backward become a whole one, or the unit with the largest block that lies
/// there becomes leaner. None where repairs do not help. A pure function of its inputs.
std::optional<PlacedLists> placeBlocks(const StepUnits &units, StepLists lists);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPPLACEMENT_H
