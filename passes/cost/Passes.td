//===- Passes.td - What layers cost -------------------------------------------------===//
#ifndef PASSES_COST_PASSES_TD
#define PASSES_COST_PASSES_TD

include "mlir/Pass/PassBase.td"

def AnnotateCosts : Pass<"omnibal-annotate-costs", "::mlir::ModuleOp"> {
  let summary = "Writes what every layer and every way to rematerialize it costs";
  let description = [{
    Input: form L with a loss (after omnibal-attach-loss). Builds and lowers the functions that each
    distinct layer would have under each of its rematerialization options, and writes their times
    (of `calibration`, else by the roofline of the device) and bytes for a micro-batch of `tiles` and
    `tokens`: `omnibal.cost` and `omnibal.buffers` on layers, `omnibal.cost` on parameters.

    With `time-models` layers get `omnibal.time_models`: by option what forward, backward, input_grad
    and weight_grad take (in that order), each as nanoseconds fixed, per tile, per token and per
    squared token of a sample; and the module gets `omnibal.action_ns`, what an action takes besides,
    and `omnibal.step_samples`: some steps of `batches`, or a full one, to choose layouts by.

    With `batches` costs are those of this data's mean sample lengths, and `omnibal.loads` on the
    module says what part of a full micro-batch each of the data's typical step is; the replicas of
    `omnibal.cluster` run their groups side by side, so omnibal-attach-cluster comes first.

    A module of training modes (omnibal-split-modes) gets the costs of each, one after the other: caps,
    micro-batches and schedule are those of its `omnibal.train_mode`, and of the data what it runs.
  }];
  let options = [
    Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">,
    Option<"target", "target", "std::string", "\"host\"", "host or cuda">,
    Option<"compute", "compute", "std::string", "\"\"",
           "float32 or bfloat16; empty: float32 on host, bfloat16 on cuda">,
    Option<"device", "device", "std::string", "\"\"",
           "Entry of the device table; empty: as `cluster` names it, else cpu on host, h100 on cuda">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "Cluster description (JSON file) that may name or describe the device">,
    ListOption<"calibration", "calibration", "std::string",
               "Tables of omnibal-run --calibrate; the first that knows a function counts">,
    Option<"splitBackward", "split-backward", "bool", "false",
           "Times of measured halves count: the schedule may run the backward in two">,
    Option<"batches", "batches", "std::string", "\"\"",
           "Folder of omnibal-batch; empty: every micro-batch is full, of one sample">,
    Option<"microbatches", "microbatches", "int64_t", "4",
           "With batches: micro-batches of a step">,
    Option<"timeModels", "time-models", "bool", "false",
           "Write times as functions of the load, too: plans of single steps need them">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

#endif // PASSES_COST_PASSES_TD
