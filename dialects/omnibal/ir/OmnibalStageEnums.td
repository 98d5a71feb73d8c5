//===- OmnibalStageEnums.td - Kinds of runs and messages ---------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALSTAGEENUMS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALSTAGEENUMS_TD

include "mlir/IR/EnumAttr.td"

def RunKind : I32EnumAttr<"RunKind", "part of a chunk's work on a micro-batch", [
  I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"InputGrad", 2, "input_grad">, I32EnumAttrCase<"WeightGrad", 3, "weight_grad">]> {
  let cppNamespace = "::omnibal";
}
def StageMode : I32EnumAttr<"StageMode", "what a list of actions is for", [
  I32EnumAttrCase<"Train", 0, "train">, I32EnumAttrCase<"Evaluate", 1, "evaluate">,
  I32EnumAttrCase<"Inference", 2, "inference">]> {
  let cppNamespace = "::omnibal";
}
def TransferKind : I32EnumAttr<"TransferKind", "what a message carries", [
  I32EnumAttrCase<"Activation", 0, "activation">, I32EnumAttrCase<"Gradient", 1, "gradient">]> {
  let cppNamespace = "::omnibal";
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALSTAGEENUMS_TD
