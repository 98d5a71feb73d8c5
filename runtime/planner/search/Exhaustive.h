//===- Exhaustive.h - The judge of every search ---------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_EXHAUSTIVE_H
#define RUNTIME_PLANNER_SEARCH_EXHAUSTIVE_H

#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <optional>

namespace omnibal::planner {

/// The best plan of gpipe or 1f1b, one chunk a stage, found by trying all cuts and all choices of
/// options that fit, each timed by the simulator; none if nothing fits. Of the choices for a stage
/// only those are left out that another one equals or beats in memory and recomputation of every
/// micro-batch. Shares no code with the searches. Slow: for tests and small problems.
std::optional<Plan> solveExhaustively(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_EXHAUSTIVE_H
