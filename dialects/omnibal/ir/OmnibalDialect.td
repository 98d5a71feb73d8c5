//===- OmnibalDialect.td - Dialect, attributes and base classes --------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALDIALECT_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/omnibal/ir/OmnibalInterfaces.td"

def Omnibal_Dialect : Dialect {
  let name = "omnibal";
  let cppNamespace = "::omnibal";
  let summary = "Training graphs of vision-language models";
  let description = [{
    From the imported forward graph to functions of kernel calls. Sizes that depend on the
    micro-batch are affine in two symbols, V (image tiles) and N (packed tokens): a dynamic
    dimension has its expression in the tensor type's encoding,
    `tensor<?x17x48xf32, affine_map<(d0, d1) -> (d0, 17, 48)>>` with d0 = V and d1 = N
    (SymbolicShape.h). Straight after import, dynamic dimensions may have no encoding yet.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::omnibal::PlanDialect"];
}

class Omnibal_Op<string mnemonic, list<Trait> traits = []>
    : Op<Omnibal_Dialect, mnemonic, traits>;

def FloatTensor : RankedTensorOf<[F32, F64]>;
def IndexingTensor : RankedTensorOf<[I32, I64, I1, UI8, I8]>;

def ReduceKind : I32EnumAttr<"ReduceKind", "what a reduction computes", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
  I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
  I32EnumAttrCase<"Prod", 4, "prod">]> {
  let cppNamespace = "::omnibal";
}
def ComparePredicate : I32EnumAttr<"ComparePredicate", "comparison", [
  I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"LT", 1, "lt">,
  I32EnumAttrCase<"LE", 2, "le">, I32EnumAttrCase<"GT", 3, "gt">,
  I32EnumAttrCase<"GE", 4, "ge">]> {
  let cppNamespace = "::omnibal";
}
def MaskKind : I32EnumAttr<"MaskKind", "who sees whom within a segment", [
  I32EnumAttrCase<"Explicit", 0, "explicit">, ///< the mask operand says (only before raising)
  I32EnumAttrCase<"Full", 1, "full">, I32EnumAttrCase<"Causal", 2, "causal">,
  I32EnumAttrCase<"Sliding", 3, "sliding">, I32EnumAttrCase<"Prefix", 4, "prefix">,
  I32EnumAttrCase<"Blocks", 5, "blocks">, I32EnumAttrCase<"Chunked", 6, "chunked">]> {
  let cppNamespace = "::omnibal";
}
def LayerKind : I32EnumAttr<"LayerKind", "part of the model", [
  I32EnumAttrCase<"Vision", 0, "vision">, I32EnumAttrCase<"Projector", 1, "projector">,
  I32EnumAttrCase<"Language", 2, "language">, I32EnumAttrCase<"Head", 3, "head">]> {
  let cppNamespace = "::omnibal";
}
def Activation : I32EnumAttr<"Activation", "activation of a GEMM epilogue", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">, I32EnumAttrCase<"Silu", 3, "silu">,
  I32EnumAttrCase<"QuickGelu", 4, "quick_gelu">, I32EnumAttrCase<"Relu", 5, "relu">]> {
  let cppNamespace = "::omnibal";
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALDIALECT_TD
