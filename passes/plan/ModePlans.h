//===- ModePlans.h - Plans of all training modes of a program -------------------------------===//
#ifndef PASSES_PLAN_MODEPLANS_H
#define PASSES_PLAN_MODEPLANS_H

#include "passes/plan/SearchPlan.h"

namespace omnibal::plan {

struct ModePlans {
  std::vector<StagePlan> modes; ///< by number; all have the same cuts
  /// No cuts and plans take less for the epoch's steps of all modes; 0: cuts were not searched.
  double boundNs = 0;
};

/// Plans a module of training modes (TrainModes.h) in form L with costs: cuts for all of them, and
/// with these for each mode what searchStages() decides. `method` is as in PlanChoices; `planFile`,
/// if there is one, says the cuts. The memory of a stage is that of its largest mode, with all
/// modes' constants. Writes on each mode what searchStages() does. Errors name the mode.
llvm::FailureOr<ModePlans> searchModePlans(mlir::ModuleOp program, const std::string &method,
                                           const std::string &planFile);

} // namespace omnibal::plan
#endif // PASSES_PLAN_MODEPLANS_H
