//===- EmitModel.cpp - Attention, rotary embedding, embedding, image merge ---------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

Place CallBuilder::tokenMajor(const Place &place, Operation *op) {
  Place tokens = permute(place, {0, 2, 1, 3});
  SymbolicShape shape{*multiply(tokens.shape[0], tokens.shape[1]), tokens.shape[2],
                      tokens.shape[3]};
  return unitStride(reshaped(tokens, shape, op), op);
}

Place CallBuilder::freshTokenMajor(Value value) {
  SymbolicShape shape = shapeOf(value), memory = shape;
  std::swap(memory[1], memory[2]);
  llvm::SmallVector<int64_t> permutation{0, 2, 1};
  for (size_t i = 3; i < shape.size(); ++i)
    permutation.push_back(i);
  Place place = permute(fresh(elementType(value), memory, storage.isBFloat16(value)), permutation);
  set(value, place);
  return place;
}

namespace {

/// What gradients by row need of their workspace for each row: its number, twice.
constexpr int64_t rowOrderWords = 2;

template <typename OpT> LogicalResult setMask(OpT op, SymbolicShape query, Call &call) {
  call.attributes["scale"] = op.getScale().convertToDouble();
  call.attributes["mask"] = stringifyMaskKind(op.getMaskKind()).str();
  if (op.getWindow())
    call.attributes["window"] = *op.getWindow();
  if (auto range = op.getTypeRange()) {
    call.attributes["first_type"] = (*range)[0];
    call.attributes["last_type"] = (*range)[1];
  }
  if (op.getSoftcap())
    call.attributes["softcap"] = op.getSoftcap()->convertToDouble();
  if (!op.getCuSeqlens()) {
    if (!query[2].isStatic())
      return op.emitOpError("without cu_seqlens needs a length known at compile time, but it is ")
             << toString(query[2]);
    call.attributes["segment_rows"] = query[2].constant;
  }
  return success();
}

template <typename OpT>
LogicalResult checkAttention(OpT op, SymbolicShape query, SymbolicShape key) {
  if (op.getMaskKind() == MaskKind::Explicit)
    return op.emitOpError("its mask was not recognized (omnibal-raise), and a mask operand needs "
                          "sizes known at compile time");
  if (query[0] != key[0] || query[2] != key[2])
    return op.emitOpError("queries and keys must be of the same tokens to run in a kernel");
  return success();
}

} // namespace

LogicalResult CallBuilder::emitAttention(AttentionOp op) {
  SymbolicShape query = shapeOf(op.getQuery());
  if (failed(checkAttention(op, query, shapeOf(op.getKey()))))
    return failure();
  rt::DType type = floatTypeOf({op.getQuery(), op.getKey(), op.getValue()});
  Place q = as(type, tokenMajor(placeOf(op.getQuery()), op), op),
        k = as(type, tokenMajor(placeOf(op.getKey()), op), op),
        v = as(type, tokenMajor(placeOf(op.getValue()), op), op);
  Place out = tokenMajor(freshTokenMajor(op.getResult()), op);
  Place lse = perToken(freshTokenMajor(op.getLse()), op);
  std::vector<std::pair<std::string, Place>> operands{
      {"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}};
  if (op.getCuSeqlens())
    operands.emplace_back("cu_seqlens", flat(op.getCuSeqlens(), op));
  if (op.getTypes())
    operands.emplace_back("types", flat(op.getTypes(), op));
  if (op.getSinks())
    operands.emplace_back("sinks", as(rt::DType::F32, flat(op.getSinks(), op), op));
  return setMask(op, query, call(op, "attention", std::move(operands)));
}

LogicalResult CallBuilder::emitAttentionGrad(AttentionGradOp op) {
  SymbolicShape query = shapeOf(op.getQuery());
  if (failed(checkAttention(op, query, shapeOf(op.getKey()))))
    return failure();
  std::vector<std::pair<std::string, Place>> operands;
  rt::DType type =
      floatTypeOf({op.getQuery(), op.getKey(), op.getValue(), op.getResult(), op.getGrad()});
  for (auto [name, value] : {std::pair("q", op.getQuery()),
                             {"k", op.getKey()},
                             {"v", op.getValue()},
                             {"out", op.getResult()}})
    operands.emplace_back(name, as(type, tokenMajor(placeOf(value), op), op));
  Place logSums = as(rt::DType::F32, placeOf(op.getLse()), op);
  operands.emplace_back("lse", perToken(logSums, op));
  operands.emplace_back("dout", as(type, tokenMajor(placeOf(op.getGrad()), op), op));
  for (auto [name, value] :
       {std::pair("dq", op.getDquery()), {"dk", op.getDkey()}, {"dv", op.getDvalue()}})
    operands.emplace_back(name, tokenMajor(freshTokenMajor(value), op));
  if (op.getCuSeqlens())
    operands.emplace_back("cu_seqlens", flat(op.getCuSeqlens(), op));
  if (op.getTypes())
    operands.emplace_back("types", flat(op.getTypes(), op));
  const Place &lseRows = operands[4].second; // [tokens, heads]
  addWorkspace(operands, lseRows.shape[0], 2 + lseRows.shape[1].constant);
  return setMask(op, query, call(op, "attention_backward", std::move(operands)));
}

LogicalResult CallBuilder::emitRope(RopeOp op) {
  SymbolicShape shape = shapeOf(op.getInput());
  if (shape.size() != 4)
    return op.emitOpError("needs an input [batch, heads, tokens, features]");
  Place x = as(floatTypeOf(op->getResults()), tokenMajor(placeOf(op.getInput()), op), op);
  Place positions = broadcast(flat(op.getPositions(), op), {shape[0], shape[2]});
  positions = reshaped(positions, {x.shape[0]}, op);
  Place out = tokenMajor(freshTokenMajor(op.getResult()), op);
  Call &rope = call(op, "rope",
                    {{"x", x},
                     {"positions", positions},
                     {"cos", as(rt::DType::F32, matrix(op.getCos(), op), op)},
                     {"sin", as(rt::DType::F32, matrix(op.getSin(), op), op)},
                     {"out", out}});
  if (op.getInterleaved())
    rope.attributes["interleaved"] = true;
  if (op.getInverse())
    rope.attributes["inverse"] = true;
  return success();
}

LogicalResult CallBuilder::emitEmbedding(EmbeddingOp op) {
  set(op.getResult(), fresh(op.getResult()));
  Place table = matrix(op.getTable(), op), ids = flat(op.getIds(), op);
  call(op, "embedding", {{"table", table}, {"ids", ids}, {"out", matrix(op.getResult(), op)}});
  return success();
}

Place CallBuilder::gradientTarget(Value value, Operation *op) {
  if (auto target = accumulated.find(value); target != accumulated.end())
    return target->second;
  Place place = fresh(value);
  set(value, place);
  call(op, "fill", {{"dst", place}}).attributes["value"] = 0;
  return place;
}

LogicalResult CallBuilder::emitEmbeddingGrad(EmbeddingGradOp op) {
  Place dout = matrix(op.getGrad(), op), ids = flat(op.getIds(), op);
  Place target = gradientTarget(op.getResult(), op);
  std::vector<std::pair<std::string, Place>> operands{
      {"dout", dout}, {"ids", ids}, {"dtable", target}};
  addWorkspace(operands, ids.shape[0], rowOrderWords);
  Call &added = call(op, "embedding_backward", std::move(operands));
  if (op.getPadding())
    added.attributes["padding"] = static_cast<int64_t>(*op.getPadding());
  return success();
}

LogicalResult CallBuilder::emitImageMerge(ImageMergeOp op) {
  set(op.getResult(), fresh(op.getResult()));
  rt::DType type = floatTypeOf({op.getText(), op.getFeatures()});
  Place text = as(type, matrix(op.getText(), op), op),
        features = as(type, matrix(op.getFeatures(), op), op), rows = flat(op.getImageRows(), op);
  call(op, "image_merge",
       {{"text", text},
        {"features", features},
        {"image_rows", rows},
        {"out", matrix(op.getResult(), op)}});
  return success();
}

LogicalResult CallBuilder::emitImageMergeGrad(ImageMergeGradOp op) {
  std::vector<std::pair<std::string, Place>> operands{{"dout", matrix(op.getGrad(), op)},
                                                      {"image_rows", flat(op.getImageRows(), op)}};
  for (auto [name, value] : {std::pair("dtext", op.getDtext()), {"dfeatures", op.getDfeatures()}}) {
    if (value.use_empty())
      continue;
    set(value, fresh(value));
    operands.emplace_back(name, matrix(value, op));
  }
  if (!op.getDfeatures().use_empty())
    addWorkspace(operands, operands[1].second.shape[0], rowOrderWords);
  call(op, "image_merge_backward", std::move(operands));
  return success();
}

} // namespace omnibal::lower
