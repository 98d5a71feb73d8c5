//===- StepMemory.h - Bytes that units hold in each phase of their life -----------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPMEMORY_H
#define RUNTIME_PLANNER_STEP_STEPMEMORY_H

#include "runtime/planner/step/StepTimes.h"
#include <algorithm>

namespace omnibal::planner {

/// Bytes of one unit in one variant; messages that are still being sent are not counted.
struct UnitBytes {
  int64_t duringForward = 0;
  int64_t held = 0; ///< from the forward to the backward
  int64_t duringInputGrad = 0, duringBackward = 0;
  int64_t split = 0; ///< from the input gradient to the weight gradient

  /// What running the unit's forward and its whole backward needs above what it holds, and with
  /// `isSplit` a split one, too.
  int64_t transient(bool isSplit) const {
    return std::max({duringForward, duringBackward, isSplit ? duringInputGrad : 0}) - held;
  }
};

/// The bytes of every unit and variant, by StepUnits::indexOf.
std::vector<UnitBytes> unitBytes(const StepUnits &units);

/// The most bytes that a stage's list holds at any moment.
int64_t peakBytes(const StepUnits &units, const std::vector<UnitBytes> &bytes,
                  const StepLists &lists, size_t stage);

/// Replaces leaner variants by fatter ones where every moment of the stage's list stays within
/// limits (bytes by stage): most time saved a byte held and action first. Lists stay as they are.
void fatten(const StepUnits &units, const std::vector<UnitBytes> &bytes,
            const std::vector<int64_t> &limits, StepLists &lists);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPMEMORY_H
