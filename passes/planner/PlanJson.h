//===- PlanJson.h - Plans as JSON -----------------------------------------------------------===//
#ifndef PASSES_PLANNER_PLANJSON_H
#define PASSES_PLANNER_PLANJSON_H

#include "passes/planner/Plan.h"
#include "llvm/Support/Error.h"

namespace omnibal::planner {

/// Reads a plan written by hand or by the search: `cuts` is required; `remat`, `schedule`,
/// `chunk_rank` and `actions` are used where present (empty otherwise). `path` is for messages,
/// which name the file and the key. Unknown keys are errors.
llvm::Expected<Plan> readPlan(llvm::StringRef path);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_PLANJSON_H
