//===- StepSearch.h - A plan for one training step --------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPSEARCH_H
#define RUNTIME_PLANNER_STEP_STEPSEARCH_H

#include "runtime/planner/step/StepUnits.h"

namespace omnibal::planner {

/// Work is counted, never timed, so that a plan is a function of its inputs.
struct StepSearchOptions {
  int64_t mostActions = 300'000; ///< put into lists
  int64_t mostLists = 300;
  bool maySplit = true; ///< sub-micro-batches
  bool polishes = true; ///< what lists leave of the work goes into small changes of the best ones
};

/// Plans steps of one problem. Deterministic: the same loads give the same plan, on any machine.
class StepPlanner {
public:
  /// `problem` outlives the planner and is one that parseStepProblem accepts.
  explicit StepPlanner(const StepProblem &problem, StepSearchOptions options = {})
      : model(problem), options(options) {}

  /// Lists made in the order of time under several policies, then local search over policies,
  /// orders of micro-batches and sub-micro-batches; with a memory limit variants and places too.
  /// The static plan where none of them is shorter. The loads fit the problem (misfit).
  StepPlan plan(const StepLoads &loads) const;

private:
  StepModel model;
  StepSearchOptions options;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPSEARCH_H
