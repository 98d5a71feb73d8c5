//===- Passes.td - Rematerialisation passes ----------------------------------------------===//
#ifndef PASSES_REMAT_PASSES_TD
#define PASSES_REMAT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SelectRemat : Pass<"omnibal-select-remat", "::mlir::ModuleOp"> {
  let summary = "Decide for all layers alike whether backward recomputes them";
  let description = [{
    Input: form L. Writes `omnibal.remat` on every layer that has none yet: "keep" (backward keeps
    what is dear to recompute), "full" (only the layer's inputs are kept), or "selective-N" between
    them (SavedValues.h; an error later where a layer has fewer).
    A plan decides layer by layer instead; `omnibal-materialize-layers` acts on the attribute.
  }];
  let options = [
    Option<"choice", "choice", "std::string", "\"keep\"", "keep, selective-N or full">
  ];
}

#endif // PASSES_REMAT_PASSES_TD
