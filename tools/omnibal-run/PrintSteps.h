//===- PrintSteps.h - omnibal-run --print --loads ----------------------------------------===//
#ifndef TOOLS_OMNIBAL_RUN_PRINTSTEPS_H
#define TOOLS_OMNIBAL_RUN_PRINTSTEPS_H

#include "runtime/program/Program.h"
#include "runtime/support/Status.h"
#include "runtime/training/session/RunOptions.h"

namespace omnibal::rt {

/// The plans that a run of the program makes for the steps of `options.loads`, for people. An error
/// where its steps are not planned, or the loads are none of its steps.
Result<std::string> printSteps(const Program &program, const RunOptions &options);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_RUN_PRINTSTEPS_H
