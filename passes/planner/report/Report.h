//===- Report.h - A plan as a page ----------------------------------------------------------===//
#ifndef PASSES_PLANNER_REPORT_REPORT_H
#define PASSES_PLANNER_REPORT_REPORT_H

#include "passes/planner/PlanJson.h"
#include "passes/planner/Simulator.h"
#include "passes/planner/baselines/Baselines.h"

namespace omnibal::planner {

struct ReportInput {
  std::string title; ///< of whom the plan is
  std::string table; ///< the tool's own table, shown as it is
  const Problem &problem;
  const Plan &plan;
  const Timeline &timeline; ///< of the plan, without an error
  std::optional<PlanSearch> search;
  std::vector<Baseline> baselines; ///< empty: not asked for
};

/// Self-contained HTML (style, script and data within): the step on every rank, each rank's memory
/// over time against its limit, what the stages hold, the plan against baselines. At most 256 ranks
/// are drawn, evenly chosen; actions beyond a number that keeps the page below 5 MB are drawn as
/// shares of equal parts of the step.
std::string htmlReport(const ReportInput &input);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_REPORT_REPORT_H
