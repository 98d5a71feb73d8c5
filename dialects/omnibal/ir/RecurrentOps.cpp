//===- RecurrentOps.cpp - Ops that carry a state from token to token: shapes, costs, gradients ===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// Operands of the gated delta rule fit; returns [B, H, L, Dv].
template <typename OpT> FailureOr<SymbolicShape> gatedDeltaShape(OpT op, ShapeList shapes) {
  const SymbolicShape &q = shapes[0], &v = shapes[2];
  if (q.size() != 4 || v.size() != 4) // gated_delta_c1
    return op.emitOpError("needs query, key and value of rank 4 [batch, heads, length, size]");
  SymbolicShape rows{q[0], q[1], q[2]};
  bool fits = shapes[1] == q && SymbolicShape{v[0], v[1], v[2]} == rows && shapes[3] == rows &&
              shapes[4] == rows;
  if (!fits) // gated_delta_c2
    return op.emitOpError() << "query " << toString(q) << ", key " << toString(shapes[1])
                            << ", value " << toString(v) << ", decay " << toString(shapes[3])
                            << " and beta " << toString(shapes[4]) << " do not fit together";
  if (op.getCuSeqlens() && !q[0].isOne()) // gated_delta_c3
    return op.emitOpError("with cu_seqlens needs batch size 1");
  return v;
}

/// `products` multiply-adds with each element of the state, for every token of a head.
template <typename OpT> OpCost gatedDeltaCost(OpT op, int64_t products) {
  auto shape = getSymbolicShape(cast<RankedTensorType>(op.getQuery().getType()));
  auto value = getSymbolicShape(cast<RankedTensorType>(op.getValue().getType()));
  OpCost cost;
  if (!shape || !value)
    return cost;
  shape->push_back(value->back());
  shape->push_back(SymbolicDim(2 * products));
  cost.flops = affineProduct(*shape);
  for (Value operand : op->getOperands())
    cost.bytes = cost.bytes + *multiply(affineProduct(shapeOf(operand)), 4);
  for (Value result : op->getResults())
    cost.bytes = cost.bytes + *multiply(affineProduct(shapeOf(result)), 4);
  return cost;
}
} // namespace

OMNIBAL_SHAPE_RULE(GatedDeltaOp) {
  FailureOr<SymbolicShape> result = gatedDeltaShape(*this, shapes);
  if (failed(result))
    return failure();
  results.push_back(*result);
  return success();
}

OMNIBAL_SHAPE_RULE(GatedDeltaGradOp) {
  FailureOr<SymbolicShape> result = gatedDeltaShape(*this, shapes);
  if (failed(result))
    return failure();
  if (shapes[5] != *result) // gated_delta_grad_c1
    return emitOpError() << "gradient must be " << toString(*result) << ", not "
                         << toString(shapes[5]);
  results.append(shapes.begin(), shapes.begin() + 5);
  return success();
}

// Decay, what the key reads, the update, what the query reads.
OpCost GatedDeltaOp::getCost() { return gatedDeltaCost(*this, 4); }
bool GatedDeltaOp::isCheapToRecompute() { return false; }
// The states again, and the gradients of each of the four with two operands.
OpCost GatedDeltaGradOp::getCost() { return gatedDeltaCost(*this, 12); }
bool GatedDeltaGradOp::isCheapToRecompute() { return false; }

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
