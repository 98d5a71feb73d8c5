//===- BaselinesInternal.h - What the baselines share ---------------------------------------===//
#ifndef RUNTIME_PLANNER_BASELINES_BASELINESINTERNAL_H
#define RUNTIME_PLANNER_BASELINES_BASELINESINTERNAL_H

#include "runtime/planner/baselines/Baselines.h"
#include "runtime/planner/model/PlanningModel.h"
#include "runtime/planner/model/SearchControl.h"

namespace omnibal::planner {

using Cuts = std::vector<int64_t>;

/// The problem as baselines see it, and the clock that all of them run against.
struct BaselineTask {
  const Problem &problem; ///< cuts may vary; a fixed schedule
  const PlanningModel &model;
  int64_t chunks; ///< stages times chunks a stage
  SearchControl control;

  /// The plan with these cuts, and these options or the least recomputation that fits.
  Baseline timed(const char *name, const std::string &method, const Cuts &cuts,
                 std::vector<std::string> remat = {}) const;
  double secondsLeft() const;
};

Baseline bmp(BaselineTask &task);
Baseline adaPipe(BaselineTask &task);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_BASELINES_BASELINESINTERNAL_H
