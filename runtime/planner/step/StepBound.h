//===- StepBound.h - A time below every plan of a step's chunks and units ---------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPBOUND_H
#define RUNTIME_PLANNER_STEP_STEPBOUND_H

#include "runtime/planner/step/StepUnits.h"

namespace omnibal::planner {

/// Nanoseconds that no lists of these units undercut, with any variants and without a memory limit:
/// the longest way through forwards, input gradients, weight gradients and messages, or, if more,
/// the most that a stage takes when it runs its own actions one at a time between their ways from
/// the step's begin and to its end, interruptions allowed (one machine with heads and tails,
/// Jackson's preemptive rule). n log n.
int64_t stepBound(const StepUnits &units);

/// Work of all stages / stages, or, if more, the longest forward and backward of one micro-batch:
/// a bound for any layout of the same work, without its messages.
int64_t layoutBound(const StepUnits &units);

/// By unit: the longest way from the begin of its input gradient to the step's end.
std::vector<int64_t> backwardTails(const StepUnits &units);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPBOUND_H
