//===- Passes.td - Specialization: form I to form S --------------------------------------===//
#ifndef PASSES_SPECIALIZE_PASSES_TD
#define PASSES_SPECIALIZE_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyImported : Pass<"omnibal-verify-imported", "::mlir::ModuleOp"> {
  let summary = "Check form I: what the importer gives, or who writes it by hand";
  let description = [{
    Names of inputs and outputs, types without encoding, parameters that are there; no op of a later
    form. Constraints are numbered (imported_c1 ...) in VerifyImported.cpp.
  }];
}

def ChooseDropout : Pass<"omnibal-choose-dropout", "::mlir::ModuleOp"> {
  let summary = "Says how much of what the model drops in training is dropped";
  let description = [{
    Input: form I. With `mode` model every `dropout` keeps its ratio. One of an attention's
    probabilities is an error then, because attention is one op that drops nothing; with hidden
    these are removed and all others keep theirs. With a number in [0, 1) these are removed too, and
    all others have that ratio; with 0 there is no dropout at all.
  }];
  let options = [
    Option<"mode", "mode", "std::string", "\"model\"", "model, hidden or a ratio in [0, 1)">
  ];
}

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

def VerifySpecialized : Pass<"omnibal-verify-specialized", "::mlir::ModuleOp"> {
  let summary = "Check form S: sizes are known in V and N, and types and attributes say them";
  let description = [{
    Apart from what follows from the places of a nonzero. Constraints are numbered
    (specialized_c1 ...) in VerifySpecialized.cpp.
  }];
}

#endif // PASSES_SPECIALIZE_PASSES_TD
