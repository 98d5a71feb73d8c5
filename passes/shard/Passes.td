//===- Passes.td - Layouts of what the parts of a stage hold ---------------------------------===//
#ifndef PASSES_SHARD_PASSES_TD
#define PASSES_SHARD_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignLayouts : Pass<"omnibal-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "Write the layouts that follow from how parts hold parameters";
  let description = [{
    A file says by names of parameters how the parts of a stage hold them (docs/sharding.md). The
    layouts of the values inside layers follow, op by op: an op is divided as the parameters that it
    reads are, else as its operands are, else all parts do it in full, or, where the file says
    "rows": "split", each does its tokens or tiles of it. A layer of which nothing is divided gets
    no layouts.
  }];
  let options = [
    Option<"layouts", "layouts", "std::string", "", "File of layouts (JSON); empty: none">
  ];
}

def VerifyLayouts : Pass<"omnibal-verify-layouts", "::mlir::ModuleOp"> {
  let summary = "Check the layouts of layers, op by op";
  let description = [{
    Layouts stand on layers (`omnibal.borders`), their ops (`omnibal.reads`, `omnibal.layouts`) and
    parameters (`omnibal.held`). Layers without any are left alone. Constraints are numbered
    (layout_c1 ...) in VerifyLayouts.cpp and Ways.cpp.
  }];
}

#endif // PASSES_SHARD_PASSES_TD
