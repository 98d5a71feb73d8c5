//===- StepPlanJson.h - Step plans as lines of JSON -------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPPLANJSON_H
#define RUNTIME_PLANNER_STEP_STEPPLANJSON_H

#include "runtime/planner/step/StepPlan.h"
#include "runtime/support/Status.h"

namespace omnibal::planner {

/// Parses one line, `omnibal.step-plan/1` (docs/step-plans.md). Whether it is a plan of a problem
/// is for checkStepPlan to say.
rt::Result<StepPlan> parseStepPlan(std::string_view line, const std::string &where);
/// The line, with its end.
std::string writeStepPlan(const StepPlan &plan);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPPLANJSON_H
