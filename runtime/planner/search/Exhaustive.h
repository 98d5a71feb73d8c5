//===- Exhaustive.h - The judge of every search ---------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_EXHAUSTIVE_H
#define RUNTIME_PLANNER_SEARCH_EXHAUSTIVE_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <optional>

namespace omnibal::planner {

/// Returns the best plan of gpipe or 1f1b with one chunk per stage, or none if nothing fits. It
/// tries all cuts and all choices of options that fit, each timed by the simulator, and leaves out
/// only choices for a stage that another one equals or beats in memory and recomputation of every
/// micro-batch. It shares no code with the searches. It is slow and meant for tests and small
/// problems.
std::optional<Plan> solveExhaustively(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_EXHAUSTIVE_H
