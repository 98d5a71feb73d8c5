//===- OmnibalStageEnums.td - Modes of stages and kinds of messages ----------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALSTAGEENUMS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALSTAGEENUMS_TD

include "mlir/IR/EnumAttr.td"

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
