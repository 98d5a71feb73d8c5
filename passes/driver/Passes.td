//===- Passes.td - What drives other passes ------------------------------------------------===//
#ifndef PASSES_DRIVER_PASSES_TD
#define PASSES_DRIVER_PASSES_TD

include "mlir/Pass/PassBase.td"

def FitMemory : Pass<"omnibal-fit-memory", "::mlir::ModuleOp"> {
  let summary = "Plan and lay out until every stage is within its memory limit";
  let description = [{
    A loop. Input: form L with costs and `omnibal.cluster`. Runs `pipeline`, which begins with
    omnibal-search-plan and ends with omnibal-lay-out-program, and compares `omnibal.arena` and
    `omnibal.workspace` with the limits. Where a stage needs more, what it lacks is added to
    `omnibal.headroom`, the module becomes again what it was, and `pipeline` runs once more, for
    `max-rounds` rounds at most. Without limits one round is all.

    A search predicts the arena, not the workspaces that its cuts lead to; this loop is what makes
    the limit hold for the program and not for a prediction.
  }];
  let options = [
    Option<"pipelineText", "pipeline", "std::string", "\"\"", "Passes of a round, on a module">,
    Option<"maxRounds", "max-rounds", "int64_t", "4",
           "1: the plan is given, and another round would find the same">,
    Option<"headroom", "headroom", "int64_t", "0",
           "Bytes that a stage needs beside its arena, whatever the cuts">
  ];
}

#endif // PASSES_DRIVER_PASSES_TD
