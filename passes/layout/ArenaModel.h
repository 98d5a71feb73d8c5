//===- ArenaModel.h - The memory of every stage under a plan, from attributes ---------------===//
//
// Rule 5 of docs/planner.md counts parameters, saved values and the largest workspace. A stage's
// arena also holds what comes and goes: receive and send buffers, values of the micro-batch,
// losses, constants, second copies of tied parameters, gaps. The model lays out the same regions as
// passes/export does, from the bytes in `omnibal.cost` and `omnibal.buffers`; what it finds above
// rule 5 is a stage's `reserved` memory.
//
//===----------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYOUT_ARENAMODEL_H
#define PASSES_LAYOUT_ARENAMODEL_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"

namespace omnibal::layout {

/// Returns the bytes of every stage's arena at the caps, for a module in form L with costs. `plan`
/// is complete.
llvm::FailureOr<std::vector<int64_t>>
predictArenas(mlir::ModuleOp module, const planner::Problem &problem, const planner::Plan &plan);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_ARENAMODEL_H
