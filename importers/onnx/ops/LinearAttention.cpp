//===- LinearAttention.cpp - com.microsoft's LinearAttention by the gated delta rule -------===//
//
// The operator of opset 27, which runtimes have under an older name in a domain of their own.
//
//===-------------------------------------------------------------------------------------------===//
#include "importers/onnx/OpTable.h"
#include <cmath>

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// [batch, length, heads * size] to [batch, heads, length, size].
Value splitHeads(Emitter &e, Value x, int64_t heads) {
  int64_t width = shapeOf(x)[2], size = width == kDynamic ? -1 : width / heads;
  return e.transpose(e.reshape(x, {0, 0, heads, size}), {0, 2, 1, 3});
}

/// The operands and attributes that are taken, else an error.
LogicalResult checkForm(NodeContext &c, int64_t heads, int64_t keyHeads) {
  Emitter &e = c.e;
  std::string rule = c.getString("update_rule", "gated_delta");
  if (rule != "gated_delta")
    return e.unsupported("the update rule '" + rule + "'; 'gated_delta' is"), failure();
  for (unsigned i : {0, 1, 2, 4, 5}) {
    if (!c.input(i))
      return e.invalid("gated_delta needs query, key, value, decay and beta"), failure();
    if (!e.requireFloat(c.input(i), "query, key, value, decay and beta"))
      return failure();
    if (rankOf(c.input(i)) != 3)
      return e.invalid("query, key, value, decay and beta must have rank 3"), failure();
  }
  if (heads <= 0 || keyHeads <= 0)
    return e.invalid("needs q_num_heads and kv_num_heads"), failure();
  if (c.input(3))
    return e.unsupported("a state before the first token; export without a cache"), failure();
  if (heads != keyHeads)
    return e.unsupported("several query heads for a key head"), failure();
  for (unsigned i : {4, 5})
    if (shapeOf(c.input(i))[2] != heads)
      return e.unsupported("a decay or beta that is not one number a head"), failure();
  return success();
}

LogicalResult buildLinearAttention(NodeContext &c) {
  Emitter &e = c.e;
  int64_t heads = c.getInt("q_num_heads", 0);
  if (failed(checkForm(c, heads, c.getInt("kv_num_heads", 0))))
    return failure();
  Value query = splitHeads(e, c.input(0), heads), key = splitHeads(e, c.input(1), heads),
        value = splitHeads(e, c.input(2), heads), decay = e.transpose(c.input(4), {0, 2, 1}),
        beta = e.transpose(c.input(5), {0, 2, 1});
  if (!query || !key || !value || !decay || !beta)
    return failure();
  int64_t size = shapeOf(query)[3];
  double scale = c.getFloat("scale", 0);
  if (scale == 0 && size == kDynamic)
    return e.unsupported("a head size that is not constant"), failure();
  if (scale == 0)
    scale = 1 / std::sqrt(double(size));
  llvm::SmallVector<int64_t> shape(shapeOf(query));
  shape[3] = shapeOf(value)[3];
  Value result =
      GatedDeltaOp::create(e.builder, e.loc, RankedTensorType::get(shape, elementOf(value)), query,
                           key, value, decay, beta, Value(), llvm::APFloat(scale));
  c.isPartial = true; // the state after the last token is for generation
  return c.give(e.reshape(e.transpose(result, {0, 2, 1, 3}), {0, 0, -1}));
}

} // namespace

llvm::ArrayRef<OpEntry> linearAttentionOps() {
  static const OpEntry table[] = {
      {"com.microsoft.LinearAttention", kFirst, kLast, 3, 6, buildLinearAttention},
  };
  return table;
}

} // namespace omnibal::onnx
