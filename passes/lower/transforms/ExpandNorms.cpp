//===- ExpandNorms.cpp - Norms and softmax as reductions and elementwise ops -------------===//
#include "mlir/IR/PatternMatch.h"
#include "passes/lower/Passes.h"
#include "passes/lower/TensorBuilder.h"

namespace omnibal::lower {
#define GEN_PASS_DEF_EXPANDNORMS
#include "passes/lower/Passes.h.inc"

using namespace mlir;

namespace {

/// Whether dimensions [axis, rank) are static, so that a row of them is a row of a fused kernel.
bool hasStaticTail(Value value, int64_t axis) {
  RankedTensorType type = typeOf(value);
  if (!getSymbolicShape(type) || axis < 0 || axis >= type.getRank())
    return false;
  for (int64_t i = axis; i < type.getRank(); ++i)
    if (type.isDynamicDim(i))
      return false;
  return true;
}
int64_t fromFront(int64_t axis, Value value) {
  return axis < 0 ? axis + typeOf(value).getRank() : axis;
}

Value expand(RMSNormOp op, OpBuilder &builder) {
  TensorBuilder t(builder, op.getLoc());
  Value x = op.getInput();
  int64_t axis = fromFront(op.getAxis(), x);
  Value mean = t.reduceFrom(t.like<MulOp>(x, x, x), axis, ReduceKind::Mean);
  Value epsilon = t.scalar(op.getEpsilon().convertToDouble(), typeOf(x).getElementType());
  Value factor = t.like<RsqrtOp>(mean, t.like<AddOp>(mean, mean, epsilon));
  Value result = t.like<MulOp>(x, x, factor);
  return op.getScale() ? t.like<MulOp>(x, result, op.getScale()) : result;
}

Value expand(LayerNormOp op, OpBuilder &builder) {
  TensorBuilder t(builder, op.getLoc());
  Value x = op.getInput();
  int64_t axis = fromFront(op.getAxis(), x);
  Value mean = t.reduceFrom(x, axis, ReduceKind::Mean);
  Value centered = t.like<SubOp>(x, x, mean);
  Value variance = t.reduceFrom(t.like<MulOp>(x, centered, centered), axis, ReduceKind::Mean);
  Value epsilon = t.scalar(op.getEpsilon().convertToDouble(), typeOf(x).getElementType());
  Value factor = t.like<RsqrtOp>(variance, t.like<AddOp>(variance, variance, epsilon));
  Value result = t.like<MulOp>(x, t.like<MulOp>(x, centered, factor), op.getScale());
  return op.getBias() ? t.like<AddOp>(x, result, op.getBias()) : result;
}

Value expandSoftmax(Value x, Location loc, OpBuilder &builder, bool logarithm) {
  TensorBuilder t(builder, loc);
  int64_t axis = typeOf(x).getRank() - 1;
  Value shifted = t.like<SubOp>(x, x, t.reduceFrom(x, axis, ReduceKind::Max));
  Value exponential = t.like<ExpOp>(x, shifted);
  Value sum = t.reduceFrom(exponential, axis, ReduceKind::Sum);
  if (logarithm)
    return t.like<SubOp>(x, shifted, t.like<LogOp>(sum, sum));
  return t.like<MulOp>(x, exponential, t.like<ReciprocalOp>(sum, sum));
}

struct ExpandNormsPass : impl::ExpandNormsBase<ExpandNormsPass> {
  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      Value x = op->getNumOperands() ? op->getOperand(0) : Value();
      OpBuilder builder(op);
      Value result;
      if (auto norm = dyn_cast<RMSNormOp>(op)) {
        if (hasStaticTail(x, fromFront(norm.getAxis(), x)))
          result = expand(norm, builder);
      } else if (auto norm = dyn_cast<LayerNormOp>(op)) {
        if (hasStaticTail(x, fromFront(norm.getAxis(), x)))
          result = expand(norm, builder);
      } else if (auto softmax = dyn_cast<SoftmaxOp>(op)) {
        int64_t last = typeOf(x).getRank() - 1;
        if (fromFront(softmax.getAxis(), x) == last && hasStaticTail(x, last))
          result = expandSoftmax(x, op->getLoc(), builder, false);
      } else if (auto softmax = dyn_cast<LogSoftmaxOp>(op)) {
        int64_t last = typeOf(x).getRank() - 1;
        if (fromFront(softmax.getAxis(), x) == last && hasStaticTail(x, last))
          result = expandSoftmax(x, op->getLoc(), builder, true);
      }
      if (!result)
        return;
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    });
  }
};

} // namespace
} // namespace omnibal::lower
