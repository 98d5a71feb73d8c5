//===- Autodiff.cpp - Reverse sweep over the body of one layer ---------------------------===//
#include "passes/differentiate/Autodiff.h"

using namespace mlir;
using namespace omnibal;

llvm::DenseSet<Value> omnibal::findActiveValues(ArrayRef<Operation *> ops, ArrayRef<Value> active) {
  llvm::DenseSet<Value> result(active.begin(), active.end());
  for (Operation *op : ops) {
    if (op->hasTrait<HasZeroGradient>() ||
        llvm::none_of(op->getOperands(), [&](Value operand) { return result.contains(operand); }))
      continue;
    for (Value value : op->getResults())
      if (isa<FloatType>(cast<ShapedType>(value.getType()).getElementType()))
        result.insert(value);
  }
  return result;
}

namespace {
class ReverseSweep {
public:
  ReverseSweep(OpBuilder &builder, const llvm::DenseSet<Value> &active)
      : builder(builder), active(active) {}

  void accumulate(Value value, Value gradient) {
    if (!gradient || !active.contains(value))
      return;
    Value &sum = gradients.of[value];
    sum = sum ? Value(AddOp::create(builder, gradient.getLoc(), value.getType(), sum, gradient))
              : gradient;
  }

  LogicalResult visit(Operation *op) {
    SmallVector<bool> needed;
    for (Value operand : op->getOperands())
      needed.push_back(active.contains(operand));
    bool isLoss =
        isa<LinearCrossEntropyOp, JoinedCrossEntropyOp, CrossEntropyOp, PreferenceLossOp>(op);
    SmallVector<Value> resultGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(gradients.of.lookup(result));
    // What another loss is made of has a gradient from there.
    if (isLoss && !resultGradients[0])
      return visitLoss(op);
    if (llvm::none_of(resultGradients, [](Value v) { return bool(v); }) ||
        llvm::none_of(needed, [](bool n) { return n; }))
      return success();
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitOpError("has no gradient, but what trains lies before it; freeze that or "
                             "export the model without this op");
    SmallVector<Value> operandGradients(op->getNumOperands());
    if (failed(differentiable.buildGradients(builder, resultGradients, needed, operandGradients)))
      return failure();
    if (operandGradients.size() != op->getNumOperands())
      return op->emitOpError("gave ")
             << operandGradients.size() << " gradients for " << op->getNumOperands() << " operands";
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), operandGradients)) {
      if (gradient && gradient.getType() != operand.getType())
        return op->emitOpError("gave a gradient of type ")
               << gradient.getType() << " for an operand of type " << operand.getType();
      accumulate(operand, gradient);
    }
    return success();
  }

  Gradients gradients;

private:
  /// A loss is where the sweep begins. The gradient op of a cross entropy gives losses and
  /// gradients in one pass; the loss of pairs, and that of words which parts share, is known before
  /// their gradients are.
  LogicalResult visitLoss(Operation *op) {
    if (gradients.loss) {
      InFlightDiagnostic error = op->emitOpError("is the second loss of its layer");
      error.attachNote(gradients.loss.getLoc()) << "the other loss";
      return error;
    }
    if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
      auto gradient = CrossEntropyGradOp::create(
          builder, op->getLoc(), loss.getLoss().getType(), loss.getLogits().getType(),
          loss.getLogits(), loss.getTargets(), loss.getSmoothingAttr(), loss.getZAttr());
      gradients.loss = gradient.getLoss();
      accumulate(loss.getLogits(), gradient.getDlogits());
      return success();
    }
    if (auto loss = dyn_cast<PreferenceLossOp>(op)) {
      gradients.loss = loss.getLoss();
      if (active.contains(loss.getLosses()))
        accumulate(loss.getLosses(), PreferenceLossGradOp::create(
                                         builder, op->getLoc(), loss.getLosses().getType(),
                                         loss.getLosses(), loss.getCuSeqlens(), loss.getReference(),
                                         Value(), loss.getBetaAttr(), loss.getSmoothingAttr()));
      return success();
    }
    if (auto loss = dyn_cast<JoinedCrossEntropyOp>(op)) {
      gradients.loss = loss.getLoss();
      visitJoined(loss);
      return success();
    }
    auto loss = cast<LinearCrossEntropyOp>(op);
    Value bias = loss.getBias();
    auto gradient = LinearCrossEntropyGradOp::create(
        builder, op->getLoc(), loss.getLoss().getType(), loss.getHidden().getType(),
        loss.getWeight().getType(), bias && active.contains(bias) ? bias.getType() : Type(),
        loss.getHidden(), loss.getWeight(), bias, loss.getTargets(), Value(), loss.getScaleAttr(),
        loss.getSmoothingAttr(), loss.getZAttr());
    gradients.loss = gradient.getLoss();
    accumulate(loss.getHidden(), gradient.getDhidden());
    accumulate(loss.getWeight(), gradient.getDweight());
    if (Value dbias = gradient.getDbias())
      accumulate(bias, dbias);
    return success();
  }

  void visitJoined(JoinedCrossEntropyOp loss) {
    Value bias = loss.getBias();
    auto gradient = JoinedCrossEntropyGradOp::create(
        builder, loss.getLoc(), loss.getHidden().getType(), loss.getWeight().getType(),
        bias && active.contains(bias) ? bias.getType() : Type(), loss.getHidden(), loss.getWeight(),
        bias, loss.getTargets(), loss.getStatistics(), Value(), loss.getScaleAttr(),
        loss.getSmoothingAttr(), loss.getZAttr(), loss.getFirstAttr(), loss.getWordsAttr());
    accumulate(loss.getHidden(), gradient.getDhidden());
    accumulate(loss.getWeight(), gradient.getDweight());
    if (Value dbias = gradient.getDbias())
      accumulate(bias, dbias);
  }

  OpBuilder &builder;
  const llvm::DenseSet<Value> &active;
};
} // namespace

FailureOr<Gradients> omnibal::buildGradients(OpBuilder &builder, ArrayRef<Operation *> ops,
                                             ArrayRef<std::pair<Value, Value>> seeds,
                                             const llvm::DenseSet<Value> &active) {
  ReverseSweep sweep(builder, active);
  for (auto [value, gradient] : seeds)
    sweep.accumulate(value, gradient);
  for (Operation *op : llvm::reverse(ops))
    if (failed(sweep.visit(op)))
      return failure();
  return std::move(sweep.gradients);
}
