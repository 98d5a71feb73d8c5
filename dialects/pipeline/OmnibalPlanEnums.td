//===- OmnibalPlanEnums.td - Words of plans ------------------------------------------------===//
#ifndef DIALECTS_PIPELINE_OMNIBALPLANENUMS_TD
#define DIALECTS_PIPELINE_OMNIBALPLANENUMS_TD

include "mlir/IR/EnumAttr.td"

def RunKind : I32EnumAttr<"RunKind", "part of a chunk's work on a micro-batch", [
  I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"InputGrad", 2, "input_grad">, I32EnumAttrCase<"WeightGrad", 3, "weight_grad">]> {
  let cppNamespace = "::omnibal";
}

/// The words of runtime/program/Names.h.
def FormalRole : I32EnumAttr<"FormalRole", "what a formal of a function stands for", [
  I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Output", 1, "output">,
  I32EnumAttrCase<"Saved", 2, "saved">, I32EnumAttrCase<"Held", 3, "held">,
  I32EnumAttrCase<"GradOutput", 4, "grad_output">, I32EnumAttrCase<"GradInput", 5, "grad_input">,
  I32EnumAttrCase<"Batch", 6, "batch">, I32EnumAttrCase<"Constant", 7, "constant">,
  I32EnumAttrCase<"Result", 8, "result">, I32EnumAttrCase<"ParameterGrad", 9, "parameter_grad">]> {
  let cppNamespace = "::omnibal";
}

/// The words of runtime/program/Names.h.
def Optimizer : I32EnumAttr<"Optimizer", "how parameters are updated", [
  I32EnumAttrCase<"AdamW", 0, "adamw">, I32EnumAttrCase<"Lion", 1, "lion">,
  I32EnumAttrCase<"Sgd", 2, "sgd">, I32EnumAttrCase<"Muon", 3, "muon">,
  I32EnumAttrCase<"Adafactor", 4, "adafactor">]> {
  let cppNamespace = "::omnibal";
  let genSpecializedAttr = 0;
}

/// The words of runtime/program/Names.h.
def RankOrder : I32EnumAttr<"RankOrder", "which ranks are neighbors", [
  I32EnumAttrCase<"Stage", 0, "stage">, I32EnumAttrCase<"Replica", 1, "replica">]> {
  let cppNamespace = "::omnibal";
  let genSpecializedAttr = 0;
}

#endif // DIALECTS_PIPELINE_OMNIBALPLANENUMS_TD
