//===- LayoutAttr.td - How the parts of a stage hold a value -------------------------------===//
#ifndef DIALECTS_PIPELINE_LAYOUTATTR_TD
#define DIALECTS_PIPELINE_LAYOUTATTR_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def LayoutKind : I32EnumAttr<"LayoutKind", "how parts hold a value", [
  I32EnumAttrCase<"Whole", 0, "whole">, I32EnumAttrCase<"Copied", 1, "copied">,
  I32EnumAttrCase<"Partial", 2, "partial">, I32EnumAttrCase<"Split", 3, "split">]> {
  let cppNamespace = "::omnibal";
}
def UnitsOf : I32EnumAttr<"UnitsOf", "what the units of a split are", [
  I32EnumAttrCase<"Number", 0, "number">, I32EnumAttrCase<"Tiles", 1, "tiles">,
  I32EnumAttrCase<"Tokens", 2, "tokens">]> {
  let cppNamespace = "::omnibal";
}

class LayoutAttrOf<Dialect dialect> : AttrDef<dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "How the parts of a stage hold a value";
  let description = [{
    * `whole`: every part has all of it, and all go on doing the same with it.
    * `copied`: every part has all of it, and each does its own share of work with it.
    * `partial`: each part has a summand of it.
    * `split(dim : units x inner)`: dimension `dim` is a row of so many units (a number, V or N) of
      `inner` elements each (absent: 1), as often as it fits; each part has its share of the units.

    The gradient of a value has the dual layout: whole of whole, split of split, partial of copied,
    and copied of partial.

    Constraints:
    * (split_c1) the dimension is at least 0, units are at least 0 (a micro-batch without tiles), inner at
      least 1.
  }];
  let parameters = (ins "::omnibal::LayoutKind":$kind, "int64_t":$dim, "::omnibal::UnitsOf":$units_of,
                        "int64_t":$units, "int64_t":$inner);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static LayoutAttr whole(::mlir::MLIRContext *context);
    static LayoutAttr copied(::mlir::MLIRContext *context);
    static LayoutAttr partial(::mlir::MLIRContext *context);
    static LayoutAttr split(::mlir::MLIRContext *context, int64_t dim, int64_t units,
                            int64_t inner = 1);
    /// Units are tiles or tokens.
    static LayoutAttr split(::mlir::MLIRContext *context, int64_t dim, UnitsOf unitsOf,
                            int64_t inner = 1);

    bool isWhole() const { return getKind() == LayoutKind::Whole; }
    bool isCopied() const { return getKind() == LayoutKind::Copied; }
    bool isPartial() const { return getKind() == LayoutKind::Partial; }
    bool isSplit() const { return getKind() == LayoutKind::Split; }
    bool isSplitAlongTokens() const { return isSplit() && getUnitsOf() == UnitsOf::Tokens; }
    /// The layout of the gradient.
    LayoutAttr getDual() const;
    /// The layout in a micro-batch of so many tiles and tokens: units are a number.
    LayoutAttr at(int64_t tiles, int64_t tokens) const;
  }];
}

#endif // DIALECTS_PIPELINE_LAYOUTATTR_TD
