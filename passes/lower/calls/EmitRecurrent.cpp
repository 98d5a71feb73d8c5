//===- EmitRecurrent.cpp - The gated delta rule and its gradient ---------------------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

namespace {

/// What the gradients need of their workspace for each token and head (kernels/Recurrent.h says the
/// same): a part of a state, and sums.
int64_t workspaceWords(int64_t size) { return (size + 7) / 8 + 2 * size + 2; }

/// Segments and scale of a call.
template <typename OpT> LogicalResult setRule(OpT op, SymbolicShape query, Call &call) {
  call.attributes["scale"] = op.getScale().convertToDouble();
  if (op.getCuSeqlens())
    return success();
  if (!query[2].isStatic())
    return op.emitOpError("without cu_seqlens needs a length known at compile time, but it is ")
           << toString(query[2]);
  call.attributes["segment_rows"] = query[2].constant;
  return success();
}

} // namespace

Place CallBuilder::perToken(const Place &place, Operation *op) {
  Place tokens = permute(place, {0, 2, 1});
  SymbolicShape shape{*multiply(tokens.shape[0], tokens.shape[1]), tokens.shape[2]};
  return reshaped(tokens, shape, op);
}

LogicalResult CallBuilder::emitGatedDelta(GatedDeltaOp op) {
  rt::DType type =
      floatTypeOf({op.getQuery(), op.getKey(), op.getValue(), op.getDecay(), op.getBeta()});
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [name, value] :
       {std::pair("q", op.getQuery()), {"k", op.getKey()}, {"v", op.getValue()}})
    operands.emplace_back(name, as(type, tokenMajor(placeOf(value), op), op));
  for (auto [name, value] : {std::pair("decay", op.getDecay()), {"beta", op.getBeta()}})
    operands.emplace_back(name, as(type, perToken(placeOf(value), op), op));
  operands.emplace_back("out", tokenMajor(freshTokenMajor(op.getResult()), op));
  if (op.getCuSeqlens())
    operands.emplace_back("cu_seqlens", flat(op.getCuSeqlens(), op));
  return setRule(op, shapeOf(op.getQuery()), call(op, "gated_delta", std::move(operands)));
}

LogicalResult CallBuilder::emitGatedDeltaGrad(GatedDeltaGradOp op) {
  rt::DType type = floatTypeOf(
      {op.getQuery(), op.getKey(), op.getValue(), op.getDecay(), op.getBeta(), op.getGrad()});
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [name, value] : {std::pair("q", op.getQuery()),
                             {"k", op.getKey()},
                             {"v", op.getValue()},
                             {"dout", op.getGrad()}})
    operands.emplace_back(name, as(type, tokenMajor(placeOf(value), op), op));
  for (auto [name, value] : {std::pair("decay", op.getDecay()), {"beta", op.getBeta()}})
    operands.emplace_back(name, as(type, perToken(placeOf(value), op), op));
  for (auto [name, value] :
       {std::pair("dq", op.getDquery()), {"dk", op.getDkey()}, {"dv", op.getDvalue()}})
    operands.emplace_back(name, tokenMajor(freshTokenMajor(value), op));
  for (auto [name, value] : {std::pair("ddecay", op.getDdecay()), {"dbeta", op.getDbeta()}})
    operands.emplace_back(name, perToken(freshTokenMajor(value), op));
  if (op.getCuSeqlens())
    operands.emplace_back("cu_seqlens", flat(op.getCuSeqlens(), op));
  SymbolicShape query = shapeOf(op.getQuery());
  addWorkspace(operands, *multiply(query[0], query[2]),
               query[1].constant * workspaceWords(query[3].constant));
  return setRule(op, query, call(op, "gated_delta_backward", std::move(operands)));
}

} // namespace omnibal::lower
