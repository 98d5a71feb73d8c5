//===- OmnibalKernelOps.td - What functions hold after lowering --------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALKERNELOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALKERNELOPS_TD

include "dialects/omnibal/ir/OmnibalDialect.td"

def GemmOp : Omnibal_Op<"gemm", [Pure, AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "activation(alpha * lhs rhs + bias) + residual, one kernel call";
  let description = [{
    Made by omnibal-form-gemms. lhs [.., M, K], rhs [.., K, N] after the transposes that the flags ask
    for; leading dimensions broadcast; bias [N]. `pre`, if present, is the value before the activation.
    With `at` the result is alpha * lhs rhs times the activation's derivative there. `sums`, if present,
    are those of lhs [M] over K, with `sum_rhs` those of rhs [N].

    Constraints:
    * (gemm_c1) the last two dimensions of lhs and rhs fit the result;
    * (gemm_c2) residual, pre and at have the result's type;
    * (gemm_c3) bias is [N];
    * (gemm_c4) at goes with an activation and without bias, residual and pre;
    * (gemm_c5) sums belong to a product of two dimensions and are [M] or, with sum_rhs, [N].
  }];
  let arguments = (ins FloatTensor:$lhs, FloatTensor:$rhs, Optional<FloatTensor>:$bias,
    Optional<FloatTensor>:$residual, Optional<FloatTensor>:$at,
    UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs, DefaultValuedAttr<F64Attr, "1.0">:$alpha,
    DefaultValuedAttr<Activation, "::omnibal::Activation::None">:$activation, UnitAttr:$sum_rhs);
  let results = (outs FloatTensor:$result, Optional<FloatTensor>:$pre, Optional<FloatTensor>:$sums);
  let assemblyFormat = [{
    $lhs `,` $rhs (`bias` `(` $bias^ `)`)? (`residual` `(` $residual^ `)`)? (`at` `(` $at^ `)`)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def DequantizeOp : Omnibal_Op<"dequantize", [Pure]> {
  let summary = "The numbers of a weight that is stored quantized";
  let description = [{
    Made by omnibal-form-gemms for targets whose products read no codes: what reads a quantized weight
    reads these numbers, which are in memory for as long as that takes.

    Constraints:
    * (dequantize_c1) the weight is quantized, and the result has its shape and element type, but not
      its encoding.
  }];
  let arguments = (ins FloatTensor:$weight);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = "$weight attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def FusedOp : Omnibal_Op<"fused", [Pure, IsolatedFromAbove, SingleBlock]> {
  let summary = "Elementwise ops and reductions that become one generated kernel";
  let description = [{
    The body computes rows x cols elements row by row (`rows` = constant, per V, per N,
    and of a part's own also per v, per n). Each
    value in it has rows * cols elements, one a row, one a column, or one. A reduction over the
    columns stays within its row; a reduction over the rows may only be a result.

    Constraints:
    * (fused_c1) the block's arguments have the types of the inputs, the terminator's operands those
      of the results;
    * (fused_c2) the body holds only elementwise ops, reductions, reshapes, expansions and constants.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, DenseI64ArrayAttr:$rows, I64Attr:$cols);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `rows` $rows `cols` $cols `(` $inputs `)` attr-dict `:` functional-type(operands, results) $body
  }];
  let hasVerifier = 1;
}

def FusedYieldOp : Omnibal_Op<"fused_yield", [Pure, Terminator, HasParent<"FusedOp">]> {
  let summary = "Results of a fused group";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALKERNELOPS_TD
