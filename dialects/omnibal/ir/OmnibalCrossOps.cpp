//===- OmnibalCrossOps.cpp - Tokens that attend to pictures: shapes, costs, gradient -------===//
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// query, key, value and what queries see fit; returns [1, H, L, Dv].
template <typename OpT>
FailureOr<SymbolicShape> crossShape(OpT op, ArrayRef<SymbolicShape> shapes,
                                    const SymbolicShape &begins, const SymbolicShape &ends) {
  const SymbolicShape &q = shapes[0], &k = shapes[1], &v = shapes[2];
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) // cross_attention_c1
    return op.emitOpError("needs query, key and value of rank 4 [1, heads, length, size]");
  bool one = q[0].isOne() && k[0].isOne() && v[0].isOne();
  if (!one || k[1] != v[1] || k[2] != v[2] || q[3] != k[3]) // cross_attention_c2
    return op.emitOpError() << "query " << toString(q) << ", key " << toString(k) << " and value "
                            << toString(v) << " do not fit together";
  if (!q[1].isStatic() || !k[1].isStatic() || k[1].constant < 1 ||
      q[1].constant % k[1].constant != 0) // cross_attention_c3
    return op.emitOpError() << "has " << toString(q[1]) << " query heads, no multiple of "
                            << toString(k[1]) << " key heads";
  if (begins != SymbolicShape{q[2]} || ends != begins) // cross_attention_c4
    return op.emitOpError() << "needs the first and the last picture of " << toString(q[2])
                            << " queries, not " << toString(begins) << " and " << toString(ends);
  if (op.getRows() < 1) // cross_attention_c5
    return op.emitOpError("needs rows >= 1");
  return SymbolicShape{q[0], q[1], q[2], v[3]};
}

/// `perPair` FLOPs for every query and key of a head. How many pictures a token sees is data: what
/// counts is one, the usual case, for every token.
template <typename OpT> OpCost crossCost(OpT op, int64_t perPair) {
  auto query = getSymbolicShape(cast<RankedTensorType>(op.getQuery().getType()));
  OpCost cost;
  if (!query)
    return cost;
  cost.flops = affineProduct({(*query)[1], (*query)[2], SymbolicDim(op.getRows() * perPair)});
  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value value : values) {
      auto type = cast<RankedTensorType>(value.getType());
      if (auto shape = getSymbolicShape(type)) {
        shape->push_back(SymbolicDim(type.getElementType().getIntOrFloatBitWidth() / 8));
        cost.bytes = cost.bytes + affineProduct(*shape);
      }
    }
  cost.isMatrixProduct = true;
  return cost;
}
template <typename OpT> std::pair<int64_t, int64_t> headSizes(OpT op) {
  return {shapeOf(op.getQuery()).back().constant, shapeOf(op.getValue()).back().constant};
}
} // namespace

OMNIBAL_SHAPE_RULE(CrossAttentionOp) {
  FailureOr<SymbolicShape> result = crossShape(*this, shapes, shapes[3], shapes[4]);
  if (failed(result))
    return failure();
  results.push_back(*result);
  results.push_back({shapes[0][0], shapes[0][1], shapes[0][2]});
  return success();
}

OMNIBAL_SHAPE_RULE(CrossAttentionGradOp) {
  FailureOr<SymbolicShape> result = crossShape(*this, shapes, shapes[6], shapes[7]);
  if (failed(result))
    return failure();
  SymbolicShape lse{shapes[0][0], shapes[0][1], shapes[0][2]};
  if (shapes[3] != *result || shapes[5] != *result || shapes[4] != lse) // cross_attention_grad_c1
    return emitOpError("result, lse and gradient are not of the attention's shapes");
  results.append({shapes[0], shapes[1], shapes[2]});
  return success();
}

OpCost CrossAttentionOp::getCost() { // scores, weighted values
  auto [size, valueSize] = headSizes(*this);
  return crossCost(*this, 2 * size + 2 * valueSize);
}
bool CrossAttentionOp::isCheapToRecompute() { return false; }

OpCost CrossAttentionGradOp::getCost() { // scores, dq, dk; dp, dv
  auto [size, valueSize] = headSizes(*this);
  return crossCost(*this, 6 * size + 4 * valueSize);
}
bool CrossAttentionGradOp::isCheapToRecompute() { return false; }

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

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalCrossOps.cpp.inc"
