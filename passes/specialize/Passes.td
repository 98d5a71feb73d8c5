//===- Passes.td - Specialization: form I to form S --------------------------------------===//
#ifndef PASSES_SPECIALIZE_PASSES_TD
#define PASSES_SPECIALIZE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SpecializePass : Pass<"omnibal-specialize", "::mlir::ModuleOp"> {
  let summary = "Binds graph inputs to (V, N), makes every type static or affine, folds constants";
  let description = [{
    Batch becomes 1, token inputs [1, N], image inputs [V, ...]. Shapes propagate op by op through
    ShapeInferenceOpInterface, together with the contents of small integer tensors as affine
    expressions. Shape operands turn into attributes and result types, squeeze, unsqueeze and tile
    into reshape and expand; what depends on constants alone is evaluated by the interpreter.
  }];
  let options = [
    ListOption<"inputDims", "input-dims", "std::string",
               "Sizes of named graph inputs instead of V and N: name=2x3x4">,
    Option<"staticInputs", "static-inputs", "bool", /*default=*/"false",
           "Inputs with static shapes are meant so: no warning">,
    Option<"foldLimit", "fold-limit-elements", "int64_t", /*default=*/"1048576",
           "Largest constant that folding creates, in elements">
  ];
}

#endif // PASSES_SPECIALIZE_PASSES_TD
