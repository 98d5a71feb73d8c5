//===- Passes.td - What layers cost -------------------------------------------------===//
#ifndef PASSES_COST_PASSES_TD
#define PASSES_COST_PASSES_TD

include "mlir/Pass/PassBase.td"

def AnnotateCosts : Pass<"omnibal-annotate-costs", "::mlir::ModuleOp"> {
  let summary = "Writes what every layer and every way to rematerialize it costs";
  let description = [{
    Input: form L with a loss (after omnibal-attach-loss). Builds and lowers the functions that each
    distinct layer would have under each of its rematerialization options, and writes their times
    (roofline of the device) and bytes for a micro-batch of `tiles` and `tokens`: `omnibal.cost` and
    `omnibal.buffers` on layers, `omnibal.cost` on parameters.
  }];
  let options = [
    Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">,
    Option<"target", "target", "std::string", "\"host\"", "host (float32) or cuda (bfloat16)">,
    Option<"device", "device", "std::string", "\"cpu\"", "Entry of the device table">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

#endif // PASSES_COST_PASSES_TD
