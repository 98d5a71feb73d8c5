//===- Indexing.cpp - Arg*, Gather, Scatter, NonZero, TopK, Trilu ----------------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// What export.py writes to a Gather of an embedding: the row that PyTorch does not train.
std::optional<llvm::StringRef> paddingOf(const NodeProto &node) {
  for (const StringStringEntryProto &entry : node.metadata_props())
    if (entry.key() == "omnibal.padding_idx")
      return entry.value();
  return std::nullopt;
}

LogicalResult buildGather(NodeContext &c) {
  Value result = c.e.gather(c.input(0), c.input(1), c.getInt("axis", 0));
  if (std::optional<llvm::StringRef> padding = paddingOf(c.node); padding && result) {
    int64_t row = 0;
    if (padding->getAsInteger(10, row) || row < 0)
      return c.e.invalid("omnibal.padding_idx is no row of a table"), failure();
    result.getDefiningOp<GatherOp>().setPadding(row);
  }
  return c.give(result);
}

LogicalResult buildGatherElements(NodeContext &c) {
  return c.give(c.e.gatherElements(c.input(0), c.input(1), c.getInt("axis", 0)));
}

LogicalResult buildGatherND(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0), indices = c.input(1);
  if (!e.requireInt(indices, "indices"))
    return failure();
  int64_t batch = c.getInt("batch_dims", 0), rank = rankOf(x), last = rankOf(indices) - 1;
  if (last < 0 || batch < 0 || batch > last || batch > rank)
    return e.invalid("batch_dims does not fit the ranks"), failure();
  int64_t depth = shapeOf(indices)[last];
  if (depth == kDynamic)
    return e.unsupported("an index length that is not constant"), failure();
  if (batch + depth > rank)
    return e.invalid("indices are longer than the data's rank"), failure();
  llvm::SmallVector<int64_t> dims(shapeOf(indices).drop_back());
  llvm::append_range(dims, shapeOf(x).drop_front(batch + depth));
  return c.give(GatherNDOp::create(e.builder, e.loc, RankedTensorType::get(dims, elementOf(x)), x,
                                   indices, batch));
}

/// "none" and, from opset 16, "add" and "mul", from 18 "max" and "min".
std::optional<std::string> reductionOf(NodeContext &c) {
  std::string reduction = c.opset >= 16 ? c.getString("reduction", "none") : "none";
  bool fits = reduction == "none" || reduction == "add" || reduction == "mul" ||
              (c.opset >= 18 && (reduction == "max" || reduction == "min"));
  if (fits)
    return reduction;
  c.e.invalid("reduction is '" + reduction + "'");
  return std::nullopt;
}

LogicalResult buildScatterND(NodeContext &c) {
  std::optional<std::string> reduction = reductionOf(c);
  if (!reduction || !c.e.requireInt(c.input(1), "indices"))
    return failure();
  if (elementOf(c.input(0)) != elementOf(c.input(2)))
    return c.e.invalid("data and updates of different element types"), failure();
  int64_t depth = rankOf(c.input(1)) == 0 ? 0 : shapeOf(c.input(1)).back();
  if (depth != kDynamic && depth > rankOf(c.input(0)))
    return c.e.invalid("indices are longer than the data's rank"), failure();
  return c.give(ScatterNDOp::create(c.e.builder, c.e.loc, c.input(0).getType(), c.input(0),
                                    c.input(1), c.input(2), *reduction));
}

LogicalResult buildScatterElements(NodeContext &c) {
  std::optional<std::string> reduction = reductionOf(c);
  std::optional<int64_t> axis = c.e.axis(c.getInt("axis", 0), rankOf(c.input(0)));
  if (!reduction || !axis || !c.e.requireInt(c.input(1), "indices"))
    return failure();
  if (elementOf(c.input(0)) != elementOf(c.input(2)))
    return c.e.invalid("data and updates of different element types"), failure();
  return c.give(ScatterElementsOp::create(c.e.builder, c.e.loc, c.input(0).getType(), c.input(0),
                                          c.input(1), c.input(2), *axis, *reduction));
}

LogicalResult buildNonZero(NodeContext &c) {
  auto type = RankedTensorType::get({std::max<int64_t>(rankOf(c.input(0)), 1), kDynamic},
                                    c.e.builder.getI64Type());
  return c.give(NonZeroOp::create(c.e.builder, c.e.loc, type, c.input(0)));
}

/// Places of the k extreme values along an axis; the dialect's op works along the last one.
Value extremePlaces(Emitter &e, Value x, int64_t axis, int64_t k, bool smallest) {
  llvm::SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rankOf(x); ++i)
    permutation.push_back(i);
  std::swap(permutation[axis], permutation.back());
  bool last = axis == rankOf(x) - 1;
  Value lines = last ? x : e.transpose(x, permutation);
  llvm::SmallVector<int64_t> shape(shapeOf(lines));
  shape.back() = k;
  Value places = TopKOp::create(
      e.builder, e.loc, RankedTensorType::get(shape, e.builder.getI64Type()), lines, k, smallest);
  return last ? places : e.transpose(places, permutation);
}

LogicalResult buildTopK(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0);
  std::optional<int64_t> axis = e.axis(c.getInt("axis", -1), rankOf(x));
  if (!axis || !e.requireInt(c.input(1), "K"))
    return failure();
  auto k = e.known.getAll(c.input(1));
  if (shapeOf(x)[*axis] == kDynamic && (!k || k->size() != 1))
    return e.unsupported("a choice among as many values as there are tokens or pictures (as sparse "
                         "attention chooses keys): in a packed row it would reach other samples"),
           failure();
  if (!k || k->size() != 1)
    return e.unsupported("a K that is not constant"), failure();
  Value places = extremePlaces(e, x, *axis, k->front(), c.getInt("largest", 1) == 0);
  Value values = e.gatherElements(x, places, *axis);
  return c.give(llvm::ArrayRef<Value>({values, places}));
}

/// The first of equal extremes, as top_k has it; the last one by reading the axis backwards.
template <bool smallest> LogicalResult buildArgExtreme(NodeContext &c) {
  Emitter &e = c.e;
  Value x = c.input(0);
  std::optional<int64_t> axis = e.axis(c.getInt("axis", 0), rankOf(x));
  if (!axis)
    return failure();
  bool fromEnd = c.getInt("select_last_index", 0) != 0;
  int64_t size = shapeOf(x)[*axis];
  if (fromEnd && size == kDynamic)
    return e.unsupported("select_last_index along a size that is not constant"), failure();
  if (fromEnd)
    x = e.slice(x, e.ints({size - 1}), e.ints({-size - 1}), e.ints({*axis}), e.ints({-1}));
  Value places = extremePlaces(e, x, *axis, 1, smallest);
  if (fromEnd)
    places = e.sub(e.intScalar(size - 1), places);
  if (c.getInt("keepdims", 1) == 0)
    places = e.squeeze(places, llvm::ArrayRef<int64_t>{*axis});
  return c.give(places);
}

LogicalResult buildTrilu(NodeContext &c) {
  Value x = c.input(0);
  if (rankOf(x) < 2)
    return c.e.invalid("the input must have rank 2 at least"), failure();
  if (c.input(1) && !c.e.requireInt(c.input(1), "k"))
    return failure();
  return c.give(
      TriluOp::create(c.e.builder, c.e.loc, x.getType(), x, c.input(1), c.getInt("upper", 1) != 0));
}

} // namespace

llvm::ArrayRef<OpEntry> indexingOps() {
  static const OpEntry table[] = {
      {"ArgMax", kFirst, kLast, 1, 1, buildArgExtreme<false>},
      {"ArgMin", kFirst, kLast, 1, 1, buildArgExtreme<true>},
      {"Gather", kFirst, kLast, 2, 2, buildGather},
      {"GatherElements", kFirst, kLast, 2, 2, buildGatherElements},
      {"GatherND", kFirst, kLast, 2, 2, buildGatherND},
      {"NonZero", kFirst, kLast, 1, 1, buildNonZero},
      {"ScatterElements", kFirst, kLast, 3, 3, buildScatterElements},
      {"ScatterND", kFirst, kLast, 3, 3, buildScatterND},
      {"TopK", kFirst, kLast, 2, 2, buildTopK},
      {"Trilu", 14, kLast, 1, 2, buildTrilu},
  };
  return table;
}

} // namespace omnibal::onnx
