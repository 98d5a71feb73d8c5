//===- Passes.td - Raising by meaning: form S to form R to form L ------------------------===//
#ifndef PASSES_RAISE_PASSES_TD
#define PASSES_RAISE_PASSES_TD

include "mlir/Pass/PassBase.td"

class RaisingPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::omnibal::OmnibalDialect"];
}

def SelectLogitsPass : RaisingPass<"omnibal-select-logits"> {
  let summary = "Keeps the logits [1, N, W] and the routers' loss as the only results";
  let description = [{
    Exporters return caches and hidden states as well. The logits are the result with that name,
    else the float result of shape [1, N, static] that most of the graph feeds. They come first; the
    balancing loss of routers is the result `router_loss`, a number, and goes where
    `omnibal.router_loss_coefficient` on the module is 0. The option of that name sets it.
  }];
  let options = [
    Option<"routerLossCoefficient", "router-loss-coefficient", "std::string", "\"\"",
           "What the routers' loss counts, 0: nothing; empty: as the graph says">
  ];
}
def ShortenLayoutPass : RaisingPass<"omnibal-shorten-layout"> {
  let summary = "Chains of reshape and transpose become at most reshape, transpose, reshape";
}
def RaiseNormsPass : RaisingPass<"omnibal-raise-norms"> {
  let summary = "Decomposed RMSNorm and LayerNorm become rms_norm and layer_norm";
}
def RaiseActivationsPass : RaisingPass<"omnibal-raise-activations"> {
  let summary = "Decomposed gelu (erf, tanh), quick_gelu and silu become one op each";
}
def RaiseLinearPass : RaisingPass<"omnibal-raise-linear"> {
  let summary = "Products with a parameter become linear, sums with a vector parameter its bias";
}
def RaiseEmbeddingPass : RaisingPass<"omnibal-raise-embedding"> {
  let summary = "Gathers of a parameter's rows become embedding; of all rows in order, the parameter";
}
def RaiseExpertsPass : RaisingPass<"omnibal-raise-experts"> {
  let summary = "Products with a matrix looked up for each row become grouped_linear";
  let description = [{
    Mixtures of experts are exported as matrices[ids] times rows. The result computes the experts
    that a row chose, and no others.
  }];
}
def RaisePatchConvPass : RaisingPass<"omnibal-raise-patch-conv"> {
  let summary = "A convolution whose stride is its kernel becomes a linear over patches";
}
def RaiseImageMergePass : RaisingPass<"omnibal-raise-image-merge"> {
  let summary = "Both forms of masked_scatter over placeholder tokens become image_merge";
  let description = [{
    Records `omnibal.image_token_id` and `omnibal.tokens_per_tile` on the module.
  }];
}
def ClassifyInputsPass : RaisingPass<"omnibal-classify-inputs"> {
  let summary = "Marks each graph input with its role: ids, positions, mask, types, image, token";
  let description = [{
    Roles follow from use and not from names: ids look up rows of an embedding, positions reach
    rotary angles or a table of positions, and the other token inputs only reach masks.
  }];
}
def RaiseAttentionPass : RaisingPass<"omnibal-raise-attention"> {
  let summary = "softmax(q k^T) v in any form becomes attention with a classified mask";
  let description = [{
    The mask's subgraph is evaluated by the interpreter for probe lengths around every integer
    constant in it and classified as full, causal, sliding, chunked, prefix or blocks. Repeated key and
    value heads are undone, constant factors become the scale.
  }];
}
def RaiseShortConvPass : RaisingPass<"omnibal-raise-short-conv"> {
  let summary = "Causal convolutions of each channel along the tokens become sums of shifted rows";
}
def RaiseRecurrencesPass : RaisingPass<"omnibal-raise-recurrences"> {
  let summary = "States that pass from token to token start again with every sample";
}
def RaiseRopePass : RaisingPass<"omnibal-raise-rope"> {
  let summary = "Rotary embeddings become rope with tables of cos and sin";
  let options = [
    Option<"tokens", "tokens", "int64_t", /*default=*/"4096",
           "Positions in the tables: the largest number of tokens of a micro-batch">
  ];
}
def RaiseRouterLossPass : RaisingPass<"omnibal-raise-router-loss"> {
  let summary = "Sums over the tokens for the routers' loss leave out rows that are no tokens";
}
def RaisePositionsPass : RaisingPass<"omnibal-raise-positions"> {
  let summary = "Graph inputs and ranges over the tokens become batch values";
}
def VerifyRaisedPass : RaisingPass<"omnibal-verify-raised"> {
  let summary = "Checks form R: nothing is left that mixes tokens of different samples";
}
def FindIncrementalPass : RaisingPass<"omnibal-find-incremental"> {
  let summary = "Notes whether later tokens need only keys and values of earlier ones";
}
#endif // PASSES_RAISE_PASSES_TD
