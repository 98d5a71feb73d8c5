//===- Report.h - A plan as a page ----------------------------------------------------------===//
#ifndef TOOLS_REPORT_REPORT_H
#define TOOLS_REPORT_REPORT_H

#include "runtime/planner/baselines/Baselines.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/json/PlanJson.h"
#include "tools/report/StepSamples.h"

namespace omnibal::planner {

struct ReportInput {
  std::string title; ///< of whom the plan is
  std::string table; ///< the tool's own table, shown as it is
  const Problem &problem;
  const Plan &plan;
  const Timeline &timeline; ///< of the plan, without an error
  std::optional<PlanSearch> search;
  std::vector<Baseline> baselines;         ///< empty: not asked for
  std::optional<StepSamples> samples = {}; ///< none: every step runs this plan
};

/// Self-contained HTML (style, script and data within): the step on every stage, each stage's
/// memory over time against its limit, what the stages hold, samples of steps that are planned by
/// themselves, the plan against baselines. At most
/// 256 stages are drawn, evenly chosen; actions beyond a number that keeps the page below 5 MB are
/// drawn as shares of equal parts of the step.
std::string htmlReport(const ReportInput &input);

} // namespace omnibal::planner
#endif // TOOLS_REPORT_REPORT_H
