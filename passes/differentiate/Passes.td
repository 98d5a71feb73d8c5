//===- Passes.td - From layers to functions that train -----------------------------------===//
#ifndef PASSES_DIFFERENTIATE_PASSES_TD
#define PASSES_DIFFERENTIATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def MaterializeLayers : Pass<"omnibal-materialize-layers", "::mlir::ModuleOp"> {
  let summary = "Turns layers into calls of functions shared by equal layers";
  let description = [{
    Input: form L or P with a loss; output: form C (docs/contract-compiler.md). Layers are equal if
    their bodies are, the same parameters train, the same inputs and outputs take part in
    differentiation, and `omnibal.remat` (default "keep") is the same; `omnibal.remat_options` on a
    layer_fn names what it may be for these layers. A layer with `omnibal.remat_variants` also gets
    the functions of these, which `omnibal.variants` on its call names. A backward holds no gradient
    of frozen parameters and none of inputs upstream of which nothing trains; parameters that no
    gradient reaches are marked `frozen`. Where the actions of `omnibal.plan` split the backward of
    a layer's chunk, its functions also hold the two halves.
  }];
  let options = [
    Option<"splitBackward", "split-backward", "bool", "false",
           "Build the halves of every backward, also where no plan asks for them">
  ];
}

def VerifyFunctions : Pass<"omnibal-verify-functions", "::mlir::ModuleOp"> {
  let summary = "Checks that the functions of form C fit together";
  let description = [{
    Roles and indices of arguments and results are known, unique and complete; forward and backward
    agree on what is saved; every backward of @main gets the gradients that it reads from the layers
    below it, and every parameter that trains gets a gradient. Constraints are numbered
    (function_c1 ...) in VerifyFunctions.cpp.
  }];
}

#endif // PASSES_DIFFERENTIATE_PASSES_TD
