//===- CutFit.h - The least recomputation that fits given cuts ------------------------------===//
#ifndef RUNTIME_PLANNER_LENGTHS_CUTFIT_H
#define RUNTIME_PLANNER_LENGTHS_CUTFIT_H

#include "runtime/planner/remat/RematChoices.h"
#include <optional>

namespace omnibal::planner {

/// What a problem's layers recompute under any cuts, exactly; what was found for a stage is kept
/// for the next cuts. The schedule is gpipe or 1f1b, all micro-batches are full, and the problem
/// outlives this.
class CutFit {
public:
  explicit CutFit(const Problem &problem);
  CutFit(const CutFit &) = delete;
  CutFit &operator=(const CutFit &) = delete;

  /// The option number of every layer; none where a stage cannot fit.
  std::optional<std::vector<int>> options(const std::vector<int64_t> &cuts);
  /// What the stages recompute together at least, whatever the cuts; none where no cuts fit.
  std::optional<int64_t> leastRecomputationNs();

private:
  PlanningModel model;
  SearchControl control;
  std::unique_ptr<RematChoices> choices;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_LENGTHS_CUTFIT_H
