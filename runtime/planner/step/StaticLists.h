//===- StaticLists.h - One plan for all steps -------------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STATICLISTS_H
#define RUNTIME_PLANNER_STEP_STATICLISTS_H

#include "runtime/planner/step/StepProblem.h"

namespace omnibal::planner {

/// Work for a static plan: actions and lists as in StepSearchOptions.
struct StaticSearchOptions {
  int64_t mostActions = 3'000'000, mostLists = 300;
};

/// Loads whose micro-batches all have the samples' mean, rounded up.
StepLoads meanLoads(const StepProblem &problem, const std::vector<StepLoads> &samples);

/// Loads whose micro-batches are all full.
StepLoads loadsAtCaps(const StepProblem &problem);

/// Replaces the problem's static plan by lists made for mean loads whose variants fit the memory at
/// the caps (bytes in phases; where blocks lie is the program's matter): of all that the policies
/// and a search make, those with the shortest samples in sum. Returns that sum. With a memory limit
/// that nothing fits, the problem stays as it is and the sum is that of its own plan.
int64_t addStaticPlan(StepProblem &problem, const std::vector<StepLoads> &samples,
                      const StaticSearchOptions &options = {});

/// The sum of the samples' times with the problem's static plan.
int64_t staticSum(const StepProblem &problem, const std::vector<StepLoads> &samples);

/// Gives the problem's static plan leaner variants where it needs more memory at the caps than
/// there is, least recomputation first. False where it does not fit with the leanest.
bool fitStaticPlan(StepProblem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STATICLISTS_H
