//===- RankSearch.h - How many parts, stages and replicas -----------------------------------===//
#ifndef PASSES_PLAN_RANKSEARCH_H
#define PASSES_PLAN_RANKSEARCH_H

#include "passes/plan/PartCopies.h"
#include "passes/plan/SearchPlan.h"
#include "runtime/planner/search/ranks/DivisionSearch.h"

namespace omnibal::plan {

/// What became of the divisions, and what they were planned on.
struct RankRecord {
  planner::RankReport report;
  planner::PlanChoice choice;
  cost::CostReports costs; ///< of the chosen one, where its stages have parts
};

/// Plans a module in form L with costs and `omnibal.cluster` (links and the memory of a rank) for
/// every division of the ranks that could be the best (planner::searchDivisions), and writes the
/// best as `searchStages` does, with the cluster. Where stages have parts, a copy of the module
/// gets layouts and costs by `passes`, and with the plan these are written, too; where nobody gave
/// a price of memory, layouts for which only time counts are planned beside those at the usual
/// price, and for the best divisions those at prices between, unless a bound says that they gain
/// nothing. On failure the module is as it was.
llvm::FailureOr<StagePlan> searchRanks(mlir::ModuleOp module, PlanChoices choices,
                                       const planner::RankLimits &limits, const PartsPasses &passes,
                                       RankRecord &record);

} // namespace omnibal::plan
#endif // PASSES_PLAN_RANKSEARCH_H
