//===- OmnibalPlanAttrs.td - Costs and plans as attributes -------------------------------===//
#ifndef DIALECTS_OMNIBAL_OMNIBALPLANATTRS_TD
#define DIALECTS_OMNIBAL_OMNIBALPLANATTRS_TD

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

def CostAttr : AttrDef<Plan_Dialect, "Cost"> {
  let mnemonic = "cost";
  let summary = "What a layer costs for one full micro-batch";
  let description = [{
    Nanoseconds of the forward and of both halves of the backward (without recomputation), and bytes
    held for the backward under the layer's `omnibal.remat`. Stands on a layer or a call as
    `omnibal.cost`.

    Constraints:
    * (cost_c1) nothing is negative;
    * (cost_c2) `omnibal.cost` on a layer or call is a #plan.cost.
  }];
  let parameters = (ins "int64_t":$forward, "int64_t":$input_grad, "int64_t":$weight_grad,
                        "int64_t":$saved);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def PlanAttr : AttrDef<Plan_Dialect, "Plan"> {
  let mnemonic = "pipeline";
  let summary = "Which rank runs which chunk, and by which schedule";
  let description = [{
    The choices that concern the whole module, written by the planner on the module as
    `omnibal.plan`; cuts and rematerialisation stand on the layers (`omnibal.chunk`,
    `omnibal.remat`). `chunk_ranks` has one rank (stage) a chunk.

    Constraints:
    * (plan_c1) stages, microbatches and data_parallel are at least 1;
    * (plan_c2) ranks are in [0, stages), and every rank has a chunk.
  }];
  let parameters = (ins StringRefParameter<>:$schedule, "int64_t":$stages, "int64_t":$microbatches,
                        "int64_t":$data_parallel, ArrayRefParameter<"int64_t">:$chunk_ranks);
  let assemblyFormat = [{
    `<` `schedule` `=` $schedule `,` `stages` `=` $stages `,` `microbatches` `=` $microbatches `,`
    `data_parallel` `=` $data_parallel `,` `chunk_ranks` `=` `[` $chunk_ranks `]` `>`
  }];
  let genVerifyDecl = 1;
}

#endif // DIALECTS_OMNIBAL_OMNIBALPLANATTRS_TD
