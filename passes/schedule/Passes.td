//===- Passes.td - From a plan to the actions of every stage -----------------------------===//
#ifndef PASSES_SCHEDULE_PASSES_TD
#define PASSES_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def MaterializeSchedule : Pass<"omnibal-materialize-schedule", "::mlir::ModuleOp"> {
  let summary = "Writes what every stage does as ops";
  let description = [{
    Input: form C whose calls carry `omnibal.chunk`, and `omnibal.plan` on the module. Adds an
    `omnibal.transfer` for every message between chunks and an `omnibal.stage` for every stage and
    mode: for a training step the compute actions of the plan's schedule, the communication between
    them, and the step's end; for evaluate and inference the forward of every micro-batch.
    Fails on a schedule that is not known, on chunks that the plan does not have, and on a module
    that has stages already.
  }];
  let dependentDialects = ["::omnibal::OmnibalDialect"];
}

#endif // PASSES_SCHEDULE_PASSES_TD
