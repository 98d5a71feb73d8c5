//===- OmnibalPlanAttrs.td - Costs and plans as attributes -------------------------------===//
#ifndef DIALECTS_PIPELINE_OMNIBALPLANATTRS_TD
#define DIALECTS_PIPELINE_OMNIBALPLANATTRS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::omnibal";
  let summary = "Costs and plans: what planning reads and decides";
  let description = [{
    Attributes only, apart from the ops of `omnibal`: a decision is a value that passes exchange and
    that stands on ops under the names `omnibal.cost` and `omnibal.plan`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def RematOptionAttr : AttrDef<Plan_Dialect, "RematOption"> {
  let mnemonic = "option";
  let summary = "One way of a layer to trade memory for time";
  let description = [{
    What the layer holds from forward to backward (`saved`, bytes), the time that its backward takes
    longer than without recomputation (`recompute`, ns) and the temporaries of its calls
    (`workspace`, bytes). `split`, where it is there, is held in place of `saved` between the halves
    of a split backward. Of `saved`, `inputs` and `outputs` name the activations that other layers
    make or read as well.

    Constraints:
    * (option_c1) the name is not empty, nothing is negative.
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$saved, "int64_t":$recompute,
                        "int64_t":$workspace, OptionalParameter<"::mlir::IntegerAttr">:$split,
                        OptionalParameter<"::mlir::IntegerAttr">:$backward,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$inputs,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$outputs);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def CostAttr : AttrDef<Plan_Dialect, "Cost"> {
  let mnemonic = "cost";
  let summary = "What a layer costs for one full micro-batch";
  let description = [{
    Nanoseconds of the forward and of both halves of the backward (without recomputation), the bytes
    of every output and of the gradients that come back for it (0: none), and what the layer may
    recompute; the first option is "keep". Stands on a layer or a call as `omnibal.cost`.

    Constraints:
    * (cost_c1) nothing is negative;
    * (cost_c2) `omnibal.cost` on a layer or call is a #plan.cost;
    * (cost_c3) the options are #plan.option, of different names, "keep" first;
    * (cost_c4) as many `outputs` and `gradients` as the layer has outputs.
  }];
  let parameters = (ins "int64_t":$forward, "int64_t":$input_grad, "int64_t":$weight_grad,
                        "::mlir::DenseI64ArrayAttr":$outputs, "::mlir::DenseI64ArrayAttr":$gradients,
                        "::mlir::ArrayAttr":$options);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The option of that name; null where there is none.
    RematOptionAttr findOption(::llvm::StringRef name) const;
  }];
}

def BuffersAttr : AttrDef<Plan_Dialect, "Buffers"> {
  let mnemonic = "buffers";
  let summary = "What a layer needs of a stage's memory beside parameters and saved values";
  let description = [{
    Bytes at the caps: temporaries of its forward, and of its call in evaluation and prediction; by
    name, because layers of one stage share them, `constants` and the values of the micro-batch that
    training reads (`batch`), of which the backward reads `backward_batch`; `results`, what a
    micro-batch leaves until the end of the step (losses); `predictions`, the outputs of the graph
    that it makes. Stands on a layer as `omnibal.buffers`.

    Constraints:
    * (buffers_c1) nothing is negative, and the dictionaries hold i64;
    * (buffers_c2) `omnibal.buffers` on a layer is a #plan.buffers.
  }];
  let parameters = (ins "int64_t":$forward, "int64_t":$inference, "int64_t":$results,
                        "int64_t":$predictions, OptionalParameter<"::mlir::DictionaryAttr">:$batch,
                        OptionalParameter<"::mlir::DictionaryAttr">:$backward_batch,
                        OptionalParameter<"::mlir::DictionaryAttr">:$constants);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def ParameterCostAttr : AttrDef<Plan_Dialect, "ParameterCost"> {
  let mnemonic = "parameter";
  let summary = "What a parameter costs a stage that uses it";
  let description = [{
    `resident` bytes on every stage that uses the parameter, however many of its layers do: values
    and, where it trains, gradient and optimizer state. `reduced` bytes of its gradient travel
    between replicas. Stands on an `omnibal.parameter` as `omnibal.cost`.

    Constraints:
    * (parameter_cost_c1) nothing is negative.
  }];
  let parameters = (ins "int64_t":$resident, "int64_t":$reduced);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def ClusterAttr : AttrDef<Plan_Dialect, "Cluster"> {
  let mnemonic = "cluster";
  let summary = "The stages that a plan is for";
  let description = [{
    Stages, `memory` of each stage in bytes (none: no limit; one: all alike), latency in ns and
    bytes/s between stages and, for the gradients, between the `data_parallel` replicas of a stage.
    Stands on the module as `omnibal.cluster`.

    Constraints:
    * (cluster_c1) stages and data_parallel are at least 1, bytes/s positive, latencies not negative;
    * (cluster_c2) no memory, one, or one a stage; none negative.
  }];
  let parameters = (ins "int64_t":$stages, OptionalParameter<"::mlir::DenseI64ArrayAttr">:$memory,
                        "int64_t":$latency, "int64_t":$bytes_per_s, "int64_t":$data_parallel,
                        "int64_t":$replica_latency, "int64_t":$replica_bytes_per_s);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def PlanAttr : AttrDef<Plan_Dialect, "Plan"> {
  let mnemonic = "pipeline";
  let summary = "Which stage runs which chunk, and by which schedule";
  let description = [{
    The choices that concern the whole module, written by the planner on the module as
    `omnibal.plan`; cuts and rematerialization stand on the layers (`omnibal.chunk`,
    `omnibal.remat`). `chunk_stages` has the stage of each chunk.

    `actions`, where present, is what each stage computes in a training step, in order, in place of
    the rule that `schedule` names: one text a stage, of words KIND MICRO-BATCH `.` CHUNK with a
    space between them. F is a forward, B a whole backward, I its recomputation and input gradient,
    W its weight gradient: "F0.0 F1.0 I0.0 W0.0 B1.0".

    Constraints:
    * (pipeline_c1) stages, microbatches and data_parallel are at least 1;
    * (pipeline_c2) stages are in [0, stages), and every stage has a chunk;
    * (pipeline_c3) `actions` has one text a stage, and every word is as above;
    * (pipeline_c4) every chunk runs on its stage, each micro-batch once: F, then B, or I and later W.
  }];
  let parameters = (ins StringRefParameter<>:$schedule, "int64_t":$stages, "int64_t":$microbatches,
                        "int64_t":$data_parallel, ArrayRefParameter<"int64_t">:$chunk_stages,
                        OptionalParameter<"::mlir::ArrayAttr">:$actions);
  let assemblyFormat = [{
    `<` `schedule` `=` $schedule `,` `stages` `=` $stages `,` `microbatches` `=` $microbatches `,`
    `data_parallel` `=` $data_parallel `,` `chunk_stages` `=` `[` $chunk_stages `]`
    (`,` `actions` `=` $actions^)? `>`
  }];
  let genVerifyDecl = 1;
}

#endif // DIALECTS_PIPELINE_OMNIBALPLANATTRS_TD
