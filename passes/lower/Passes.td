//===- Passes.td - Passes of the lowering phase ------------------------------------------===//
#ifndef PASSES_LOWER_PASSES_TD
#define PASSES_LOWER_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandAttention : Pass<"omnibal-expand-attention", "::mlir::func::FuncOp"> {
  let summary = "Writes attention that the kernel does not take as matrix products and a softmax";
  let description = [{
    Such attention has a mask of values, or keys other than the queries' own tokens (cached ones).
    Sizes must be constants. Training has no such attention: raising knows the masks of models by
    kind.
  }];
}

def ExpandShifts : Pass<"omnibal-expand-shifts", "::mlir::func::FuncOp"> {
  let summary = "Writes shift_tokens as a padded copy of which rows are taken or not";
}

def ExpandNorms : Pass<"omnibal-expand-norms", "::mlir::func::FuncOp"> {
  let summary = "Writes rms_norm, layer_norm, softmax and log_softmax as reductions and elementwise ops";
  let description = [{
    Fusion then sees one kind of op. Softmax along another axis than the last, or along one whose
    size is not known at compile time, stays a call.
  }];
}

def FormGemms : Pass<"omnibal-form-gemms", "::mlir::func::FuncOp"> {
  let summary = "linear, matmul and linear_weight_grad become gemm with bias, activation, residual";
  let description = [{
    An activation joins its gemm only if nothing else reads the pre-activation (backward usually does);
    an addition of the same shape joins as the residual of the operand that is computed last.

    For target cuda only activations of the library of products join. There a gelu (tanh) whose argument is
    read again leaves it beside its result, gelu_grad (tanh) of a product joins it, and the sum of a bias's
    gradient joins the product of the weight's, each where no fused group would read the same values.
    row_squares, which that target has no kernel for, becomes a product that adds to the weight, and the
    sum of squares of its rows. What reads a quantized weight there reads its numbers by dequantize.
  }];
  let options = [Option<"target", "target", "std::string", "\"host\"", "host | cuda">];
}

def Fuse : Pass<"omnibal-fuse", "::mlir::func::FuncOp"> {
  let summary = "Groups elementwise ops, broadcasts and reductions into omnibal.fused";
  let description = [{
    Two ops join when they iterate over the same rows x cols, share data and no path leaves the group
    and returns. A reduction over the columns stays inside; one over the rows ends the group. Values of
    one row (a weight stored as w - 1) are recomputed where they are used.
  }];
}

#endif // PASSES_LOWER_PASSES_TD
