//===- EmitCrossAttention.cpp - Tokens that attend to pictures -----------------------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

Place CallBuilder::statisticsByToken(const Place &place, Operation *op) {
  Place tokens = permute(place, {0, 2, 1}); // of [1, H, L]
  return reshaped(tokens, {tokens.shape[1], tokens.shape[2]}, op);
}

template <typename OpT> void CallBuilder::setCross(OpT op, Call &call) {
  call.attributes["scale"] = op.getScale().convertToDouble();
  call.attributes["rows"] = op.getRows();
}

LogicalResult CallBuilder::emitCrossAttention(CrossAttentionOp op) {
  rt::DType type = floatTypeOf({op.getQuery(), op.getKey(), op.getValue()});
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [name, value] :
       {std::pair("q", op.getQuery()), {"k", op.getKey()}, {"v", op.getValue()}})
    operands.emplace_back(name, as(type, tokenMajor(placeOf(value), op), op));
  operands.emplace_back("out", tokenMajor(freshTokenMajor(op.getResult()), op));
  operands.emplace_back("lse", statisticsByToken(freshTokenMajor(op.getLse()), op));
  operands.emplace_back("begins", flat(op.getBegins(), op));
  operands.emplace_back("ends", flat(op.getEnds(), op));
  setCross(op, call(op, "cross_attention", std::move(operands)));
  return success();
}

LogicalResult CallBuilder::emitCrossAttentionGrad(CrossAttentionGradOp op) {
  rt::DType type =
      floatTypeOf({op.getQuery(), op.getKey(), op.getValue(), op.getResult(), op.getGrad()});
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [name, value] : {std::pair("q", op.getQuery()),
                             {"k", op.getKey()},
                             {"v", op.getValue()},
                             {"out", op.getResult()},
                             {"dout", op.getGrad()}})
    operands.emplace_back(name, as(type, tokenMajor(placeOf(value), op), op));
  Place lse = statisticsByToken(as(rt::DType::F32, placeOf(op.getLse()), op), op);
  operands.emplace_back("lse", lse);
  for (auto [name, value] :
       {std::pair("dq", op.getDquery()), {"dk", op.getDkey()}, {"dv", op.getDvalue()}})
    operands.emplace_back(name, tokenMajor(freshTokenMajor(value), op));
  operands.emplace_back("begins", flat(op.getBegins(), op));
  operands.emplace_back("ends", flat(op.getEnds(), op));
  addWorkspace(operands, lse.shape[0], 2 + lse.shape[1].constant);
  setCross(op, call(op, "cross_attention_backward", std::move(operands)));
  return success();
}

} // namespace omnibal::lower
