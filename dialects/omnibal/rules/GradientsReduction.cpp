//===- GradientsReduction.cpp - Gradients of reductions, softmax and norms ---------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// Axes of a specialized reduction, counted from the front.
FailureOr<SmallVector<int64_t>> reducedAxes(ReduceOp op) {
  int64_t rank = tensorType(op.getInput()).getRank();
  SmallVector<int64_t> axes;
  if (op.getAxes())
    axes.assign(op.getAxes()->begin(), op.getAxes()->end());
  else if (op.getAxesOperand())
    return op.emitOpError("must have its axes as attribute before it is differentiated "
                          "(omnibal-specialize does that)");
  if (axes.empty() && !op.getNoopWithEmptyAxes())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (int64_t &axis : axes)
    axis = axis < 0 ? axis + rank : axis;
  return axes;
}

/// Number of elements along `axes`, as a constant or, where it depends on V or N, as a sum of ones.
Value countAlong(GradientBuilder &b, Value input, ArrayRef<int64_t> axes) {
  SymbolicShape shape = shapeOf(input), counted;
  for (int64_t axis : axes)
    counted.push_back(shape[axis]);
  auto count = product(counted);
  if (count && count->isStatic())
    return b.scalar(input, count->constant);
  RankedTensorType ones =
      makeTensorType(input.getContext(), counted, tensorType(input).getElementType());
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, counted.size()));
  return b.reduce(ReduceKind::Sum, b.filled(ones, 1), all, false);
}
} // namespace

OMNIBAL_GRADIENT_RULE(ReduceOp) {
  if (!needs(0))
    return success();
  auto axes = reducedAxes(op);
  if (failed(axes))
    return failure();
  Value x = op.getInput(), dy = g[0], y = op.getResult();
  SymbolicShape kept = shapeOf(x);
  for (int64_t axis : *axes)
    kept[axis] = SymbolicDim(1);
  RankedTensorType keptType = makeTensorType(op.getContext(), kept, tensorType(x).getElementType());
  dy = b.reshape(dy, keptType);
  switch (op.getKind()) {
  case ReduceKind::Sum:
    gradients[0] = b.expand(dy, tensorType(x));
    break;
  case ReduceKind::Mean:
    gradients[0] = b.expand(b.div(dy, countAlong(b, x, *axes)), tensorType(x));
    break;
  case ReduceKind::Max:
  case ReduceKind::Min: { // equal extremes share the gradient evenly, as in PyTorch
    Value hit = b.compare(ComparePredicate::EQ, x, b.reshape(y, keptType));
    Value one = b.select(hit, b.scalar(x, 1), b.scalar(x, 0));
    Value share = b.div(dy, b.reduce(ReduceKind::Sum, one, *axes, true));
    gradients[0] = b.mul(one, share);
    break;
  }
  case ReduceKind::Prod: { // product of the others, also where one element is zero
    Value zero = b.scalar(x, 0), one = b.scalar(x, 1);
    Value isZero = b.compare(ComparePredicate::EQ, x, zero);
    Value zeros = b.reduce(ReduceKind::Sum, b.select(isZero, one, zero), *axes, true);
    Value nonZero = b.select(isZero, one, x);
    Value product = b.reduce(ReduceKind::Prod, nonZero, *axes, true);
    Value noZero = b.compare(ComparePredicate::EQ, zeros, zero);
    Value oneZero = b.compare(ComparePredicate::EQ, zeros, one);
    Value atZero = b.select(oneZero, product, zero);
    Value elsewhere = b.select(noZero, b.div(product, nonZero), zero);
    gradients[0] = b.mul(b.select(isZero, atZero, elsewhere), dy);
    break;
  }
  }
  return success();
}

OMNIBAL_GRADIENT_RULE(CumSumOp) {
  if (needs(0)) // element i reaches all later sums: sum from the other end
    gradients[0] = b.create<CumSumOp>(g[0], op.getAxisOperand(), op.getAxisAttr(),
                                      op.getExclusive(), !op.getReverse());
  return success();
}

OMNIBAL_GRADIENT_RULE(SoftmaxOp) {
  int64_t rank = tensorType(g[0]).getRank();
  int64_t axis = int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + rank : op.getAxis();
  if (!needs(0))
    return success();
  Value weighted = b.mul(g[0], op.getResult());
  Value sum = b.reduce(ReduceKind::Sum, weighted, {axis}, true);
  gradients[0] = b.sub(weighted, b.mul(op.getResult(), sum));
  return success();
}

OMNIBAL_GRADIENT_RULE(LogSoftmaxOp) {
  int64_t rank = tensorType(g[0]).getRank();
  int64_t axis = int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + rank : op.getAxis();
  if (!needs(0))
    return success();
  Value sum = b.reduce(ReduceKind::Sum, g[0], {axis}, true);
  gradients[0] = b.sub(g[0], b.mul(b.create<ExpOp>(op.getResult()), sum));
  return success();
}

namespace {
/// The parts of a norm's gradient. The statistics are computed again from x: two row reductions in
/// the same pass over x that fusion makes of the whole, against one more tensor kept.
struct NormGradient {
  Value normalized, rstd;
  SmallVector<int64_t> axes;
};

NormGradient normalize(GradientBuilder &b, Value x, int64_t axis, double epsilon, bool centered) {
  int64_t rank = tensorType(x).getRank();
  NormGradient n;
  n.axes = llvm::to_vector(llvm::seq<int64_t>(axis < 0 ? axis + rank : axis, rank));
  if (centered)
    x = b.sub(x, b.reduce(ReduceKind::Mean, x, n.axes, true));
  Value variance = b.reduce(ReduceKind::Mean, b.mul(x, x), n.axes, true);
  n.rstd = b.create<RsqrtOp>(b.add(variance, b.scalar(variance, epsilon)));
  n.normalized = b.mul(x, n.rstd);
  return n;
}

/// rstd * (dz - [mean(dz)] - z * mean(dz * z)), z the normalized input and dz its gradient.
Value inputGradient(GradientBuilder &b, const NormGradient &n, Value dz, bool centered) {
  Value mean = b.reduce(ReduceKind::Mean, b.mul(dz, n.normalized), n.axes, true);
  Value inner = b.sub(dz, b.mul(n.normalized, mean));
  if (centered)
    inner = b.sub(inner, b.reduce(ReduceKind::Mean, dz, n.axes, true));
  return b.mul(n.rstd, inner);
}
} // namespace

OMNIBAL_GRADIENT_RULE(LayerNormOp) {
  if (needs(0) || needs(1)) {
    NormGradient n =
        normalize(b, op.getInput(), op.getAxis(), op.getEpsilon().convertToDouble(), true);
    if (needs(0))
      gradients[0] = inputGradient(b, n, b.mul(g[0], op.getScale()), true);
    if (needs(1))
      gradients[1] = b.reduceTo(b.mul(g[0], n.normalized), op.getScale());
  }
  if (op.getBias() && needs(2))
    gradients[2] = b.reduceTo(g[0], op.getBias());
  return success();
}

OMNIBAL_GRADIENT_RULE(RMSNormOp) {
  bool scaleNeeded = op.getScale() && needs(1);
  if (!needs(0) && !scaleNeeded)
    return success();
  NormGradient n =
      normalize(b, op.getInput(), op.getAxis(), op.getEpsilon().convertToDouble(), false);
  if (needs(0))
    gradients[0] =
        inputGradient(b, n, op.getScale() ? b.mul(g[0], op.getScale()) : Value(g[0]), false);
  if (scaleNeeded)
    gradients[1] = b.reduceTo(b.mul(g[0], n.normalized), op.getScale());
  return success();
}
