//===- RecurrentOps.cpp - Ops that carry a state from token to token: shapes ------------===//
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
