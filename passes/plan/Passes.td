//===- Passes.td - Cutting layers into stages --------------------------------------------===//
#ifndef PASSES_PLAN_PASSES_TD
#define PASSES_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttachCluster : Pass<"omnibal-attach-cluster", "::mlir::ModuleOp"> {
  let summary = "Write which stages a plan is for";
  let description = [{
    Writes `omnibal.cluster`: as the file `cluster` describes it, else `stages` x `data-parallel`
    equal stages with the default links. Measured links of `calibration` stand in for default ones.
    Every stage then has a memory limit of its own, or none has one.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "Cluster description (JSON file)">,
    Option<"stages", "stages", "int64_t", "1",
           "Pipeline stages; a file that says how many must agree with other numbers than 1">,
    Option<"dataParallel", "data-parallel", "int64_t", "1", "Replicas; with a file as stages">,
    Option<"zero", "zero", "int64_t", "0",
           "1: replicas divide the optimizer's state; 0: they do not, or as the file says">,
    Option<"parts", "parts", "int64_t", "1",
           "Ranks that run a stage of a replica together; as long as layouts are not searched, all "
           "of them do the same">,
    Option<"rankOrder", "rank-order", "std::string", "\"stage\"",
           "Which ranks are neighbors: the stages of a replica (stage), or the replicas of a stage "
           "(replica)">,
    Option<"ranks", "ranks", "int64_t", "0",
           "So many ranks, as replicas of one stage until omnibal-search-ranks divides them; what "
           "a file says of stages and replicas does not count">,
    Option<"memoryLimitBytes", "memory-limit-bytes", "int64_t", "0",
           "Memory of one stage, before the file's; 0: as the file says">,
    ListOption<"calibration", "calibration", "std::string", "Tables of omnibal-run --calibrate">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def SplitModes : Pass<"omnibal-split-modes", "::mlir::ModuleOp"> {
  let summary = "Make a module for each training mode";
  let description = [{
    Input: form L with a loss and `omnibal.cluster`. Reads groups.json of `batches` and puts a copy
    of the module for each of its length groups into the module, in place of the layers, each with
    `omnibal.train_mode`; where the file has cuts, the module around them gets
    `omnibal.given_cuts`. Passes over layers then run on each mode, nested. Fails on length groups
    for other numbers of stages or replicas, or of another model, and on what programs cannot have
    (degrees of which one does not divide the largest). Replicas that run a micro-batch of a mode
    together become parts in its `omnibal.cluster`.
  }];
  let options = [
    Option<"batches", "batches", "std::string", "\"\"", "Folder of omnibal-batch --length-groups">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of any micro-batch">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "Of modes whose length group says none: gpipe, 1f1b, interleaved:V, zb-h1 or auto">,
    Option<"remat", "remat", "std::string", "\"auto\"",
           "Of modes whose length group says none: auto, none, full or selective-N">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def SearchModePlans : Pass<"omnibal-search-mode-plans", "::mlir::ModuleOp"> {
  let summary = "Decides stages that all training modes share, and each mode's rematerialization";
  let description = [{
    Input: a module of training modes (omnibal-split-modes) in form L with costs. Chooses cuts that
    all modes share, for the least time of an epoch with as many steps of each mode as its
    `omnibal.train_mode` says, and for every mode its schedule's lists and what it recomputes within
    the memory limits; does on each mode what omnibal-search-plan does on a module. Cuts that are
    given (`omnibal.given_cuts`, or `plan`) are taken. Fails where no cuts fit all modes, and names
    the mode that does not fit.
  }];
  let options = [
    Option<"method", "method", "std::string", "\"search\"", "search, layers, parameters or greedy">,
    Option<"plan", "plan", "std::string", "\"\"", "Plan by hand (JSON file), of which only `cuts` are taken">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def SearchLengthGroups : Pass<"omnibal-search-length-groups", "::mlir::ModuleOp"> {
  let summary = "Finds the length groups that a model may be trained with, and what each costs";
  let description = [{
    Input: form L with a loss and `omnibal.cluster` (omnibal-attach-cluster). Makes candidates of
    `lengths`: packing lengths with caps, degrees and micro-batches. For each degree above 1 it
    searches what replicas that run a micro-batch together do. Plans each candidate at its caps, with the least
    recomputation that fits; chooses cuts that all share, by the predicted time of an epoch; and
    writes `output` (`omnibal.length-groups/1`, which omnibal-batch reads). The module stays as it
    is. Groups that an epoch would have and whose stages wait for more than 30 % of a step get a
    warning.
  }];
  let options = [
    Option<"lengths", "lengths", "std::string", "\"\"", "Lengths of the samples (CSV)">,
    Option<"output", "output", "std::string", "\"\"", "File to write; empty: none">,
    ListOption<"degrees", "degrees", "int64_t",
               "Replicas that may run a micro-batch together; none: 1">,
    Option<"tokensPerStep", "tokens-per-step", "int64_t", "0",
           "Tokens of a step, about; 0: those of `microbatches` of the longest sample a replica">,
    Option<"microbatches", "microbatches", "int64_t", "4",
           "Micro-batches of the longest sample in a step">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe or 1f1b">,
    Option<"target", "target", "std::string", "\"host\"", "host or cuda">,
    Option<"compute", "compute", "std::string", "\"\"",
           "float32 or bfloat16; empty: float32 on host, bfloat16 on cuda">,
    Option<"device", "device", "std::string", "\"\"",
           "Entry of the device table, whose peaks count where nothing is measured">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "Cluster description (JSON file) that may describe the device">,
    ListOption<"calibration", "calibration", "std::string",
               "Tables of omnibal-run --calibrate; the first that knows a function counts">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def SearchPlan : Pass<"omnibal-search-plan", "::mlir::ModuleOp"> {
  let summary = "Decides the stage and the rematerialization of every layer from their costs";
  let description = [{
    Input: form L with costs (omnibal-annotate-costs, or by hand). Reads them, `omnibal.cluster` and
    `omnibal.loads` as a planning problem, cuts by `method` or takes the cuts of `plan`, recomputes
    what the memory limits demand, and writes `omnibal.chunk` and `omnibal.remat` on the layers and
    `omnibal.plan` and `omnibal.reserved` on the module (form P), or nothing. Where plans of single
    steps choose what is recomputed, layers have `omnibal.remat_variants`. What a stage needs beside what the search counts comes off its limit, and the search runs again until the plan
    fits. Analysis remarks give layers, times and memory of each stage and say what limits it.
  }];
  let options = [
    Option<"method", "method", "std::string", "\"search\"", "search, layers, parameters or greedy">,
    Option<"remat", "remat", "std::string", "\"auto\"", "auto, none, full or selective-N">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe, 1f1b, interleaved:V, zb-h1 or auto">,
    Option<"microbatches", "microbatches", "int64_t", "4", "Micro-batches of a step">,
    Option<"subMicrobatches", "sub-microbatches", "bool", "true",
           "Whether plans of single steps may divide micro-batches by their tiles">,
    Option<"plan", "plan", "std::string", "\"\"", "Plan by hand (JSON file); wins over the above">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def SearchRanks : Pass<"omnibal-search-ranks", "::mlir::ModuleOp"> {
  let summary = "Decides into how many parts, stages and replicas the ranks are divided, and all of the plan";
  let description = [{
    Input: form L with a loss, with costs unless `parts` is above 1, and `omnibal.cluster` with the
    links and the memory of a rank (omnibal-attach-cluster with `ranks`). A step has `groups` packed
    micro-batches, which the replicas share equally. Does what omnibal-search-plan does for every
    division of `ranks` into parts, stages and replicas, with and without ZeRO-1, that a bound does
    not rule out, and writes the plan of the fastest step, with its cluster. Where a stage has parts,
    a copy of the module gets `layouts` (as omnibal-search-layouts or omnibal-assign-layouts write
    them, verified) and the costs of these (as omnibal-annotate-costs does, whose options have the
    same names). Where `layout-price` is not given, layouts for which only time counts are planned
    beside those at the usual price, and where these do not fit, those that divide all; of the best
    divisions those at prices between, too, where they could be better. The module becomes the copy
    that wins, and stays as it is until then. Fails where no division has a plan and says why for
    each.
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", "1", "Ranks, none of which stays idle">,
    Option<"groups", "groups", "int64_t", "1", "Packed micro-batches of a step, of all replicas">,
    Option<"parts", "parts", "int64_t", "1",
           "Ranks that run a stage of a replica together; 0: of 1, 2, 4 and 8, as far as a node of "
           "`cluster` holds so many, what is best">,
    Option<"stages", "stages", "int64_t", "0", "Pipeline stages; 0: whatever is best">,
    Option<"dataParallel", "data-parallel", "int64_t", "0", "Replicas; 0: whatever is best">,
    Option<"zero", "zero", "int64_t", "-1",
           "1: replicas divide the optimizer's state, 0: they do not, -1: whatever is best">,
    Option<"rankOrder", "rank-order", "std::string", "\"\"",
           "Which ranks are neighbors: the stages of a replica (stage), or the replicas of a stage "
           "(replica); empty: whatever is best with the node of `cluster`">,
    Option<"method", "method", "std::string", "\"search\"", "search, layers, parameters or greedy">,
    Option<"remat", "remat", "std::string", "\"auto\"", "auto, none, full or selective-N">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "gpipe, 1f1b, interleaved:V, zb-h1, auto or per-step">,
    Option<"subMicrobatches", "sub-microbatches", "bool", "true",
           "Whether plans of single steps may divide micro-batches by their tiles">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "Cluster description (JSON file) that may describe a node, the link of parts, and the "
           "device">,
    Option<"layouts", "layouts", "std::string", "\"search\"",
           "What parts do: search, a JSON file that says how they hold parameters, or none or "
           "nothing, and all of them do the same">,
    Option<"layoutPrice", "layout-price", "double", "-1",
           "With layouts that are searched: nanoseconds that a byte of a rank's memory is worth; "
           "below 0: the least time of a micro-batch for all of it">,
    Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">,
    Option<"target", "target", "std::string", "\"host\"", "host or cuda">,
    Option<"compute", "compute", "std::string", "\"\"",
           "float32 or bfloat16; empty: float32 on host, bfloat16 on cuda">,
    Option<"device", "device", "std::string", "\"\"",
           "Entry of the device table; empty: as `cluster` names it, else cpu on host, h100 on cuda">,
    ListOption<"calibration", "calibration", "std::string",
               "Tables of omnibal-run --calibrate; the first that knows a function counts">
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

#endif // PASSES_PLAN_PASSES_TD
