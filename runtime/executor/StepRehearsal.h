//===- StepRehearsal.h - All that plans of single steps may run, for measuring ------------===//
#ifndef RUNTIME_EXECUTOR_STEPREHEARSAL_H
#define RUNTIME_EXECUTOR_STEPREHEARSAL_H

#include "runtime/executor/StepRuns.h"

namespace omnibal::rt {

/// Every kind of action of every chunk in each variant, on micro-batch 0: all forwards and whole
/// backwards, then all forwards and split ones. Needs the first rehearsalBytes() of the arena.
std::unique_ptr<StepRun> rehearsalOf(const Stage &stage);

/// 0: the program has no mode "train".
int64_t rehearsalBytes(const Stage &stage);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_STEPREHEARSAL_H
