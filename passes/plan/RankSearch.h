//===- RankSearch.h - How many parts, stages and replicas -----------------------------------===//
#ifndef PASSES_PLAN_RANKSEARCH_H
#define PASSES_PLAN_RANKSEARCH_H

#include "passes/plan/PartCopies.h"
#include "passes/plan/SearchPlan.h"

namespace omnibal::plan {

/// A division of the ranks, and what became of it.
struct RankCandidate {
  planner::RankDivision division;
  int64_t boundNs = 0;           ///< no plan of it takes less
  std::optional<int64_t> stepNs; ///< of the best plan found
  std::string ruledOut;          ///< why it was not planned, or has no plan; empty: it has one
  bool isInfeasible = false;     ///< it has no plan
  bool isRefused = false;        ///< so many parts cannot run the model
  bool isChosen = false;
  /// That its layouts were searched at, where that was not the usual price: 0 or a price between,
  /// where those are better, or that of all, where those at the usual price left too much in
  /// memory.
  std::optional<double> layoutPrice = std::nullopt;
};

constexpr double farBehind = 1.2;
constexpr int mostSearched = 4;

struct RankReport {
  planner::RankLimits limits;
  std::vector<RankCandidate> candidates; ///< one a division, in the order of their bounds
  int64_t boundNs = 0;                   ///< no plan of any division takes less
  cost::CostReports costs;               ///< of the chosen one, where its stages have parts

  const RankCandidate &chosen() const;
};

/// Plans a module in form L with costs and `omnibal.cluster` (links and the memory of a rank) for
/// every division of the ranks that could be the best, and writes the best as `searchStages` does,
/// with the cluster. Where stages have parts, a copy of the module gets layouts and costs by
/// `passes`, and with the plan these are written, too; where nobody gave a price of memory, layouts
/// for which only time counts are planned beside those at the usual price, and for the
/// `mostSearched` best divisions those at prices between, unless a bound says that they gain
/// nothing. A division whose bound is not below a step that was found is passed over. Of equal
/// steps the one of fewer parts, then without ZeRO-1, then of fewer stages. Where the schedule is
/// to be searched, too, all divisions are planned with 1F1B and ZB-H1 first, and only the
/// `mostSearched` best, and of them those whose step is then less than `farBehind` times the best,
/// get a schedule of their own. On failure the module is as it was.
llvm::FailureOr<StagePlan> searchRanks(mlir::ModuleOp module, PlanChoices choices,
                                       const planner::RankLimits &limits, const PartsPasses &passes,
                                       RankReport &report);

} // namespace omnibal::plan
#endif // PASSES_PLAN_RANKSEARCH_H
