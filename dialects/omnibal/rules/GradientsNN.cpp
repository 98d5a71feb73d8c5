//===- GradientsNN.cpp - Gradients of products, attention, embeddings and losses ---------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// `value` with a dimension of size 1 inserted.
Value withUnitDim(GradientBuilder &b, Value value, int64_t axis) {
  SymbolicShape shape = shapeOf(value);
  shape.insert(shape.begin() + axis, SymbolicDim(1));
  return b.reshape(value,
                   makeTensorType(value.getContext(), shape, tensorType(value).getElementType()));
}
} // namespace

OMNIBAL_GRADIENT_RULE(MatMulOp) {
  Value lhs = op.getLhs(), rhs = op.getRhs(), dy = g[0];
  bool transposeLhs = op.getTransposeLhs(), transposeRhs = op.getTransposeRhs();
  // Vectors become matrices: a row on the left, a column on the right.
  bool vectorLhs = tensorType(lhs).getRank() == 1, vectorRhs = tensorType(rhs).getRank() == 1;
  if (vectorRhs) {
    rhs = withUnitDim(b, rhs, 1);
    dy = withUnitDim(b, dy, tensorType(dy).getRank());
  }
  if (vectorLhs) {
    lhs = withUnitDim(b, lhs, 0);
    dy = withUnitDim(b, dy, tensorType(dy).getRank() - 1);
  }
  int64_t lhsRank = tensorType(lhs).getRank(), rhsRank = tensorType(rhs).getRank();
  if (needs(0)) {
    Value dx = transposeLhs ? b.create<MatMulOp>(rhs, dy, transposeRhs, true)
                            : b.create<MatMulOp>(dy, rhs, false, !transposeRhs);
    gradients[0] = b.reshape(b.reduceTo(dx, lhs), tensorType(op.getLhs()));
  }
  if (needs(1)) {
    Value dw;
    if (rhsRank == 2 && lhsRank > 2 && !transposeLhs) // one product over all rows
      dw = b.create<LinearWeightGradOp>(lhs, dy, !transposeRhs);
    else if (transposeRhs)
      dw = b.create<MatMulOp>(dy, lhs, true, transposeLhs);
    else
      dw = b.create<MatMulOp>(lhs, dy, !transposeLhs, false);
    gradients[1] = b.reshape(b.reduceTo(dw, rhs), tensorType(op.getRhs()));
  }
  return success();
}

OMNIBAL_GRADIENT_RULE(LinearOp) {
  if (needs(0))
    gradients[0] = b.create<LinearOp>(g[0], op.getWeight(), Value(), !op.getInOut());
  if (needs(1))
    gradients[1] = b.create<LinearWeightGradOp>(op.getInput(), g[0], op.getInOut());
  if (op.getBias() && needs(2))
    gradients[2] = b.reduceTo(g[0], op.getBias());
  return success();
}

OMNIBAL_GRADIENT_RULE(GroupedLinearOp) {
  if (needs(0))
    gradients[0] = b.create<GroupedLinearOp>(g[0], op.getWeight(), op.getOrder(), op.getBorders(),
                                             !op.getInOut());
  if (needs(1))
    gradients[1] = b.create<GroupedLinearWeightGradOp>(op.getInput(), g[0], op.getOrder(),
                                                       op.getBorders(), op.getInOut());
  return success();
}

OMNIBAL_GRADIENT_RULE(ConvOp) {
  if (needs(0))
    gradients[0] = ConvInputGradOp::create(b.builder, b.loc, op.getInput().getType(), g[0],
                                           op.getWeight(), op.getStridesAttr(), op.getPadsAttr(),
                                           op.getDilationsAttr(), op.getGroupAttr());
  if (needs(1))
    gradients[1] = ConvWeightGradOp::create(
        b.builder, b.loc, op.getWeight().getType(), op.getInput(), g[0], op.getStridesAttr(),
        op.getPadsAttr(), op.getDilationsAttr(), op.getGroupAttr());
  if (op.getBias() && needs(2)) {
    SmallVector<int64_t> axes{0};
    for (int64_t i = 2; i < tensorType(g[0]).getRank(); ++i)
      axes.push_back(i);
    gradients[2] = b.reduce(ReduceKind::Sum, g[0], axes, false);
  }
  return success();
}

namespace {
/// A sink is the score of a key with value 0: its gradient is that of a score, summed over rows. A
/// row that sees nothing has a log-sum-exp of minus infinity, and a result of 0.
Value sinkGradient(AttentionOp op, GradientBuilder &b, Value grad) {
  Value sinks = op.getSinks(), lse = op.getLse();
  Type element = tensorType(sinks).getElementType();
  Value column = b.reshape(
      sinks, makeTensorType(op.getContext(), {SymbolicDim(1), shapeOf(sinks)[0], SymbolicDim(1)},
                            element));
  Value below = b.create<MinOp>(b.sub(column, lse), b.scalar(element, 0));
  Value weights = b.create<ExpOp>(below);
  Value delta = b.reduce(ReduceKind::Sum, b.mul(op.getResult(), grad), {3}, false);
  return b.neg(b.reduce(ReduceKind::Sum, b.mul(weights, delta), {0, 2}, false));
}
} // namespace

OMNIBAL_GRADIENT_RULE(AttentionOp) {
  bool scoresNeeded = needs(0) || needs(1) || needs(2);
  unsigned sinks = op.getODSOperandIndexAndLength(6).first;
  bool sinksNeeded = op.getSinks() && needs(sinks);
  if (!scoresNeeded && !sinksNeeded)
    return success();
  if (op.getMask())
    return op.emitOpError("with an explicit mask has no gradient: the mask must be recognized "
                          "(omnibal-raise) before training");
  if (g[1])
    return op.emitOpError("has no gradient for its log-sum-exp");
  if (sinksNeeded)
    gradients[sinks] = sinkGradient(op, b, g[0]);
  if (!scoresNeeded)
    return success();
  auto grad = AttentionGradOp::create(
      b.builder, b.loc, op.getQuery().getType(), op.getKey().getType(), op.getValue().getType(),
      op.getQuery(), op.getKey(), op.getValue(), op.getResult(), op.getLse(), g[0],
      op.getCuSeqlens(), op.getTypes(), op.getScaleAttr(), op.getMaskKindAttr(), op.getWindowAttr(),
      op.getTypeRangeAttr(), op.getSoftcapAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (needs(i))
      gradients[i] = grad->getResult(i);
  return success();
}

OMNIBAL_GRADIENT_RULE(RopeOp) {
  if (needs(2) || needs(3))
    return op.emitOpError("has no gradient for its tables: they must not depend on parameters");
  if (needs(0))
    gradients[0] = b.create<RopeOp>(g[0], op.getPositions(), op.getCos(), op.getSin(),
                                    op.getInterleaved(), !op.getInverse());
  return success();
}

OMNIBAL_GRADIENT_RULE(EmbeddingOp) {
  if (needs(0))
    gradients[0] = EmbeddingGradOp::create(b.builder, b.loc, op.getTable().getType(), g[0],
                                           op.getIds(), op.getPaddingAttr());
  return success();
}

OMNIBAL_GRADIENT_RULE(ShiftTokensOp) {
  if (needs(0))
    gradients[0] =
        b.create<ShiftTokensOp>(g[0], op.getPositions(), op.getDistance(), !op.getInverse());
  return success();
}

OMNIBAL_GRADIENT_RULE(ImageMergeOp) {
  if (!needs(0) && !needs(1))
    return success();
  auto grad = ImageMergeGradOp::create(b.builder, b.loc, op.getText().getType(),
                                       op.getFeatures().getType(), g[0], op.getImageRows());
  if (needs(0))
    gradients[0] = grad.getDtext();
  if (needs(1))
    gradients[1] = grad.getDfeatures();
  return success();
}

namespace {
/// Scales rows [.., W] by a gradient [..] of as many elements.
Value scaleRows(GradientBuilder &b, Value rows, Value factors) {
  if (isFilledWith(factors, 1))
    return rows; // the loss of a training step: its gradient is one everywhere
  SymbolicShape shape = shapeOf(rows);
  shape.back() = SymbolicDim(1);
  RankedTensorType column =
      makeTensorType(rows.getContext(), shape, tensorType(rows).getElementType());
  return b.mul(rows, b.reshape(factors, column));
}
} // namespace

OMNIBAL_GRADIENT_RULE(CrossEntropyOp) {
  if (!needs(0))
    return success();
  auto grad = createOp<CrossEntropyGradOp>(b.builder, b.loc, op.getLogits(), op.getTargets(),
                                           op.getSmoothingAttr(), op.getZAttr());
  gradients[0] = scaleRows(b, grad.getDlogits(), g[0]);
  return success();
}

OMNIBAL_GRADIENT_RULE(LinearCrossEntropyOp) {
  bool biasNeeded = op.getBias() && needs(2);
  if (!needs(0) && !needs(1) && !biasNeeded)
    return success();
  Value rowWeights = isFilledWith(g[0], 1) ? Value() : g[0];
  auto grad = LinearCrossEntropyGradOp::create(
      b.builder, b.loc, op.getLoss().getType(), op.getHidden().getType(), op.getWeight().getType(),
      op.getBias() ? op.getBias().getType() : Type(), op.getHidden(), op.getWeight(), op.getBias(),
      op.getTargets(), rowWeights, op.getScaleAttr(), op.getSmoothingAttr(), op.getZAttr());
  if (needs(0))
    gradients[0] = grad.getDhidden();
  if (needs(1))
    gradients[1] = grad.getDweight();
  if (biasNeeded)
    gradients[2] = grad.getDbias();
  return success();
}

/// Gradients go past the statistics, which are made of the same hidden states and weights.
OMNIBAL_GRADIENT_RULE(JoinedCrossEntropyOp) {
  const bool biasNeeded = op.getBias() && needs(2);
  if (!needs(0) && !needs(1) && !biasNeeded)
    return success();
  Value rowWeights = isFilledWith(g[0], 1) ? Value() : g[0];
  auto grad = JoinedCrossEntropyGradOp::create(
      b.builder, b.loc, op.getHidden().getType(), op.getWeight().getType(),
      biasNeeded ? op.getBias().getType() : Type(), op.getHidden(), op.getWeight(), op.getBias(),
      op.getTargets(), op.getStatistics(), rowWeights, op.getScaleAttr(), op.getSmoothingAttr(),
      op.getZAttr(), op.getFirstAttr(), op.getWordsAttr());
  if (needs(0))
    gradients[0] = grad.getDhidden();
  if (needs(1))
    gradients[1] = grad.getDweight();
  if (biasNeeded)
    gradients[2] = grad.getDbias();
  return success();
}

OMNIBAL_GRADIENT_RULE(PreferenceLossOp) {
  if (g[1] || g[2] || needs(2))
    return op.emitOpError("has gradients of its loss with respect to losses alone");
  if (needs(0) && g[0])
    gradients[0] = createOp<PreferenceLossGradOp>(
        b.builder, b.loc, op.getLosses(), op.getCuSeqlens(), op.getReference(),
        isFilledWith(g[0], 1) ? Value() : g[0], op.getBetaAttr(), op.getSmoothingAttr());
  return success();
}

OMNIBAL_GRADIENT_RULE(CrossAttentionOp) {
  if (!needs(0) && !needs(1) && !needs(2))
    return success();
  if (g[1])
    return op.emitOpError("has no gradient for its log-sum-exp");
  auto grad = CrossAttentionGradOp::create(
      b.builder, b.loc, op.getQuery().getType(), op.getKey().getType(), op.getValue().getType(),
      op.getQuery(), op.getKey(), op.getValue(), op.getResult(), op.getLse(), g[0], op.getBegins(),
      op.getEnds(), op.getScaleAttr(), op.getRowsAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (needs(i))
      gradients[i] = grad->getResult(i);
  return success();
}

OMNIBAL_GRADIENT_RULE(GatedDeltaOp) {
  bool any = false;
  for (unsigned i = 0; i < 5; ++i)
    any |= needs(i);
  if (!any)
    return success();
  SmallVector<Type> types;
  for (unsigned i = 0; i < 5; ++i)
    types.push_back(op->getOperand(i).getType());
  auto grad =
      GatedDeltaGradOp::create(b.builder, b.loc, types[0], types[1], types[2], types[3], types[4],
                               op.getQuery(), op.getKey(), op.getValue(), op.getDecay(),
                               op.getBeta(), g[0], op.getCuSeqlens(), op.getScaleAttr());
  for (unsigned i = 0; i < 5; ++i)
    if (needs(i))
      gradients[i] = grad->getResult(i);
  return success();
}
