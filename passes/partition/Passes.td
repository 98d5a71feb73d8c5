//===- Passes.td - Cutting layers into stages --------------------------------------------===//
#ifndef PASSES_PARTITION_PASSES_TD
#define PASSES_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionStages : Pass<"omnibal-partition-stages", "::mlir::ModuleOp"> {
  let summary = "Decide the stage and the rematerialisation of every layer";
  let description = [{
    Input: form L with a loss (after omnibal-attach-loss). Derives the planning problem from the functions
    that the layers would have, cuts by `method` or takes the cuts of `plan`, recomputes what a memory limit
    demands, and writes `omnibal.chunk` and `omnibal.remat` on the layers (form P). An analysis remark a
    stage gives its layers, times and memory.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "1", "Pipeline stages">,
    Option<"method", "method", "std::string", "\"layers\"", "search, layers, parameters or greedy">,
    Option<"remat", "remat", "std::string", "\"auto\"", "auto, none or full">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "1f1b or gpipe">,
    Option<"plan", "plan", "std::string", "\"\"", "Plan by hand (JSON file); wins over the above">,
    Option<"microbatches", "microbatches", "int64_t", "4", "Micro-batches of a step">,
    Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">,
    Option<"memoryLimitBytes", "memory-limit-bytes", "int64_t", "0", "Memory of one rank; 0: no limit">,
    Option<"device", "device", "std::string", "\"cpu\"", "Entry of the device table">
  ];
}

#endif // PASSES_PARTITION_PASSES_TD
