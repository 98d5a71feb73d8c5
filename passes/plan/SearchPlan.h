//===- SearchPlan.h - From costs to a plan, both as attributes ------------------------------===//
#ifndef PASSES_PLAN_SEARCHPLAN_H
#define PASSES_PLAN_SEARCHPLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/layout/PlannedMemory.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/model/Problem.h"
#include "runtime/planner/search/Search.h"
#include "runtime/planner/search/ranks/DivisionSearch.h"
#include <optional>

namespace omnibal::plan {

/// What a stage needs for other training modes of the program.
struct OthersNeed {
  int64_t constantBytes = 0, workspaceBytes = 0; ///< in the arena, and beside it
};

/// What a person decides of a plan.
struct PlanChoices {
  std::string method = "layers"; ///< search | layers | parameters | greedy
  std::string remat = "auto";    ///< auto | none | full | selective-N
  std::string schedule = "1f1b"; ///< as planner::scheduleActions knows them
  int64_t microbatches = 4;
  bool subMicrobatches = true; ///< plans of single steps may divide micro-batches by their tiles
  planner::SearchOptions searching; ///< of each search
  /// With schedule "auto": the better of the plans that were made with 1F1B and ZB-H1 before; only
  /// where the search finds none as good is this schedule planned again.
  std::optional<planner::NamedStep> ranked;
  std::string planFile; ///< a plan by hand; wins over method, remat and schedule where it says so
  /// What other training modes of the program say (ModePlans.h); empty: nothing is given.
  std::vector<int64_t> givenCuts;
  std::vector<std::string> givenRemat; ///< by layer, wins over `remat`
  std::vector<OthersNeed> others;      ///< by stage
  bool trainsOnly = false;             ///< evaluation and prediction run in another mode
};

/// A plan and what it is predicted to do.
struct StagePlan {
  planner::Problem problem;
  planner::Plan plan;
  planner::Timeline timeline;
  std::vector<int64_t> parameterElements;    ///< by stage; one that several layers use counts once
  std::vector<int64_t> peakBytesAtCaps;      ///< by stage, as rule 5 counts, micro-batches full
  std::vector<layout::StageMemory> memory;   ///< by stage, as its program will need
  bool rematFixed = false;                   ///< by the choices: not for the search to decide
  std::optional<planner::PlanSearch> search; ///< how the cuts were found, if by a search
  std::vector<int64_t> reserved;             ///< by stage, what came off its limit
  /// What plans of steps may recompute in each layer; none: they are not planned.
  std::optional<layout::StepVariants> stepVariants;

  /// What the arena of a stage holds beyond what rule 5 counts.
  int64_t reservedBytes(int64_t stage) const {
    return std::max<int64_t>(0, memory[stage].arenaBytes - peakBytesAtCaps[stage]);
  }
};

/// Plans a module in form L with costs (cost::CostModel) and `omnibal.cluster`. Method "search"
/// chooses cuts and, with remat "auto", what is recomputed together; otherwise each stage
/// recomputes the least that its memory limit needs. What a stage needs beyond rule 5
/// (PlannedMemory.h) is reserved: it comes off the limit, and `problem` has what is left. With
/// `omnibal.loads` times are those of the loads, while memory is planned for full micro-batches.
/// Errors are reported at the module, which stays as it is.
llvm::FailureOr<StagePlan> planStages(mlir::ModuleOp module, const PlanChoices &choices);

/// Writes `omnibal.chunk`, `omnibal.remat`, `omnibal.plan` and `omnibal.reserved`, and where steps
/// are planned one by one, which options a step may choose from.
void writeStages(mlir::ModuleOp module, const StagePlan &planned);

/// Both of the above; nothing is written unless there is a plan.
llvm::FailureOr<StagePlan> searchStages(mlir::ModuleOp module, const PlanChoices &choices);

} // namespace omnibal::plan
#endif // PASSES_PLAN_SEARCHPLAN_H
