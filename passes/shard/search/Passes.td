//===- Passes.td - The search of layouts -----------------------------------------------------===//
#ifndef PASSES_SHARD_SEARCH_PASSES_TD
#define PASSES_SHARD_SEARCH_PASSES_TD

include "mlir/Pass/PassBase.td"

def SearchLayouts : Pass<"omnibal-search-layouts", "::mlir::ModuleOp"> {
  let summary = "Find the layouts in which the parts of a stage do least";
  let description = [{
    Input: form L with a loss and `omnibal.cluster`, before omnibal-annotate-costs. Chooses for every
    op of each distinct layer one of the ways that its rule allows, and for every parameter how the
    parts hold it, so that work, moves and the price of memory are least, by a dynamic program over the ops
    in order: exactly, or a warning says of which layers not all layouts were tried. Work is the roofline of the largest share, forward and, where something trains,
    backward. Kept values and parameters cost `price` for each byte. Between layers values are whole.
    Remarks of category `omnibal-layout` say what each distinct layer does, and what lost.
    omnibal-verify-layouts checks what it writes. A module of stages with one part is left alone.
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
           "Cluster description (JSON file) that may describe the device and the link of `parts`">,
    Option<"price", "price", "double", "-1",
           "Nanoseconds that a byte of memory is worth; below 0: the least time of a micro-batch for "
           "all of a rank's memory">,
    Option<"states", "states", "int64_t", "200000",
           "States of a layer that go on after an op; where there are more, the search is not exact">
  ];
}

#endif // PASSES_SHARD_SEARCH_PASSES_TD
