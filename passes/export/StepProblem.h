//===- StepProblem.h - What plans of a program's steps are made from --------------------------===//
#ifndef PASSES_EXPORT_STEPPROBLEM_H
#define PASSES_EXPORT_STEPPROBLEM_H

#include "passes/layout/ProgramLayout.h"
#include "runtime/planner/step/StepProblem.h"

namespace omnibal::exporter {

/// Whether the vision component computes each tile by itself, so that plans may divide
/// micro-batches by their tiles. Says in a remark what prevents it. The layer functions are not
/// lowered yet.
bool tilesAreApart(mlir::ModuleOp module, const analysis::CallGraph &graph);

/// The step problem of a program that was laid out for plans of single steps: times from
/// `omnibal.time_models` of the calls, blocks from the layout, the link from `omnibal.cluster`,
/// memory and static lists from mode "train". Reports a layer without its times. `mayDivide`: see
/// tilesAreApart().
llvm::FailureOr<planner::StepProblem> readStepProblem(mlir::ModuleOp module,
                                                      const layout::ProgramParts &parts,
                                                      const rt::Program &program, bool mayDivide);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_STEPPROBLEM_H
