//===- Steps.h - omnibal-plan --steps and --check-steps --------------------------------------===//
#ifndef TOOLS_OMNIBAL_PLAN_STEPS_H
#define TOOLS_OMNIBAL_PLAN_STEPS_H

#include "runtime/support/Status.h"
#include "tools/omnibal-plan/Options.h"

namespace omnibal::plan {

/// Plans every line of loads and writes the plans, a line a step, and a summary to stdout.
rt::Status planSteps(const Options &options);

/// Checks plans with the independent checker; violations go to stderr. Returns whether all plans
/// are valid.
rt::Result<bool> checkSteps(const Options &options);

} // namespace omnibal::plan
#endif // TOOLS_OMNIBAL_PLAN_STEPS_H
