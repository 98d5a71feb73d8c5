//===- RaiseEmbedding.cpp - omnibal-raise-embedding --------------------------------------===//
#include "mlir/IR/Matchers.h"
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEEMBEDDINGPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// First row, if constant ids name consecutive rows.
std::optional<int64_t> consecutive(Value ids) {
  DenseIntElementsAttr elements;
  if (!matchPattern(ids, m_Constant(&elements)) || elements.empty())
    return std::nullopt;
  int64_t first = (*elements.begin()).getSExtValue(), next = first;
  for (const APInt &id : elements)
    if (id.getSExtValue() != next++)
      return std::nullopt;
  return first >= 0 ? std::optional(first) : std::nullopt;
}

/// Ids that the kernels take: i32.
Value narrowed(OpBuilder &builder, Value ids) {
  DenseIntElementsAttr elements;
  if (!matchPattern(ids, m_Constant(&elements)) || elements.getElementType().isInteger(32))
    return ids;
  auto type = RankedTensorType::get(elements.getType().getShape(), builder.getI32Type());
  auto narrow = elements.mapValues(builder.getI32Type(),
                                   [](const APInt &value) { return value.sextOrTrunc(32); });
  return ConstantOp::create(builder, ids.getLoc(), type, cast<ElementsAttr>(narrow));
}

/// table[ids] of a parameter's rows.
void raiseGather(OpBuilder &builder, Operation *op, Value table, Value ids,
                 IntegerAttr padding = {}) {
  if (rankOf(table) != 2 || !readsParameter(table) ||
      !isa<FloatType>(typeOf(table).getElementType()))
    return;
  builder.setInsertionPoint(op);
  Location loc = op->getLoc();
  Value result = op->getResult(0);
  if (auto first = consecutive(ids)) {
    // Rows in order are a part of the table itself.
    SymbolicShape shape = shapeOf(table);
    int64_t rows = typeOf(ids).getNumElements();
    Value part = table;
    if (*first != 0 || SymbolicDim(rows) != shape[0]) {
      shape[0] = rows;
      auto type = makeTensorType(op->getContext(), shape, typeOf(table).getElementType());
      part = SliceOp::create(builder, loc, type, table, Value(), Value(), Value(), Value(),
                             builder.getDenseI64ArrayAttr({*first, 0}),
                             builder.getDenseI64ArrayAttr({1, 1}));
    }
    result.replaceAllUsesWith(reshapeTo(builder, loc, part, shapeOf(result)));
    return;
  }
  Value rows =
      EmbeddingOp::create(builder, loc, result.getType(), table, narrowed(builder, ids), padding);
  result.replaceAllUsesWith(rows);
}

/// Indices of gather_nd that name one dimension, without the dimension of size 1 that says so.
Value withoutUnitDim(OpBuilder &builder, GatherNDOp op) {
  builder.setInsertionPoint(op);
  SymbolicShape shape = shapeOf(op.getIndices());
  DenseIntElementsAttr elements;
  if (matchPattern(op.getIndices(), m_Constant(&elements))) { // stays one, which tells its rows
    auto type =
        RankedTensorType::get(elements.getType().getShape().drop_back(), elements.getElementType());
    return ConstantOp::create(builder, op.getLoc(), type, elements.reshape(type));
  }
  return reshapeTo(builder, op.getLoc(), op.getIndices(), ArrayRef<SymbolicDim>(shape).drop_back());
}

/// Rows of vision features in another order (windows): input[indices] with indices that the batch
/// provides. Placeholder rows are the image merge's.
void raiseRows(OpBuilder &builder, Operation *op, Value input, Value indices) {
  SymbolicShape shape = shapeOf(input), rows = shapeOf(indices);
  if (shape.size() < 2 || shape[0].perTile == 0 || rows.empty() || rows[0].perTile == 0 ||
      !isa<FloatType>(typeOf(input).getElementType()))
    return;
  auto width = product(ArrayRef<SymbolicDim>(shape).drop_front());
  auto count = product(rows);
  if (!width || !width->isStatic() || !count)
    return;
  builder.setInsertionPoint(op);
  Location loc = op->getLoc();
  Value table = reshapeTo(builder, loc, input, {shape[0], *width});
  while (auto reshape = indices.getDefiningOp<ReshapeOp>())
    indices = reshape.getInput();
  Value ids = reshapeTo(builder, loc, indices, {*count});
  auto type = makeTensorType(op->getContext(), {*count, *width}, typeOf(input).getElementType());
  Value result = EmbeddingOp::create(builder, loc, type, table, ids, IntegerAttr());
  op->getResult(0).replaceAllUsesWith(reshapeTo(builder, loc, result, shapeOf(op->getResult(0))));
}
} // namespace
} // namespace raise

namespace {
struct RaiseEmbeddingPass : impl::RaiseEmbeddingPassBase<RaiseEmbeddingPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(function);
      raise::forEachOp(function, [&](Operation *op) {
        if (auto gather = dyn_cast<GatherOp>(op); gather && gather.getAxis() == 0)
          raise::readsParameter(gather.getInput())
              ? raise::raiseGather(builder, op, gather.getInput(), gather.getIndices(),
                                   gather.getPaddingAttr())
              : raise::raiseRows(builder, op, gather.getInput(), gather.getIndices());
        else if (auto gather = dyn_cast<GatherNDOp>(op);
                 gather && gather.getBatchDims() == 0 &&
                 raise::shapeOf(gather.getIndices()).back().isOne())
          raise::readsParameter(gather.getInput())
              ? raise::raiseGather(builder, op, gather.getInput(),
                                   raise::withoutUnitDim(builder, gather))
              : raise::raiseRows(builder, op, gather.getInput(), gather.getIndices());
      });
    }
  }
};
} // namespace
} // namespace omnibal
