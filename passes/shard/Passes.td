//===- Passes.td - Layouts of what the parts of a stage hold ---------------------------------===//
#ifndef PASSES_SHARD_PASSES_TD
#define PASSES_SHARD_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyLayouts : Pass<"omnibal-verify-layouts", "::mlir::ModuleOp"> {
  let summary = "Check the layouts of layers, op by op";
  let description = [{
    Layouts stand on layers (`omnibal.borders`), their ops (`omnibal.reads`, `omnibal.layouts`) and
    parameters (`omnibal.held`). Layers without any are left alone. Constraints are numbered
    (layout_c1 ...) in VerifyLayouts.cpp and Ways.cpp.
  }];
}

#endif // PASSES_SHARD_PASSES_TD
