//===- SearchPlan.h - From costs to a plan, both as attributes ------------------------------===//
#ifndef PASSES_PLAN_SEARCHPLAN_H
#define PASSES_PLAN_SEARCHPLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/model/Problem.h"
#include <optional>

namespace omnibal::plan {

/// What a person decides of a plan.
struct PlanChoices {
  std::string method = "layers"; ///< search | layers | parameters | greedy
  std::string remat = "auto";    ///< auto | none | full | selective-N
  std::string schedule = "1f1b"; ///< as planner::scheduleActions knows them
  int64_t microbatches = 4;
  std::string planFile; ///< a plan by hand; wins over method, remat and schedule where it says so
  /// By stage, bytes to leave free of a limit besides those that the arena's model finds (room for
  /// workspaces outside the arena); empty: none.
  std::vector<int64_t> headroom = {};
};

/// A plan and what it is predicted to do.
struct StagePlan {
  planner::Problem problem;
  planner::Plan plan;
  planner::Timeline timeline;
  std::vector<int64_t> parameterElements;    ///< by stage; one that several layers use counts once
  std::vector<int64_t> peakBytesAtCaps;      ///< by stage, as rule 5 counts, micro-batches full
  std::vector<int64_t> reservedBytes;        ///< by stage, what its arena holds beyond that
  bool rematFixed = false;                   ///< by the choices: not for the search to decide
  std::optional<planner::PlanSearch> search; ///< how the cuts were found, if by a search
};

/// Plans a module in form L with costs (annotateCosts) and `omnibal.cluster`. Method "search"
/// chooses cuts and, with remat "auto", what is recomputed together; otherwise each stage
/// recomputes the least that its memory limit needs. What a stage's arena holds beyond rule 5
/// (ArenaModel.h) is reserved: it comes off the limit, and `problem` has what is left. With
/// `omnibal.loads` times are those of the loads, while memory is planned for full micro-batches.
/// Writes `omnibal.chunk`, `omnibal.remat`, `omnibal.plan` and `omnibal.reserved`. Errors are
/// reported at the module, and nothing is written unless the plan is complete.
llvm::FailureOr<StagePlan> searchStages(mlir::ModuleOp module, const PlanChoices &choices);

} // namespace omnibal::plan
#endif // PASSES_PLAN_SEARCHPLAN_H
