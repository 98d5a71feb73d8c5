//===- Table.h - A plan for people ----------------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_PLAN_TABLE_H
#define TOOLS_OMNIBAL_PLAN_TABLE_H

#include "passes/planner/PlanJson.h"
#include "passes/planner/Problem.h"

namespace omnibal::plan {

/// One line a rank (layers, times, recomputation, memory against the limit, idle share) and one for
/// the step, its bound and how the search ended.
std::string table(const planner::Problem &problem, const planner::Plan &plan,
                  const planner::PlanSearch &search);

} // namespace omnibal::plan
#endif // TOOLS_OMNIBAL_PLAN_TABLE_H
