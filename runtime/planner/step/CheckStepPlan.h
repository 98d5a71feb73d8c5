//===- CheckStepPlan.h - Whether a step plan is what it says ----------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_CHECKSTEPPLAN_H
#define RUNTIME_PLANNER_STEP_CHECKSTEPPLAN_H

#include "runtime/planner/step/StepPlan.h"

namespace omnibal::planner {

/// How a step plan breaks a rule, and where.
struct StepViolation {
  std::string rule;             ///< "step_s1" ..
  std::optional<int64_t> stage; ///< that it is about, where it is about one
  std::string text;             ///< a sentence

  /// Returns the violation as a text for people.
  std::string message() const { return rule + ": " + text; }
};

/// Checks a plan against its problem and the step's loads (which fit each other); shares no code
/// with the search but the bound. The rules:
///   step_s1  sub-micro-batches ascend from 0 to the tiles, begin at cuts, and are neither too many
///            nor too small
///   step_s2  every unit runs F and one backward (B, or I then W) once, on its chunk's stage
///   step_s3  every unit has one of its chunk's variants
///   step_s4  weight gradients of a chunk ascend in (micro-batch, part) where it is demanded
///   step_s5  the lists finish
///   step_s6  every block has one place, aligned, inside of the memory, apart from what lives with
///            it (a static plan has places of its own and states none)
///   step_s7  step, bound and static time are what the simulator finds
///   step_s8  the step is not longer than the static plan, and a static plan is the static one
std::vector<StepViolation> checkStepPlan(const StepProblem &problem, const StepLoads &loads,
                                         const StepPlan &plan);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_CHECKSTEPPLAN_H
