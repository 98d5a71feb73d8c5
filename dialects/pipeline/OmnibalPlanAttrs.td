//===- OmnibalPlanAttrs.td - Costs and plans as attributes -------------------------------===//
#ifndef DIALECTS_PIPELINE_OMNIBALPLANATTRS_TD
#define DIALECTS_PIPELINE_OMNIBALPLANATTRS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "dialects/pipeline/LayoutAttr.td"
include "dialects/pipeline/OmnibalPlanEnums.td"

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
    of a split backward.

    Constraints:
    * (option_c1) the name is not empty, nothing is negative.
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$saved, "int64_t":$recompute,
                        "int64_t":$workspace, OptionalParameter<"::mlir::IntegerAttr">:$split);
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

def FormalAttr : AttrDef<Plan_Dialect, "Formal"> {
  let mnemonic = "formal";
  let summary = "The buffer that stands for one formal of a function";
  let description = [{
    Its role, the number of its kind (`index`) or, of values of the micro-batch, constants and
    results, its `name`, and its bytes at the caps. Parameters and their gradients are left out: they
    have their place however layers run.

    Constraints:
    * (formal_c1) bytes are not negative.
  }];
  let parameters = (ins "::omnibal::FormalRole":$role, DefaultValuedParameter<"int64_t", "-1">:$index,
                        StringRefParameter<"", "\"\"">:$name, "int64_t":$bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FunctionBuffersAttr : AttrDef<Plan_Dialect, "FunctionBuffers"> {
  let mnemonic = "function";
  let summary = "The memory that a call of a lowered function needs";
  let description = [{
    Bytes of its temporaries at the caps and the buffers of its formals, in order. `products` and
    `column_sums` say that its kernels use the memory which a device's library of products or its sums
    of columns keep beside the arena; `move_bytes` are what the largest of its moves among parts takes
    there.

    Constraints:
    * (function_buffers_c1) bytes are not negative, and formals are #plan.formal.
  }];
  let parameters = (ins "int64_t":$workspace, "::mlir::ArrayAttr":$formals,
                        OptionalParameter<"::mlir::UnitAttr">:$products,
                        OptionalParameter<"::mlir::UnitAttr">:$column_sums,
                        DefaultValuedParameter<"int64_t", "0">:$move_bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def OptionBuffersAttr : AttrDef<Plan_Dialect, "OptionBuffers"> {
  let mnemonic = "functions";
  let summary = "The functions that train a layer under one option";
  let description = [{
    Its forward and, where something trains, its backward, whole and in halves.
  }];
  let parameters = (ins "::omnibal::FunctionBuffersAttr":$forward,
                        OptionalParameter<"::omnibal::FunctionBuffersAttr">:$backward,
                        OptionalParameter<"::omnibal::FunctionBuffersAttr">:$input_grad,
                        OptionalParameter<"::omnibal::FunctionBuffersAttr">:$weight_grad);
  let assemblyFormat = "`<` struct(params) `>`";
}

def BuffersAttr : AttrDef<Plan_Dialect, "Buffers"> {
  let mnemonic = "buffers";
  let summary = "What a layer's functions hold, from which the memory of a stage is laid out";
  let description = [{
    Bytes of each output at the caps, the functions of evaluation and prediction and, by the name of
    each option, those of training (#plan.functions). Stands on a layer as `omnibal.buffers`.

    Constraints:
    * (buffers_c1) bytes are not negative, and options are #plan.functions;
    * (buffers_c2) `omnibal.buffers` on a layer is a #plan.buffers, with bytes of each output and with
      the options of its `omnibal.cost`.
  }];
  let parameters = (ins "::mlir::DenseI64ArrayAttr":$outputs,
                        "::omnibal::FunctionBuffersAttr":$evaluate,
                        "::omnibal::FunctionBuffersAttr":$inference,
                        "::mlir::DictionaryAttr":$options);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def ParameterCostAttr : AttrDef<Plan_Dialect, "ParameterCost"> {
  let mnemonic = "parameter";
  let summary = "What a parameter costs a stage that uses it";
  let description = [{
    `resident` bytes on every stage that uses the parameter, however many of its layers do: values
    and, where it trains, gradient and optimizer state, which is `state` bytes. `reduced` bytes of its
    gradient travel between replicas. What kernels read is float32, or half as large beside float32
    values that the optimizer keeps with its moments. Stands on an `omnibal.parameter` as
    `omnibal.cost`.

    Constraints:
    * (parameter_cost_c1) nothing is negative;
    * (parameter_cost_c2) gradient and state are part of what is resident, and what has no gradient
      has no state.
  }];
  let parameters = (ins "int64_t":$resident, "int64_t":$reduced,
                        DefaultValuedParameter<"int64_t", "0">:$state);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Of `resident`: what kernels read.
    int64_t getValues() const { return getResident() - getReduced() - getState(); }
    /// What an update changes of what kernels read.
    int64_t getUpdated() const { return getReduced() > 0 ? getValues() : 0; }
  }];
}

def OptimizerAttr : EnumAttr<Plan_Dialect, Optimizer, "optimizer"> {
  let summary = "How parameters are updated";
  let description = [{
    The optimizer, which decides how many moments a parameter has that trains: two with `adamw`, one
    with `lion` and `sgd`, and with `muon` one of the matrices that it orthogonalizes, which have
    `omnibal.orthogonalized`, and two of others. With `adafactor` a parameter of two dimensions or
    more has the variances of its rows and of its columns, and another one that of each element.
    Stands on the module as `omnibal.optimizer`; without it, `adamw`.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def ClusterAttr : AttrDef<Plan_Dialect, "Cluster"> {
  let mnemonic = "cluster";
  let summary = "The stages that a plan is for";
  let description = [{
    Stages, `memory` of each stage in bytes (none: no limit; one: all alike), latency in ns and
    bytes/s between stages and, for the gradients, between the `data_parallel` replicas of a stage.
    With `zero = 1` the replicas divide the optimizer's state. Each stage of a replica is run by
    `parts` ranks together. Those of a stage are neighbors among all ranks; with `rank_order = stage`
    the stages of a replica are, too, and with `replica` the replicas of a stage.
    Stands on the module as `omnibal.cluster`.

    Constraints:
    * (cluster_c1) stages and data_parallel are at least 1, bytes/s positive, latencies not negative;
    * (cluster_c2) no memory, one, or one a stage; none negative;
    * (cluster_c3) zero is 0 or, with several replicas, 1;
    * (cluster_c4) parts are from 1 to 65536.
  }];
  let parameters = (ins "int64_t":$stages, OptionalParameter<"::mlir::DenseI64ArrayAttr">:$memory,
                        "int64_t":$latency, "int64_t":$bytes_per_s, "int64_t":$data_parallel,
                        "int64_t":$replica_latency, "int64_t":$replica_bytes_per_s,
                        DefaultValuedParameter<"int64_t", "0">:$zero,
                        DefaultValuedParameter<"int64_t", "1">:$parts,
                        DefaultValuedParameter<"::omnibal::RankOrder",
                                               "::omnibal::RankOrder::Stage">:$rank_order);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def LoadAttr : AttrDef<Plan_Dialect, "Load"> {
  let mnemonic = "load";
  let summary = "The load of one micro-batch";
  let description = [{
    By kind of layer, how long a layer takes for it, in ten-thousandths of its time for a full
    micro-batch: `#plan.load<language = 12500, vision = 6250>`. Kinds that are not there take as long
    as for a full one. A list of these, one a micro-batch, stands on the module as `omnibal.loads`.

    Constraints:
    * (load_c1) factors are i64 and not negative.
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$factors);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Factors are whole numbers of 1 / unit.
    static constexpr int64_t unit = 10000;
  }];
}

def ActionsAttr : AttrDef<Plan_Dialect, "Actions"> {
  let mnemonic = "actions";
  let summary = "What a stage computes in a training step, in order";
  let description = [{
    A kind with its micro-batch and chunk each: `#plan.actions<forward(0, 0), backward(0, 0)>`.
    `forward`, `backward`, or its halves `input_grad` (with the recomputation) and `weight_grad`.

    Constraints:
    * (actions_c1) micro-batches and chunks are from 0 to 2^31 - 1.
  }];
  let parameters = (ins ArrayRefParameter<"::omnibal::PlannedAction">:$list);
  let hasCustomAssemblyFormat = 1;
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
    the rule that `schedule` names: one #plan.actions a stage. With `zero = 1` the replicas divide
    the optimizer's state: each gets its share of the summed gradients, and tells the others what it
    has updated. Each stage of a replica is run by `parts` ranks together, which have the same
    actions.

    Constraints:
    * (pipeline_c1) stages, microbatches and data_parallel are at least 1;
    * (pipeline_c2) stages are in [0, stages), and every stage has a chunk;
    * (pipeline_c3) `actions` has one list a stage;
    * (pipeline_c4) every chunk runs on its stage, each micro-batch once: its forward, then its
      backward, or input_grad and later weight_grad;
    * (pipeline_c5) zero is 0 or, with several replicas, 1;
    * (pipeline_c6) parts are from 1 to 65536.
  }];
  let parameters = (ins StringRefParameter<>:$schedule, "int64_t":$stages, "int64_t":$microbatches,
                        "int64_t":$data_parallel, DefaultValuedParameter<"int64_t", "0">:$zero,
                        DefaultValuedParameter<"int64_t", "1">:$parts,
                        ArrayRefParameter<"int64_t">:$chunk_stages,
                        OptionalArrayRefParameter<"::omnibal::ActionsAttr">:$actions);
  let assemblyFormat = [{
    `<` `schedule` `=` $schedule `,` `stages` `=` $stages `,` `microbatches` `=` $microbatches `,`
    `data_parallel` `=` $data_parallel `,` (`zero` `=` $zero^ `,`)? (`parts` `=` $parts^ `,`)?
    `chunk_stages` `=` `[` $chunk_stages `]`
    (`,` `actions` `=` `[` $actions^ `]`)? `>`
  }];
  let genVerifyDecl = 1;
}

def TrainModeAttr : AttrDef<Plan_Dialect, "TrainMode"> {
  let mnemonic = "train_mode";
  let summary = "The training mode that a module is for";
  let description = [{
    A program for several groups of lengths has a training mode for each. `number` counts them from
    0 by ascending caps, `name` is for people. Micro-batches of the mode have at most `tiles` and
    `tokens`, its steps so many `microbatches`, and an epoch of the data `steps` of them. Where
    `degree` is above 1, so many neighboring replicas run a micro-batch together, as parts of their
    stage, and sum the gradients of all parameters as replicas do. `remat` and
    `schedule` are what planning may decide (as options of omnibal-search-plan); `options`, where
    present, has what each layer recomputes. `last` marks the mode with the largest caps, at which
    evaluation and prediction run. Stands on a module of layers as `omnibal.train_mode`; the module
    around it, which has nothing else, is the program's.

    Constraints:
    * (train_mode_c1) number, tiles and steps are at least 0, tokens, microbatches and degree at
      least 1;
    * (train_mode_c2) `options` are strings.
  }];
  let parameters = (ins "int64_t":$number, StringRefParameter<>:$name, "int64_t":$tiles,
                        "int64_t":$tokens, "int64_t":$microbatches, "int64_t":$steps,
                        StringRefParameter<>:$schedule, StringRefParameter<>:$remat,
                        OptionalParameter<"::mlir::ArrayAttr">:$options,
                        DefaultValuedParameter<"int64_t", "1">:$degree,
                        OptionalParameter<"::mlir::UnitAttr">:$last);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def LayoutAttr : LayoutAttrOf<Plan_Dialect>;

#endif // DIALECTS_PIPELINE_OMNIBALPLANATTRS_TD
