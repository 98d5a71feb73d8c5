//===- DecomposeAttention.cpp --------------------------------------------------------------===//
#include "passes/raise/attention/DecomposeAttention.h"

using namespace mlir;

namespace omnibal::raise {
namespace {

/// Lower than any score: a hidden key weighs nothing beside any that is seen, and rows that see
/// nothing hold no infinity.
constexpr double lowest = -1e30;

class Decomposition {
public:
  explicit Decomposition(AttentionOp op)
      : op(op), builder(op), loc(op.getLoc()), query(shapeOf(op.getQuery())),
        keyHeads(shapeOf(op.getKey())[1]), keys(shapeOf(op.getKey())[2]),
        element(typeOf(op.getQuery()).getElementType()) {}

  void run() {
    SymbolicShape scoreShape{query[0], query[1], query[2], keys};
    Value key = op.getKey();
    Value scores = createOp<MatMulOp>(builder, loc, grouped(op.getQuery()), key, false, true);
    scores = reshapeTo(builder, loc, scores, scoreShape);
    scores = createOp<MulOp>(builder, loc, scores, number(op.getScale().convertToDouble()));
    if (op.getSoftcap()) {
      double cap = op.getSoftcap()->convertToDouble();
      scores = createOp<MulOp>(builder, loc, scores, number(1 / cap));
      scores = createOp<TanhOp>(builder, loc, scores);
      scores = createOp<MulOp>(builder, loc, scores, number(cap));
    }
    Value seen = mask(scores);
    Value weights = createOp<SoftmaxOp>(builder, loc, scores, builder.getI64IntegerAttr(3));
    if (seen) // a row that sees nothing gives 0
      weights = createOp<SelectOp>(builder, loc, seen, weights, number(0));
    Value value = op.getValue();
    Value result = createOp<MatMulOp>(builder, loc, grouped(weights), value, false, false);
    op.getResult().replaceAllUsesWith(reshapeTo(builder, loc, result, shapeOf(op.getResult())));
  }

private:
  Value number(double value) {
    auto type = RankedTensorType::get({}, element);
    return ConstantOp::create(
        builder, loc, type,
        DenseElementsAttr::get(type, Attribute(builder.getFloatAttr(element, value))));
  }
  /// [B, H, L, n] with the query heads of a key head as more rows: [B, Hk, H / Hk * L, n].
  Value grouped(Value x) {
    SymbolicShape shape = shapeOf(x);
    int64_t group = shape[1].constant / keyHeads.constant;
    return reshapeTo(builder, loc, x, {shape[0], keyHeads, *multiply(shape[2], group), shape[3]});
  }
  /// Masks the scores; returns what is seen, null without a mask.
  Value mask(Value &scores) {
    Value given = op.getMask();
    if (!given)
      return {};
    if (typeOf(given).getElementType().isInteger(1)) {
      scores = createOp<SelectOp>(builder, loc, given, scores, number(lowest));
      return given;
    }
    scores = createOp<AddOp>(builder, loc, scores, given);
    scores = createOp<MaxOp>(builder, loc, scores, number(lowest));
    return createOp<CompareOp>(builder, loc, scores, number(lowest), ComparePredicate::GT);
  }

  AttentionOp op;
  OpBuilder builder;
  Location loc;
  SymbolicShape query; ///< [B, H, L, D]
  SymbolicDim keyHeads, keys;
  Type element;
};
} // namespace

void decomposeAttention(AttentionOp op) { Decomposition(op).run(); }

} // namespace omnibal::raise
