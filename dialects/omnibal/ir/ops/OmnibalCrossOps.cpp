//===- OmnibalCrossOps.cpp - Tokens that attend to pictures: shapes ------------------------===//
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
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
  const bool hasNone = q[1] == SymbolicDim(0) && k[1] == q[1]; // a part's share may be empty
  if (!hasNone && (!q[1].isStatic() || !k[1].isStatic() || k[1].constant < 1 ||
                   q[1].constant % k[1].constant != 0)) // cross_attention_c3
    return op.emitOpError() << "has " << toString(q[1]) << " query heads, no multiple of "
                            << toString(k[1]) << " key heads";
  if (begins != SymbolicShape{q[2]} || ends != begins) // cross_attention_c4
    return op.emitOpError() << "needs the first and the last picture of " << toString(q[2])
                            << " queries, not " << toString(begins) << " and " << toString(ends);
  if (op.getRows() < 1) // cross_attention_c5
    return op.emitOpError("needs rows >= 1");
  return SymbolicShape{q[0], q[1], q[2], v[3]};
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

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalCrossOps.cpp.inc"
