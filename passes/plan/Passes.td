//===- Passes.td - Cutting layers into stages --------------------------------------------===//
#ifndef PASSES_PLAN_PASSES_TD
#define PASSES_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def SearchPlan : Pass<"omnibal-search-plan", "::mlir::ModuleOp"> {
  let summary = "Decides the stage and the rematerialization of every layer from their costs";
  let description = [{
    Input: form L with costs (omnibal-annotate-costs, or by hand). Reads them, `omnibal.cluster` and
    `omnibal.loads` as a planning problem, cuts by `method` or takes the cuts of `plan`, recomputes
    what the memory limits demand, and writes `omnibal.chunk` and `omnibal.remat` on the layers and
    `omnibal.plan` on the module (form P), or nothing. `stages` above 0 writes `omnibal.cluster`
    first: that many stages with the default links. Analysis remarks give layers, times and memory of
    each stage and say what limits it.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "0", "Pipeline stages; 0: as omnibal.cluster says">,
    Option<"memoryLimitBytes", "memory-limit-bytes", "int64_t", "0",
           "With stages: memory of one stage; 0: no limit">,
    Option<"method", "method", "std::string", "\"search\"", "search, layers, parameters or greedy">,
    Option<"remat", "remat", "std::string", "\"auto\"", "auto, none, full or selective-N">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe, 1f1b, interleaved:V, zb-h1 or auto">,
    Option<"microbatches", "microbatches", "int64_t", "4", "Micro-batches of a step">,
    Option<"plan", "plan", "std::string", "\"\"", "Plan by hand (JSON file); wins over the above">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def VerifyPlan : Pass<"omnibal-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Checks a plan against the costs that it was made for";
  let description = [{
    Input: form P with costs. Reads problem and plan from the attributes and checks them by rules
    that share no code with the search (plan_c1 .. plan_c9 in docs/planner.md). Each violation is an
    error at the layer, or at the first layer of the stage, that it is about.
  }];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def PartitionStages : Pass<"omnibal-partition-stages", "::mlir::ModuleOp"> {
  let summary = "Decides the stage and the rematerialization of every layer";
  let description = [{
    Input: form L with a loss (after omnibal-attach-loss). Runs omnibal-annotate-costs,
    omnibal-search-plan and omnibal-verify-plan in one, for a cluster of `stages` equal stages.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "1", "Pipeline stages">,
    Option<"method", "method", "std::string", "\"layers\"", "search, layers, parameters or greedy">,
    Option<"remat", "remat", "std::string", "\"auto\"", "auto, none, full or selective-N">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe, 1f1b, interleaved:V, zb-h1 or auto">,
    Option<"plan", "plan", "std::string", "\"\"", "Plan by hand (JSON file); wins over the above">,
    Option<"microbatches", "microbatches", "int64_t", "4", "Micro-batches of a step">,
    Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">,
    Option<"memoryLimitBytes", "memory-limit-bytes", "int64_t", "0", "Memory of one stage; 0: no limit">,
    Option<"device", "device", "std::string", "\"cpu\"", "Entry of the device table">
  ];
}

#endif // PASSES_PLAN_PASSES_TD
