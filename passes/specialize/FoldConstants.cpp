//===- FoldConstants.cpp - Evaluation of what depends on constants alone -----------------===//
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "mlir/IR/Matchers.h"
#include "passes/specialize/SpecializeInternal.h"

using namespace mlir;

namespace omnibal::specialization {

namespace {
/// Reshape and expand of a splat need no data; large zero biases stay small this way.
ElementsAttr foldSplat(Operation *op, ArrayRef<Attribute> operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!isa<ReshapeOp, SqueezeOp, UnsqueezeOp, ExpandOp, SliceOp, TransposeOp, TileOp>(op))
    return {};
  auto splat = dyn_cast<SplatElementsAttr>(operands[0]);
  if (!splat)
    return {};
  return SplatElementsAttr::get(type, splat.getSplatValue<Attribute>());
}
} // namespace

FailureOr<SmallVector<Operation *>> foldConstant(RewriterBase &rewriter, Operation *op,
                                                 int64_t limitElements) {
  SmallVector<Operation *> created;
  if (op->getNumOperands() == 0 || !isFoldable(op))
    return created;
  int64_t elements = 0;
  for (Type type : op->getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    if (!tensor.hasStaticShape())
      return created;
    elements += tensor.getNumElements();
  }
  SmallVector<Attribute> constants;
  for (Value operand : op->getOperands()) {
    Attribute constant;
    if (!matchPattern(operand, m_Constant(&constant)))
      return created;
    constants.push_back(constant);
  }
  rewriter.setInsertionPoint(op);
  if (ElementsAttr splat = foldSplat(op, constants)) {
    created.push_back(rewriter.replaceOpWithNewOp<ConstantOp>(op, splat.getType(), splat));
    return created;
  }
  if (elements > limitElements)
    return created;
  SmallVector<HostTensor> tensors;
  for (Attribute constant : constants) {
    FailureOr<HostTensor> tensor = fromAttribute(cast<ElementsAttr>(constant));
    if (failed(tensor))
      return created; // data of the constant is not present
    tensors.push_back(std::move(*tensor));
  }
  SmallVector<const HostTensor *> operands;
  for (const HostTensor &tensor : tensors)
    operands.push_back(&tensor);
  Interpreter interpreter(InterpreterOptions{});
  auto results = interpreter.evaluateOp(op, operands);
  if (failed(results))
    return failure();
  SmallVector<Value> values;
  for (HostTensor &tensor : *results) {
    DenseElementsAttr attribute = toAttribute(tensor);
    auto constant = ConstantOp::create(rewriter, op->getLoc(), attribute.getType(), attribute);
    created.push_back(constant);
    values.push_back(constant);
  }
  rewriter.replaceOp(op, values);
  return created;
}

} // namespace omnibal::specialization
