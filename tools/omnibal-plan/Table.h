//===- Table.h - A plan for people ----------------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_PLAN_TABLE_H
#define TOOLS_OMNIBAL_PLAN_TABLE_H

#include "runtime/planner/baselines/Baselines.h"
#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::plan {

/// One line a stage (layers, times, recomputation, memory against the limit, idle share) and one
/// for the step, its bound and how the search ended.
std::string table(const planner::Problem &problem, const planner::Plan &plan,
                  const planner::PlanSearch &search);

/// One line a baseline: its step, as a multiple of the plan's, and why where it has none.
std::string baselineTable(const planner::Plan &plan,
                          const std::vector<planner::Baseline> &baselines);

} // namespace omnibal::plan
#endif // TOOLS_OMNIBAL_PLAN_TABLE_H
