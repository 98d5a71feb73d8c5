//===- TypeRules.cpp - Element types of operands and results -----------------------------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }
bool isFloat(Type type) { return isa<FloatType>(type); }

/// Ops on real numbers only.
bool isFloatOnly(Operation *op) {
  return isa<ExpOp, LogOp, SqrtOp, RsqrtOp, ReciprocalOp, ErfOp, TanhOp, SigmoidOp, CosOp, SinOp,
             FloorOp, IsNaNOp, SiluOp, QuickGeluOp, GeluOp, SiluGradOp, QuickGeluGradOp,
             GeluGradOp>(op);
}
bool isIntegerOnly(Operation *op) { return isa<AndOp, OrOp, XorOp, NotOp>(op); }
} // namespace

Type omnibal::inferElementType(Operation *op, unsigned result) {
  Builder builder(op->getContext());
  if (isa<CompareOp, IsNaNOp>(op))
    return builder.getI1Type();
  if (isa<ShapeOp, SizeOp, NonZeroOp, TopKOp>(op))
    return builder.getI64Type();
  if (isa<GroupRowsOp>(op))
    return builder.getI32Type();
  if (isa<CastOp, RandomUniformOp>(op) ||
      op->getNumOperands() == 0) // concat of nothing is its shape rule's error
    return nullptr;
  if (isa<CrossEntropyOp, LinearCrossEntropyOp, WordStatisticsOp>(op) && result == 1)
    return builder.getI32Type(); // the predictions
  if (isa<JoinedPredictionOp>(op))
    return builder.getI32Type();
  return elementOf(op->getOperand(isa<SelectOp>(op) ? 1 : 0));
}

LogicalResult omnibal::verifyElementTypes(Operation *op) {
  if (isa<ElementwiseOpInterface>(op)) {
    Type first = elementOf(op->getOperand(isa<SelectOp>(op) ? 1 : 0));
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (isa<SelectOp>(op) && i == 0) {
        if (!elementOf(operand).isInteger(1)) // select_c1
          return op->emitOpError("condition must have element type i1");
        continue;
      }
      // The exponent's type is its own in ONNX (x ** 2 with an integer 2).
      if (elementOf(operand) != first && !(isa<PowOp>(op) && i == 1)) // elementwise_c2
        return op->emitOpError() << "operands have different element types: " << first << " and "
                                 << elementOf(operand);
    }
    if (isFloatOnly(op) && !isFloat(first)) // elementwise_c3
      return op->emitOpError() << "needs floating operands, not " << first;
    if (isa<RandomUniformOp>(op) && !isFloat(elementOf(op->getResult(0)))) // random_uniform_c1
      return op->emitOpError() << "makes floating numbers, not " << elementOf(op->getResult(0));
    if (isIntegerOnly(op) && isFloat(first)) // elementwise_c4
      return op->emitOpError() << "needs boolean or integer operands, not " << first;
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Type expected = inferElementType(op, i);
    if (expected && elementOf(result) != expected) // type_c1
      return op->emitOpError() << "result " << i << " has element type " << elementOf(result)
                               << " but must have " << expected;
  }
  if (auto concat = dyn_cast<ConcatOp>(op))
    for (Value input : concat.getInputs())
      if (elementOf(input) != elementOf(concat.getInputs()[0])) // concat_c3
        return op->emitOpError("inputs have different element types");
  if (auto scatter = dyn_cast<ScatterNDOp>(op))
    if (elementOf(scatter.getUpdates()) != elementOf(scatter.getInput())) // scatter_nd_c3
      return op->emitOpError("updates and input have different element types");
  if (auto scatter = dyn_cast<ScatterElementsOp>(op))
    if (elementOf(scatter.getUpdates()) != elementOf(scatter.getInput())) // scatter_elements_c3
      return op->emitOpError("updates and input have different element types");
  if (isa<MatMulOp, RangeOp>(op))
    for (Value operand : op->getOperands())
      if (elementOf(operand) != elementOf(op->getOperand(0))) // matmul_c3, range_c1
        return op->emitOpError("operands have different element types");
  return success();
}
