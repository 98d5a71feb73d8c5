//===- OmnibalTensorOps.td - Elementwise, layout, indexing, reductions -------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALTENSOROPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALTENSOROPS_TD

include "dialects/omnibal/ir/OmnibalDialect.td"

class Omnibal_PureOp<string mnemonic, list<Trait> traits = []>
    : Omnibal_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ShapeInferenceOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface>,
        DeclareOpInterfaceMethods<RematerializableOpInterface>], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

//--- Elementwise ------------------------------------------------------------------------------------

class Omnibal_ElementwiseOp<string mnemonic, dag ins, list<Trait> traits = []>
    : Omnibal_PureOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<ElementwiseOpInterface>],
                                           traits)> {
  let arguments = ins;
  let results = (outs AnyRankedTensor:$result);
}
class Omnibal_UnaryOp<string mnemonic, list<Trait> traits = []>
    : Omnibal_ElementwiseOp<mnemonic, (ins AnyRankedTensor:$operand), traits>;
class Omnibal_BinaryOp<string mnemonic, list<Trait> traits = []>
    : Omnibal_ElementwiseOp<mnemonic, (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs), traits>;
defvar Diff = DeclareOpInterfaceMethods<DifferentiableOpInterface>;

def NegOp : Omnibal_UnaryOp<"neg", [Diff]>;
def ExpOp : Omnibal_UnaryOp<"exp", [Diff]>;
def LogOp : Omnibal_UnaryOp<"log", [Diff]>;
def SqrtOp : Omnibal_UnaryOp<"sqrt", [Diff]>;
def RsqrtOp : Omnibal_UnaryOp<"rsqrt", [Diff]>;
def ReciprocalOp : Omnibal_UnaryOp<"reciprocal", [Diff]>;
def ErfOp : Omnibal_UnaryOp<"erf", [Diff]>;
def TanhOp : Omnibal_UnaryOp<"tanh", [Diff]>;
def SigmoidOp : Omnibal_UnaryOp<"sigmoid", [Diff]>;
def CosOp : Omnibal_UnaryOp<"cos", [Diff]>;
def SinOp : Omnibal_UnaryOp<"sin", [Diff]>;
def AbsOp : Omnibal_UnaryOp<"abs", [Diff]>;
def FloorOp : Omnibal_UnaryOp<"floor", [HasZeroGradient]>;
def SignOp : Omnibal_UnaryOp<"sign", [HasZeroGradient]>;
def NotOp : Omnibal_UnaryOp<"not">;
def IsNaNOp : Omnibal_UnaryOp<"is_nan">;
def CastOp : Omnibal_UnaryOp<"cast", [Diff]> {
  let summary = "Conversion to the result's element type (float to int truncates; to i1: != 0)";
}
def ReluOp : Omnibal_UnaryOp<"relu", [Diff]>;
def SiluOp : Omnibal_UnaryOp<"silu", [Diff]> { let summary = "x * sigmoid(x)"; }
def QuickGeluOp : Omnibal_UnaryOp<"quick_gelu", [Diff]> { let summary = "x * sigmoid(1.702 x)"; }
def GeluOp : Omnibal_ElementwiseOp<"gelu", (ins AnyRankedTensor:$operand, UnitAttr:$tanh), [Diff]> {
  let summary = "x * Phi(x); with `tanh` the tanh approximation";
}
// Derivatives of the activations: activation'(x) * dy, one op each so that fusion sees one step.
def SiluGradOp : Omnibal_ElementwiseOp<"silu_grad", (ins AnyRankedTensor:$operand, AnyRankedTensor:$grad)>;
def QuickGeluGradOp
    : Omnibal_ElementwiseOp<"quick_gelu_grad", (ins AnyRankedTensor:$operand, AnyRankedTensor:$grad)>;
def GeluGradOp : Omnibal_ElementwiseOp<"gelu_grad",
    (ins AnyRankedTensor:$operand, AnyRankedTensor:$grad, UnitAttr:$tanh)>;

def AddOp : Omnibal_BinaryOp<"add", [Diff]>;
def SubOp : Omnibal_BinaryOp<"sub", [Diff]>;
def MulOp : Omnibal_BinaryOp<"mul", [Diff]>;
def DivOp : Omnibal_BinaryOp<"div", [Diff]> { let summary = "Quotient; integers truncate"; }
def PowOp : Omnibal_BinaryOp<"pow", [Diff]>;
def ModOp : Omnibal_ElementwiseOp<"mod", (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, UnitAttr:$fmod)>;
def MaxOp : Omnibal_BinaryOp<"max", [Diff]>;
def MinOp : Omnibal_BinaryOp<"min", [Diff]>;
def AndOp : Omnibal_BinaryOp<"and">;
def OrOp : Omnibal_BinaryOp<"or">;
def XorOp : Omnibal_BinaryOp<"xor">;
def CompareOp : Omnibal_ElementwiseOp<"compare",
    (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, ComparePredicate:$predicate)>;
def SelectOp : Omnibal_ElementwiseOp<"select",
    (ins AnyRankedTensor:$condition, AnyRankedTensor:$onTrue, AnyRankedTensor:$onFalse), [Diff]>;

//--- Constants and values of the micro-batch -----------------------------------------------------------

def RandomUniformOp : Omnibal_ElementwiseOp<"random_uniform",
    (ins RankedTensorOf<[I32]>:$key, RankedTensorOf<[I32]>:$column, RankedTensorOf<[I32]>:$layer,
         I32Attr:$stream)> {
  let summary = "Numbers in [0, 1) that depend on nothing but the operands and `stream`";
  let description = [{
    Counter-based: element i is a multiple of 2^-24 that is made from (key[i], column[i], layer[i],
    stream) alone (RandomBits.h), so it is the same whatever else is computed, in whatever order and
    place, and backward makes it again. `stream` tells apart what one layer draws.

    Constraints:
    * (random_uniform_c1) the result's element type is a floating type.
  }];
}

def DropoutOp : Omnibal_Op<"dropout", [DeclareOpInterfaceMethods<ShapeInferenceOpInterface>]> {
  let summary = "In training 0 with probability `ratio`, and else the input divided by 1 - ratio";
  let description = [{
    What the model itself drops. It ends with form L: omnibal-draw-dropout makes it a choice by
    `random_uniform`, once it is known in which layer it is. Two of them drop different numbers even
    of the same value, so it is not pure, and equal ones stay apart.

    Constraints:
    * (dropout_c1) the ratio is above 0 and below 1.
  }];
  let arguments = (ins FloatTensor:$input, F64Attr:$ratio);
  let results = (outs Res<FloatTensor, "", [MemAlloc]>:$result); // dead if unused, and never merged
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def ConstantOp : Omnibal_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def ParameterOp : Omnibal_Op<"parameter", [Symbol]> {
  let summary = "A parameter of the model (module level)";
  let description = [{
    `sym_name` is the checkpoint's name. `file`, `offset`, `length` say where the bytes lie
    (external data, relative to the model's folder); `value` holds inline data instead.
    `frozen` parameters are read only. `transposed`: the checkpoint's tensor is the transpose of
    `type` (folded by the exporter).

    Constraints:
    * (parameter_c1) `file`, `offset` and `length` come together and not with `value`; `value` has
      the type `type`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
    OptionalAttr<StrAttr>:$file, OptionalAttr<I64Attr>:$offset, OptionalAttr<I64Attr>:$length,
    OptionalAttr<ElementsAttr>:$value, UnitAttr:$frozen, UnitAttr:$transposed);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
}

def GetParameterOp : Omnibal_Op<"get_parameter", [Pure]> {
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}

def BatchValueOp : Omnibal_Op<"batch_value", [Pure]> {
  let summary = "A value of the micro-batch that the runtime provides";
  let description = [{
    input_ids, targets, positions, image_rows (i32, N elements), cu_seqlens (i32, N + 1),
    pixel_values (f32, [V, ...]), what follows from pictures' sizes (BatchValues.h) and the graph's
    further per-token inputs under their names.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

//--- Layout ------------------------------------------------------------------------------------------
// Shape operands exist straight after import; specialization drops them once the result type says it.

def ReshapeOp : Omnibal_PureOp<"reshape", [Diff]> {
  let summary = "Same elements, row-major; `shape` may hold one -1 and, unless allow_zero, 0 = copy";
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$shape, UnitAttr:$allow_zero);
  let results = (outs AnyRankedTensor:$result);
}
def SqueezeOp : Omnibal_PureOp<"squeeze", [Diff]> {
  let summary = "Drops dimensions of size 1 (`axes`; none: all); becomes reshape when specialized";
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$axes);
  let results = (outs AnyRankedTensor:$result);
}
def UnsqueezeOp : Omnibal_PureOp<"unsqueeze", [Diff]> {
  let summary = "Inserts dimensions of size 1 at `axes`; becomes reshape when specialized";
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$axes);
  let results = (outs AnyRankedTensor:$result);
}
def TransposeOp : Omnibal_PureOp<"transpose", [Diff]> {
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
}
def ExpandOp : Omnibal_PureOp<"expand", [Diff]> {
  let summary = "NumPy broadcast to max(shape of input, shape)";
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$shape);
  let results = (outs AnyRankedTensor:$result);
}
def SliceOp : Omnibal_PureOp<"slice", [Diff, AttrSizedOperandSegments]> {
  let summary = "ONNX Slice; specialized form has the attributes and no index operands";
  let description = [{
    Specialized: per axis of the input `begin` (static, >= 0) and `step` (static, > 0 or < 0);
    the result type gives the sizes.
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$starts, Optional<IndexingTensor>:$ends,
    Optional<IndexingTensor>:$axes, Optional<IndexingTensor>:$steps,
    OptionalAttr<DenseI64ArrayAttr>:$begin, OptionalAttr<DenseI64ArrayAttr>:$step);
  let results = (outs AnyRankedTensor:$result);
}
def ConcatOp : Omnibal_PureOp<"concat", [Diff]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
}
def PadOp : Omnibal_PureOp<"pad", [Diff]> {
  let summary = "Zeros around (static widths) and, with `step`, between elements: slice's gradient";
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$low, OptionalAttr<DenseI64ArrayAttr>:$step);
  let results = (outs AnyRankedTensor:$result);
}
def TileOp : Omnibal_PureOp<"tile", [Diff]> {
  let summary = "Repeats along each axis; becomes reshape, expand, reshape when specialized";
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$repeats);
  let results = (outs AnyRankedTensor:$result);
}

//--- Shapes and ranges (folded away by specialization) -----------------------------------------------------

def ShapeOp : Omnibal_PureOp<"shape"> {
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$start, OptionalAttr<I64Attr>:$end);
  let results = (outs AnyRankedTensor:$result);
}
def SizeOp : Omnibal_PureOp<"size"> {
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
}
def RangeOp : Omnibal_PureOp<"range"> {
  let summary = "start, start + delta, ...; `sequence_positions` once raised to the sample's iota";
  let arguments = (ins AnyRankedTensor:$start, AnyRankedTensor:$limit, AnyRankedTensor:$delta);
  let results = (outs AnyRankedTensor:$result);
}
def NonZeroOp : Omnibal_PureOp<"nonzero"> {
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
}

//--- Indexing ------------------------------------------------------------------------------------------------

def GatherOp : Omnibal_PureOp<"gather", [Diff]> {
  let description = "Rows looked up by the index `padding` get no gradient (PyTorch's padding_idx).";
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$indices, I64Attr:$axis, OptionalAttr<I64Attr>:$padding);
  let results = (outs AnyRankedTensor:$result);
}
def GatherNDOp : Omnibal_PureOp<"gather_nd", [Diff]> {
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$indices, I64Attr:$batch_dims);
  let results = (outs AnyRankedTensor:$result);
}
def GatherElementsOp : Omnibal_PureOp<"gather_elements", [Diff]> {
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
}
def ScatterNDOp : Omnibal_PureOp<"scatter_nd", [Diff]> {
  let summary = "`reduction`: none, add, mul, max, min";
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$indices, AnyRankedTensor:$updates, StrAttr:$reduction);
  let results = (outs AnyRankedTensor:$result);
}
def ScatterElementsOp : Omnibal_PureOp<"scatter_elements", [Diff]> {
  let arguments = (ins AnyRankedTensor:$input, IndexingTensor:$indices, AnyRankedTensor:$updates, I64Attr:$axis,
                       StrAttr:$reduction);
  let results = (outs AnyRankedTensor:$result);
}
def TriluOp : Omnibal_PureOp<"trilu", [Diff]> {
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$k, BoolAttr:$upper);
  let results = (outs AnyRankedTensor:$result);
}

//--- Reductions ----------------------------------------------------------------------------------------------

def ReduceOp : Omnibal_PureOp<"reduce", [Diff]> {
  let summary = "Reduction over `axes` (specialized) or the axes operand; kept dimensions have size 1";
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$axesOperand, ReduceKind:$kind,
    OptionalAttr<DenseI64ArrayAttr>:$axes, UnitAttr:$keepdims, UnitAttr:$noop_with_empty_axes);
  let results = (outs AnyRankedTensor:$result);
}
def CumSumOp : Omnibal_PureOp<"cumsum", [Diff]> {
  let arguments = (ins AnyRankedTensor:$input, Optional<IndexingTensor>:$axisOperand, OptionalAttr<I64Attr>:$axis,
                       UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs AnyRankedTensor:$result);
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALTENSOROPS_TD
