//===- Passes.td - From layers to functions that train -----------------------------------===//
#ifndef PASSES_TRAIN_PASSES_TD
#define PASSES_TRAIN_PASSES_TD

include "mlir/Pass/PassBase.td"

def Freeze : Pass<"omnibal-freeze", "::mlir::ModuleOp"> {
  let summary = "Mark parameters that do not train";
  let description = [{
    Input: form L. Sets `frozen` on the parameters that layers of the named parts use (vision,
    projector, language; embedding and head belong to language) and on those whose name the regular
    expression (POSIX extended) matches anywhere. It is an error if a part has no layer, if the
    expression is wrong or matches no parameter, or if nothing is left to train.
  }];
  let options = [
    ListOption<"parts", "parts", "std::string", "vision, projector, language">,
    Option<"match", "match", "std::string", "\"\"", "regular expression over parameter names">
  ];
}

def AttachLoss : Pass<"omnibal-attach-loss", "::mlir::ModuleOp"> {
  let summary = "Give the head its loss and its prediction";
  let description = [{
    Input: form L whose last layer (kind head) yields logits [1, N, W]. Afterwards the head has the
    outputs logits, loss [N] and prediction i32 [N], named by `omnibal.outputs`, and @main returns
    all three (`omnibal.result` on the added ones). Logits that are a linear map of hidden states,
    possibly scaled by a constant, become linear_cross_entropy, which needs no logits in memory;
    anything else becomes cross_entropy of the logits.
  }];
}

def MaterializeLayers : Pass<"omnibal-materialize-layers", "::mlir::ModuleOp"> {
  let summary = "Turn layers into calls of functions shared by equal layers";
  let description = [{
    Input: form L or P with a loss; output: form C (docs/contract-compiler.md). Layers are equal if
    their bodies are, the same parameters train, the same inputs and outputs take part in
    differentiation, and `omnibal.remat` (default "keep") is the same; `omnibal.remat_options` on a
    layer_fn names what it may be for these layers. A backward holds no gradient
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
  let summary = "Check that the functions of form C fit together";
  let description = [{
    Roles and indices of arguments and results are known, unique and complete; forward and backward
    agree on what is saved; every backward of @main gets the gradients that it reads from the layers
    below it, and every parameter that trains gets a gradient. Constraints are numbered
    (function_c1 ...) in VerifyFunctions.cpp.
  }];
}

#endif // PASSES_TRAIN_PASSES_TD
