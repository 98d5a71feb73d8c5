//===- OmnibalKernelOps.cpp - Verifiers of the ops that exist after lowering -------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/QuantizedTensor.h"

using namespace mlir;
using namespace omnibal;

LogicalResult GemmOp::verify() {
  auto shapeOf = [](Value value) {
    return getSymbolicShape(cast<RankedTensorType>(value.getType()));
  };
  auto lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs()), result = shapeOf(getResult());
  if (!lhs || !rhs || !result)
    return emitOpError("gemm_c1: every dimension must be static or affine in V and N");
  if (lhs->size() < 2 || rhs->size() < 2 || result->size() < 2)
    return emitOpError("gemm_c1: operands and result need at least two dimensions");
  auto last = [](const SymbolicShape &shape, bool transposed, int which) {
    return shape[shape.size() - (transposed ? 3 - which : which)]; // 2: rows, 1: columns
  };
  if (last(*lhs, getTransposeLhs(), 2) != last(*result, false, 2) ||
      last(*rhs, getTransposeRhs(), 1) != last(*result, false, 1) ||
      last(*lhs, getTransposeLhs(), 1) != last(*rhs, getTransposeRhs(), 2))
    return emitOpError("gemm_c1: shapes do not fit: ")
           << getLhs().getType() << " x " << getRhs().getType() << " -> " << getResult().getType();
  if (getResidual() && getResidual().getType() != getResult().getType())
    return emitOpError("gemm_c2: the residual's type is not the result's");
  if (getPre() && getPre().getType() != getResult().getType())
    return emitOpError("gemm_c2: the type of pre is not the result's");
  if (getAt() && getAt().getType() != getResult().getType())
    return emitOpError("gemm_c2: the type of at is not the result's");
  if (getBias()) {
    auto bias = shapeOf(getBias());
    if (!bias || bias->size() != 1 || bias->back() != result->back())
      return emitOpError("gemm_c3: bias ") << getBias().getType() << " is not one value a column";
  }
  if (getAt() && (getActivation() == Activation::None || getBias() || getResidual() || getPre()))
    return emitOpError("gemm_c4: at needs an activation and no bias, residual or pre");
  if (getSums()) {
    auto sums = shapeOf(getSums());
    if (result->size() != 2 || !sums || sums->size() != 1 ||
        sums->back() != (*result)[getSumRhs() ? 1 : 0])
      return emitOpError("gemm_c5: sums ")
             << getSums().getType() << " are not those of an operand of two dimensions";
  }
  return success();
}

LogicalResult DequantizeOp::verify() {
  auto weight = cast<RankedTensorType>(getWeight().getType());
  if (!isQuantized(weight) || getResult().getType() != weight.dropEncoding())
    return emitOpError("dequantize_c1: ")
           << getResult().getType() << " are not the numbers of " << weight;
  return success();
}

LogicalResult FusedOp::verify() {
  Block &block = getBody().front();
  if (!llvm::equal(block.getArgumentTypes(), getInputs().getTypes()))
    return emitOpError("fused_c1: the block's arguments do not have the types of the inputs");
  auto yield = dyn_cast<FusedYieldOp>(block.getTerminator());
  if (!yield || !llvm::equal(yield.getOperandTypes(), getResultTypes()))
    return emitOpError("fused_c1: the terminator does not yield the results");
  for (Operation &op : block.without_terminator())
    if (!isa<ElementwiseOpInterface, ReduceOp, ReshapeOp, ExpandOp, ConstantOp>(op))
      return emitOpError("fused_c2: '") << op.getName() << "' cannot be part of a fused group";
  if (getRows().size() != 3 && getRows().size() != 5)
    return emitOpError(
        "rows needs three numbers, constant, per V, per N, or two more, per v, per n");
  return success();
}
