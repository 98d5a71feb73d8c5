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

def AttachOptimizer : Pass<"omnibal-attach-optimizer", "::mlir::ModuleOp"> {
  let summary = "Says how parameters are updated";
  let description = [{
    Writes the optimizer as `omnibal.optimizer` on the module, from which costs and layout know how
    many moments a parameter has; nothing for `adamw`, and for `adamw8bit`, whose moments are codes
    of 8 bits, `omnibal.coded_moments`. With `muon`, the weights of linear layers of
    the vision tower, the projector and the language model that train get `omnibal.orthogonalized`:
    not the head's, nor tables, vectors and tensors of experts. It is an error if the optimizer is
    unknown, or if `muon` finds no matrix. With `ema`, a moving average of every value that trains
    is kept, which is one more array of its size: `omnibal.ema` on the module.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "adamw, lion, sgd, muon, adamw8bit or adafactor">,
    Option<"ema", "ema", "bool", "false", "keep a moving average of what trains">
  ];
  let dependentDialects = ["::omnibal::PlanDialect"];
}

def AddAdapters : Pass<"omnibal-add-adapters", "::mlir::ModuleOp"> {
  let summary = "Adds low-rank adapters to linear layers and freezes the rest";
  let description = [{
    Input: form L. Every `linear` whose weight's name, with or without `.weight`, the regular
    expression `match` (POSIX extended) finds gets two parameters, A [rank, in] and B [out, rank],
    and gives W x + B (scale A x) with the scale alpha / rank, or alpha / sqrt(rank) where it is
    `rank-stabilized`. With `dora` it gets a third one, the magnitude m [out], and gives
    s (W x + B (scale A x)) + b with s = m / the norms of the rows of W + scale B A, which count as
    constants for gradients. Layers stay equal: parameters become arguments of their bodies. All other
    parameters are frozen but those of modules that `save` finds. With `dropout`, which goes without
    `dora`, the input of A is dropped out in training (RandomUniformOp). The module has
    `omnibal.adapters` afterwards. It is an error if an expression is wrong or finds nothing, and a
    warning if it finds matrices that are not the weights of linear layers alone.
  }];
  let options = [
    Option<"match", "match", "std::string", "\"\"", "regular expression over names of weights">,
    Option<"rank", "rank", "int64_t", "16", "rank of the adapters">,
    Option<"alpha", "alpha", "double", "32.0", "what the scale is made of">,
    Option<"rankStabilized", "rank-stabilized", "bool", "false",
           "the scale is alpha / sqrt(rank)">,
    Option<"dropout", "dropout", "double", "0", "share of A's input that is dropped, in [0, 1)">,
    Option<"dora", "dora", "bool", "false", "train the norms of the weights' rows apart">,
    Option<"save", "save", "std::string", "\"\"",
           "regular expression over parameters whose modules train as they are">
  ];
}

def DrawDropout : Pass<"omnibal-draw-dropout", "::mlir::ModuleOp"> {
  let summary = "Makes the model's own dropout a choice by random numbers";
  let description = [{
    Input: form L. Every `dropout` becomes its input times a mask, a chain of elementwise ops from
    RandomUniformOp. The numbers depend on the sample, its place, the step, the layer and which draw
    of the layer it is, and evaluation drops nothing. It is an error if rows of what is dropped are
    neither the tokens nor those of the tiles.
  }];
}

def AddEmbeddingNoise : Pass<"omnibal-add-embedding-noise", "::mlir::ModuleOp"> {
  let summary = "Adds noise to the embedded words in training (NEFTune)";
  let description = [{
    Input: form L. Behind the one embedding of `input_ids`, numbers that are even in
    +-alpha / sqrt(L C) are added, for a sample of L tokens and C columns (arXiv 2310.05914). They
    come from RandomUniformOp, so they depend on the sample, its place and the step alone, and
    evaluation has none. It is an error if alpha is not above 0, or if words are embedded nowhere or
    in several places.
  }];
  let options = [Option<"alpha", "alpha", "double", "5", "NEFTune's alpha">];
}

def AttachLoss : Pass<"omnibal-attach-loss", "::mlir::ModuleOp"> {
  let summary = "Gives the head its loss and its prediction";
  let description = [{
    Input: form L whose last layer (kind head) yields logits [1, N, W]. Afterwards the head has the
    outputs logits, loss [N] and prediction i32 [N], named by `omnibal.outputs`, and @main returns
    all three (`omnibal.result` on the added ones); the routers' loss, the head's second output where
    the graph gives one, becomes its fourth, "router_loss". Logits that are a linear map of hidden states,
    possibly scaled by a constant, become linear_cross_entropy, which needs no logits in memory;
    anything else becomes cross_entropy of the logits. With `kind` dpo the loss is that of pairs of
    answers (preference_loss) on top of the tokens' cross entropies, and the head has the outputs
    "chosen_reward", "rejected_reward" and "preferred" behind the prediction.
  }];
  let options = [
    Option<"kind", "kind", "std::string", "\"cross-entropy\"", "cross-entropy or dpo">,
    Option<"beta", "beta", "double", "0.1", "With dpo: what rewards are multiplied by">,
    Option<"smoothing", "smoothing", "double", "0",
           "Label smoothing, in [0, 1); with dpo the share of pairs taken as labeled wrongly, in [0, 0.5)">,
    Option<"z", "z", "double", "0", "Factor of the squared log sum exp of a row of logits">,
  ];
}

def QuantizeFrozen : Pass<"omnibal-quantize-frozen", "::mlir::ModuleOp"> {
  let summary = "Stores frozen weights of linear layers in 8 or 4 bits a number";
  let description = [{
    Input: form L, in which it is decided what trains. The frozen weights below the adapters or,
    with `match` (a regular expression, POSIX extended, over names with or without `.weight`), those
    frozen weights of linear layers that it finds, get a quantized type wherever they are read:
    `tensor<64x128xf32, "nf4">` (QuantizedTensor.h). Ops read their values as float32 numbers. Such a
    weight is [out, in]: a `linear` with `in_out` loses that, and its parameter is `transposed`
    where it was not. It is an error if the kind is unknown, if the expression is wrong or finds no
    weight, and if there are neither adapters nor an expression; it is a warning if the expression
    finds frozen matrices that not linear layers alone read.
  }];
  let options = [
    Option<"kind", "kind", "std::string", "\"int8\"", "int8 or nf4">,
    Option<"match", "match", "std::string", "\"\"", "regular expression over names of weights">
  ];
}

#endif // PASSES_LAYERS_PASSES_TD
