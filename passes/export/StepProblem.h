//===- StepProblem.h - What plans of a program's steps are made from --------------------------===//
#ifndef PASSES_EXPORT_STEPPROBLEM_H
#define PASSES_EXPORT_STEPPROBLEM_H

#include "passes/layout/ProgramLayout.h"
#include "runtime/planner/step/StepProblem.h"

namespace omnibal::exporter {

/// The step problem of a program that was laid out for plans of single steps: times from
/// `omnibal.time_models` of the calls, blocks from the layout, the link from `omnibal.cluster`,
/// memory and static lists from mode "train". Reports a layer without its times.
llvm::FailureOr<planner::StepProblem> readStepProblem(mlir::ModuleOp module,
                                                      const layout::ProgramParts &parts,
                                                      const rt::Program &program);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_STEPPROBLEM_H
