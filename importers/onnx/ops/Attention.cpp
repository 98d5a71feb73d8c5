//===- Attention.cpp - Attention and RotaryEmbedding (opset 23) --------------------------===//
#include "importers/onnx/OpTable.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// [batch, length, heads * size] to [batch, heads, length, size].
Value splitHeads(Emitter &e, Value x, int64_t heads) {
  return e.transpose(e.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3});
}

Value dimension(Emitter &e, Value x, int64_t i) {
  return e.squeeze(e.shape(x, i, i + 1), llvm::ArrayRef<int64_t>{0});
}

/// i1 [length, keys]: key j is seen by query i iff j <= i + offset.
Value causalMask(Emitter &e, Value query, Value key, Value offset) {
  Value zero = e.intScalar(0), one = e.intScalar(1);
  Value rows = e.range(zero, dimension(e, query, 2), one);
  Value columns = e.range(zero, dimension(e, key, 2), one);
  if (offset)
    rows = e.add(rows, offset);
  return e.compare(e.unsqueeze(columns, llvm::ArrayRef<int64_t>{0}),
                   e.unsqueeze(rows, llvm::ArrayRef<int64_t>{1}), ComparePredicate::LE);
}

/// A mask for fewer keys than there are hides the others.
Value padMask(Emitter &e, Value mask, Value key) {
  int64_t have = shapeOf(mask).back(), want = shapeOf(key)[2];
  if (have == kDynamic || want == kDynamic || have >= want || have == 1)
    return mask;
  Value hidden = elementOf(mask).isInteger(1)
                     ? e.scalar(0, elementOf(mask))
                     : e.scalar(-std::numeric_limits<double>::infinity(), elementOf(mask));
  llvm::SmallVector<Value> sizes;
  if (rankOf(mask) > 1)
    sizes.push_back(e.shape(mask, 0, rankOf(mask) - 1));
  sizes.push_back(e.ints({want - have}));
  return e.concat({mask, e.expand(hidden, e.concat(sizes, 0))}, rankOf(mask) - 1);
}

/// What the optional fourth output shows: scores at a stage before they meet the values.
Value scoresOutput(NodeContext &c, Value query, Value key, Value mask, double scale,
                   double softcap) {
  Emitter &e = c.e;
  int64_t mode = c.getInt("qk_matmul_output_mode", 0);
  int64_t heads = shapeOf(query)[1], keyHeads = shapeOf(key)[1];
  if (heads == kDynamic || keyHeads == kDynamic || keyHeads == 0 || heads % keyHeads != 0)
    return e.unsupported("head counts that are not constant multiples");
  if (heads != keyHeads) { // repeat each key head for its group
    llvm::SmallVector<Value> picks;
    llvm::SmallVector<int64_t> order;
    for (int64_t h = 0; h < heads; ++h)
      order.push_back(h * keyHeads / heads);
    key = e.gather(key, e.ints(order), 1);
  }
  Value scores = e.scale(e.matmul(query, key, false, true), scale);
  if (mode == 0)
    return scores;
  if (softcap > 0)
    scores = e.scale(e.unary<TanhOp>(e.scale(scores, 1 / softcap)), softcap);
  if (mode == 1)
    return scores;
  if (!scores || mode > 3)
    return scores ? Value(e.invalid("qk_matmul_output_mode is not 0 to 3")) : Value();
  Type element = elementOf(scores);
  Value none = e.scalar(-std::numeric_limits<double>::infinity(), element);
  if (mask && elementOf(mask).isInteger(1))
    mask = e.select(mask, e.scalar(0, element), none);
  if (mask)
    scores = e.add(scores, mask);
  if (mode == 2)
    return scores;
  Value weights = e.softmax(scores, -1);
  if (!weights || !mask)
    return weights;
  // A row that sees nothing weighs nothing.
  Value best = e.reduce(mask, ReduceKind::Max, {rankOf(mask) - 1}, true);
  return e.select(e.compare(best, none, ComparePredicate::EQ), e.scalar(0, element), weights);
}

LogicalResult buildAttention(NodeContext &c) {
  Emitter &e = c.e;
  Value query = c.input(0), key = c.input(1), value = c.input(2), mask = c.input(3);
  for (Value operand : {query, key, value})
    if (!e.requireFloat(operand, "Q, K and V"))
      return failure();
  int64_t rank = rankOf(query);
  if ((rank != 3 && rank != 4) || rankOf(key) != rank || rankOf(value) != rank)
    return e.invalid("Q, K and V must all have rank 3 or all have rank 4"), failure();
  if (rank == 3) {
    int64_t heads = c.getInt("q_num_heads", 0), keyHeads = c.getInt("kv_num_heads", 0);
    if (heads <= 0 || keyHeads <= 0)
      return e.invalid("inputs of rank 3 need q_num_heads and kv_num_heads"), failure();
    query = splitHeads(e, query, heads);
    key = splitHeads(e, key, keyHeads);
    value = splitHeads(e, value, keyHeads);
  }
  Value pastKey = c.input(4), pastValue = c.input(5), offset;
  if (bool(pastKey) != bool(pastValue))
    return e.invalid("past_key and past_value must come together"), failure();
  if (pastKey) {
    key = e.concat({pastKey, key}, 2);
    value = e.concat({pastValue, value}, 2);
    offset = dimension(e, pastKey, 2);
  }
  if (!query || !key || !value)
    return failure();
  int64_t size = shapeOf(query)[3];
  if (size == kDynamic && !c.has("scale"))
    return e.unsupported("a head size that is not constant"), failure();
  double scale = c.getFloat("scale", 1.0 / std::sqrt(double(size)));
  double softcap = c.getFloat("softcap", 0);

  if (mask && !elementOf(mask).isInteger(1) && elementOf(mask) != elementOf(query))
    return e.invalid("attn_mask must be bool or of Q's type"), failure();
  if (mask && rankOf(mask) == 0)
    return e.invalid("attn_mask must have dimensions, of queries and keys"), failure();
  if (mask && !(mask = padMask(e, mask, key)))
    return failure();
  if (c.getInt("is_causal", 0) != 0) {
    Value causal = causalMask(e, query, key, offset);
    if (!mask)
      mask = causal;
    else if (elementOf(mask).isInteger(1))
      mask = e.binary<AndOp>(mask, causal);
    else
      mask = e.select(causal, mask,
                      e.scalar(-std::numeric_limits<double>::infinity(), elementOf(mask)));
    if (!mask)
      return failure();
  }

  llvm::SmallVector<int64_t> shape(shapeOf(query));
  shape[3] = shapeOf(value)[3];
  Type element = elementOf(query);
  auto resultType = RankedTensorType::get(shape, element);
  auto lseType = RankedTensorType::get(llvm::ArrayRef(shape).drop_back(), element);
  auto attention = AttentionOp::create(
      e.builder, e.loc, resultType, lseType, query, key, value, mask, Value(), Value(), Value(),
      llvm::APFloat(scale), mask ? MaskKind::Explicit : MaskKind::Full, IntegerAttr(),
      DenseI64ArrayAttr(), softcap > 0 ? e.builder.getF64FloatAttr(softcap) : FloatAttr());
  Value result = attention.getResult();
  if (rank == 3)
    result = e.reshape(e.transpose(result, {0, 2, 1, 3}), {0, 0, -1});
  llvm::SmallVector<Value> results = {result, key, value};
  if (c.hasOutput(3))
    results.push_back(scoresOutput(c, query, key, mask, scale, softcap));
  return c.give(results);
}

/// Pairs are (i, i + half) or, interleaved, (2i, 2i + 1). The half form is built as exporters write
/// it: x * cos + rotate_half(x) * sin.
LogicalResult buildRotaryEmbedding(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), cos = c.input(1), sin = c.input(2), positions = c.input(3);
  if (!e.requireFloat(x, "X") || !e.requireFloat(cos, "cos_cache") ||
      !e.requireFloat(sin, "sin_cache"))
    return failure();
  int64_t rank = rankOf(x);
  if (rank != 3 && rank != 4)
    return e.invalid("X must have rank 3 or 4"), failure();
  if (rank == 3) {
    int64_t heads = c.getInt("num_heads", 0);
    if (heads <= 0)
      return e.invalid("X of rank 3 needs num_heads"), failure();
    x = splitHeads(e, x, heads);
  }
  if (positions) {
    cos = e.gather(cos, positions, 0);
    sin = e.gather(sin, positions, 0);
  }
  if (!x || !cos || !sin)
    return failure();
  if (rankOf(cos) != 3 || rankOf(sin) != 3)
    return e.invalid("the caches must have rank 3 without position_ids, 2 with them"), failure();
  int64_t size = shapeOf(x)[3], rotated = c.getInt("rotary_embedding_dim", 0);
  if (rotated == 0)
    rotated = size;
  if (size == kDynamic || rotated % 2 != 0 || rotated < 0 || rotated > size)
    return e.unsupported("a head size that is not constant, or an odd rotary_embedding_dim"),
           failure();
  int64_t half = rotated / 2;
  Value rest = rotated < size ? e.slice(x, 3, rotated, size) : Value();
  if (rotated < size)
    x = e.slice(x, 3, 0, rotated);
  cos = e.unsqueeze(cos, llvm::ArrayRef<int64_t>{1}); // broadcast over heads
  sin = e.unsqueeze(sin, llvm::ArrayRef<int64_t>{1});
  Value result;
  if (c.getInt("interleaved", 0) != 0) {
    Value pairs = e.reshape(x, {0, 0, 0, half, 2});
    const llvm::SmallVector<int64_t, 1> last = {4};
    Value even = e.squeeze(e.slice(pairs, 4, 0, 1), last);
    Value odd = e.squeeze(e.slice(pairs, 4, 1, 2), last);
    Value real = e.sub(e.mul(even, cos), e.mul(odd, sin));
    Value imaginary = e.add(e.mul(even, sin), e.mul(odd, cos));
    result = e.concat({e.unsqueeze(real, last), e.unsqueeze(imaginary, last)}, 4);
    result = e.reshape(result, {0, 0, 0, rotated});
  } else {
    Value turned =
        e.concat({e.unary<NegOp>(e.slice(x, 3, half, rotated)), e.slice(x, 3, 0, half)}, 3);
    result = e.add(e.mul(x, e.concat({cos, cos}, 3)), e.mul(turned, e.concat({sin, sin}, 3)));
  }
  if (rest)
    result = e.concat({result, rest}, 3);
  if (rank == 3)
    result = e.reshape(e.transpose(result, {0, 2, 1, 3}), {0, 0, -1});
  return c.give(result);
}

} // namespace

llvm::ArrayRef<OpEntry> attentionOps() {
  // Later versions change the causal offset and add operands: they need entries of their own.
  static const OpEntry table[] = {
      {"Attention", 23, 23, 3, 6, buildAttention},
      {"RotaryEmbedding", 23, 23, 3, 4, buildRotaryEmbedding},
  };
  return table;
}

} // namespace omnibal::onnx
