//===- Passes.td - The layers of a model, frozen and with a loss --------------------===//
#ifndef PASSES_LAYERS_PASSES_TD
#define PASSES_LAYERS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormLayersPass : Pass<"omnibal-form-layers", "::mlir::ModuleOp"> {
  let summary = "Groups the ops of form R into layers (form L)";
  let description = [{
    The graph decides the components: what feeds image_merge is vision, its tail after the last
    repeated block is the projector, and the rest is language. Layers are cut at values through
    which everything flows, and found as repeated structure.
  }];
  let dependentDialects = ["::omnibal::OmnibalDialect"];
}

def VerifyLayers : Pass<"omnibal-verify-layers", "::mlir::ModuleOp"> {
  let summary = "Check form L: @main is layers, in order, and nothing else";
  let description = [{
    Names, kinds and order of layers, what they read and yield, what @main returns. Constraints are
    numbered (layers_c1 ...) in VerifyLayers.cpp.
  }];
}

def Freeze : Pass<"omnibal-freeze", "::mlir::ModuleOp"> {
  let summary = "Marks parameters that do not train";
  let description = [{
    Input: form L. Sets `frozen` on the parameters that layers of the named components use (vision,
    projector, language; embedding and head belong to language) and on those whose name the regular
    expression (POSIX extended) matches anywhere. It is an error if a component has no layer, if the
    expression is wrong or matches no parameter, or if nothing is left to train.
  }];
  let options = [
    ListOption<"components", "parts", "std::string", "vision, projector, language">,
    Option<"match", "match", "std::string", "\"\"", "regular expression over parameter names">
  ];
}

def AttachLoss : Pass<"omnibal-attach-loss", "::mlir::ModuleOp"> {
  let summary = "Gives the head its loss and its prediction";
  let description = [{
    Input: form L whose last layer (kind head) yields logits [1, N, W]. Afterwards the head has the
    outputs logits, loss [N] and prediction i32 [N], named by `omnibal.outputs`, and @main returns
    all three (`omnibal.result` on the added ones); the routers' loss, the head's second output where
    the graph gives one, becomes its fourth, "router_loss". Logits that are a linear map of hidden states,
    possibly scaled by a constant, become linear_cross_entropy, which needs no logits in memory;
    anything else becomes cross_entropy of the logits.
  }];
}

#endif // PASSES_LAYERS_PASSES_TD
