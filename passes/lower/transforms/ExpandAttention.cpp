//===- ExpandAttention.cpp - Attention that no kernel takes, as matrix products -------------===//
#include "mlir/IR/PatternMatch.h"
#include "passes/lower/Passes.h"
#include "passes/lower/TensorBuilder.h"
#include <limits>

namespace omnibal::lower {
#define GEN_PASS_DEF_EXPANDATTENTION
#include "passes/lower/Passes.h.inc"

using namespace mlir;

namespace {

/// Sizes of query [B, H, L, D], key [B, Hk, S, D] and value [B, Hk, S, Dv], all constant.
struct Sizes {
  int64_t batch, heads, queries, size, keyHeads, keys, valueSize;
};

std::optional<Sizes> constantSizes(AttentionOp op) {
  auto q = typeOf(op.getQuery()), k = typeOf(op.getKey()), v = typeOf(op.getValue());
  if (!q.hasStaticShape() || !k.hasStaticShape() || !v.hasStaticShape())
    return std::nullopt;
  return Sizes{q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), q.getDimSize(3),
               k.getDimSize(1), k.getDimSize(2), v.getDimSize(3)};
}

/// Whether the kernel cannot run it: it knows kinds of masks and tokens that attend to themselves.
bool needsExpansion(AttentionOp op, const Sizes &s) {
  if (op.getCuSeqlens() || op.getTypes())
    return false;
  if (op.getMaskKind() != MaskKind::Explicit && op.getMaskKind() != MaskKind::Full)
    return false;
  return op.getMask() || s.queries != s.keys;
}

class Expansion {
public:
  Expansion(AttentionOp op, const Sizes &sizes, OpBuilder &builder)
      : op(op), s(sizes), builder(builder), t(builder, op.getLoc()),
        element(typeOf(op.getQuery()).getElementType()) {}

  void run() {
    Value score = maskedScores();
    // The lowest finite number as least maximum: a row that sees nothing subtracts no infinity.
    Value top = t.reduceFrom(score, 3, ReduceKind::Max);
    top = t.like<MaxOp>(top, top, scalar(-double(std::numeric_limits<float>::max())));
    Value sink;
    if (op.getSinks()) {
      sink = t.reshape(op.getSinks(), dims({1, s.heads, 1, 1}));
      top = t.like<MaxOp>(top, top, sink);
    }
    Value weight = t.like<ExpOp>(score, t.like<SubOp>(score, score, top));
    Value sum = t.reduceFrom(weight, 3, ReduceKind::Sum);
    if (sink)
      sum = t.like<AddOp>(sum, sum, t.like<ExpOp>(sum, t.like<SubOp>(sum, sink, top)));
    // A row that sees anything sums to at least 1; one that sees nothing gives 0.
    Value norm = t.like<MaxOp>(sum, sum, scalar(std::numeric_limits<float>::min()));
    weight = t.like<MulOp>(weight, weight, t.like<ReciprocalOp>(norm, norm));
    Value result = product(grouped(weight, s.keys), op.getValue(), s.valueSize, false);
    op.getResult().replaceAllUsesWith(
        t.reshape(result, dims({s.batch, s.heads, s.queries, s.valueSize})));
    Value lse = t.like<AddOp>(top, top, t.like<LogOp>(norm, norm));
    op.getLse().replaceAllUsesWith(t.reshape(lse, dims({s.batch, s.heads, s.queries})));
    op.erase();
  }

private:
  Value scalar(double value) { return t.scalar(value, element); }
  static SymbolicShape dims(llvm::ArrayRef<int64_t> sizes) {
    return SymbolicShape(sizes.begin(), sizes.end());
  }
  /// [B, H, L, n] with the query heads of a key head as more rows: [B, Hk, H / Hk * L, n].
  Value grouped(Value x, int64_t columns) {
    return t.reshape(x, dims({s.batch, s.keyHeads, rows(), columns}));
  }
  int64_t rows() const { return s.heads / s.keyHeads * s.queries; }
  Value product(Value lhs, Value rhs, int64_t columns, bool transposeRhs) {
    auto type =
        makeTensorType(builder.getContext(), dims({s.batch, s.keyHeads, rows(), columns}), element);
    return MatMulOp::create(builder, op.getLoc(), type, lhs, rhs, false, transposeRhs);
  }
  Value maskedScores() {
    Value score = product(grouped(op.getQuery(), s.size), op.getKey(), s.keys, true);
    score = t.reshape(score, dims({s.batch, s.heads, s.queries, s.keys}));
    score = t.like<MulOp>(score, score, scalar(op.getScale().convertToDouble()));
    if (op.getSoftcap()) {
      double cap = op.getSoftcap()->convertToDouble();
      score = t.like<MulOp>(score, score, scalar(1 / cap));
      score = t.like<MulOp>(score, t.like<TanhOp>(score, score), scalar(cap));
    }
    Value mask = op.getMask();
    if (!mask)
      return score;
    if (!typeOf(mask).getElementType().isInteger(1))
      return t.like<AddOp>(score, score, mask);
    Value hidden = scalar(-std::numeric_limits<double>::infinity());
    return t.like<SelectOp>(score, mask, score, hidden);
  }

  AttentionOp op;
  Sizes s;
  OpBuilder &builder;
  TensorBuilder t;
  Type element;
};

struct ExpandAttentionPass : impl::ExpandAttentionBase<ExpandAttentionPass> {
  void runOnOperation() override {
    getOperation().walk([&](AttentionOp op) {
      std::optional<Sizes> sizes = constantSizes(op);
      if (!sizes || !needsExpansion(op, *sizes))
        return;
      OpBuilder builder(op);
      Expansion(op, *sizes, builder).run();
    });
  }
};

} // namespace
} // namespace omnibal::lower
