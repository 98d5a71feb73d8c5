//===- Layout.cpp - Reshape, Transpose, Slice, Concat and their like ---------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

LogicalResult buildReshape(NodeContext &c) {
  bool allowZero = c.opset >= 14 && c.getInt("allowzero", 0) != 0;
  return c.give(c.e.reshape(c.input(0), c.input(1), allowZero, c.declared));
}

LogicalResult buildFlatten(NodeContext &c) {
  Value x = c.input(0);
  int64_t rank = rankOf(x), axis = c.getInt("axis", 1);
  if (axis < -rank || axis > rank)
    return c.e.invalid("axis " + llvm::Twine(axis) + " of a tensor of rank " + llvm::Twine(rank)),
           failure();
  axis += axis < 0 ? rank : 0;
  auto count = [&](llvm::ArrayRef<int64_t> dims) {
    int64_t product = 1;
    for (int64_t dim : dims)
      product = dim == kDynamic || product == kDynamic ? kDynamic : product * dim;
    return product;
  };
  int64_t rows = count(shapeOf(x).take_front(axis)), columns = count(shapeOf(x).drop_front(axis));
  if (rows == kDynamic && columns == kDynamic) {
    // Neither side is constant: the row count is computed.
    Value leading = c.e.reduce(c.e.shape(x, 0, axis), ReduceKind::Prod, {0}, true);
    Value shape = c.e.concat({leading, c.e.ints({-1})}, 0);
    return c.give(c.e.reshape(x, shape, /*allowZero=*/true));
  }
  Value shape = c.e.ints({rows == kDynamic ? -1 : rows, columns == kDynamic ? -1 : columns});
  return c.give(c.e.reshape(x, shape, /*allowZero=*/rows != kDynamic && columns != kDynamic));
}

LogicalResult buildSqueeze(NodeContext &c) { return c.give(c.e.squeeze(c.input(0), c.input(1))); }

LogicalResult buildUnsqueeze(NodeContext &c) {
  return c.give(c.e.unsqueeze(c.input(0), c.input(1)));
}

LogicalResult buildTranspose(NodeContext &c) {
  llvm::SmallVector<int64_t> permutation;
  if (auto given = c.getInts("perm"))
    permutation = *given;
  else
    for (int64_t i = rankOf(c.input(0)); i > 0; --i)
      permutation.push_back(i - 1);
  return c.give(c.e.transpose(c.input(0), permutation));
}

LogicalResult buildExpand(NodeContext &c) {
  return c.give(c.e.expand(c.input(0), c.input(1), c.declared));
}

LogicalResult buildSlice(NodeContext &c) {
  return c.give(c.e.slice(c.input(0), c.input(1), c.input(2), c.input(3), c.input(4)));
}

LogicalResult buildConcat(NodeContext &c) {
  if (!c.has("axis"))
    return c.e.invalid("has no attribute 'axis'"), failure();
  return c.give(c.e.concat(c.inputs, c.getInt("axis", 0)));
}

LogicalResult buildTile(NodeContext &c) { return c.give(c.e.tile(c.input(0), c.input(1))); }

/// Sizes from the split operand; else as equal as num_outputs (opset 18) or the number of outputs
/// says, where the last part may be smaller from opset 18 on.
LogicalResult buildSplit(NodeContext &c) {
  Value x = c.input(0);
  std::optional<int64_t> axis = c.e.axis(c.getInt("axis", 0), rankOf(x));
  if (!axis)
    return failure();
  int64_t size = shapeOf(x)[*axis], parts = c.node.output_size();
  llvm::SmallVector<int64_t> sizes;
  if (c.input(1)) {
    auto given = c.e.known.getAll(c.input(1));
    if (!given)
      return c.e.unsupported("split sizes that are not constant"), failure();
    sizes.assign(given->begin(), given->end());
  } else {
    int64_t wanted = c.opset >= 18 ? c.getInt("num_outputs", parts) : parts;
    if (size == kDynamic)
      return c.e.unsupported("equal parts of a dimension whose size is not constant"), failure();
    if (wanted != parts || (c.opset < 18 && size % parts != 0))
      return c.e.invalid("cannot split size " + llvm::Twine(size) + " into " + llvm::Twine(parts) +
                         " outputs"),
             failure();
    int64_t part = (size + parts - 1) / parts;
    for (int64_t i = 0, left = size; i < parts; ++i, left -= sizes.back())
      sizes.push_back(std::clamp<int64_t>(left, 0, part));
  }
  int64_t total = 0;
  for (int64_t part : sizes) {
    if (part < 0)
      return c.e.invalid("a negative part"), failure();
    total += part;
  }
  if (int64_t(sizes.size()) != parts || (size != kDynamic && total != size))
    return c.e.invalid("the parts do not add up to size " + llvm::Twine(size)), failure();
  llvm::SmallVector<Value> results;
  int64_t begin = 0;
  for (int64_t part : sizes) {
    results.push_back(c.e.slice(x, *axis, begin, begin + part));
    begin += part;
  }
  return c.give(results);
}

LogicalResult buildIdentity(NodeContext &c) {
  if (c.sequences[0]) {
    c.sequenceOutput = *c.sequences[0];
    return success();
  }
  return c.give(c.input(0));
}

/// Constant padding with constant widths, as a concatenation (negative widths crop).
LogicalResult buildPad(NodeContext &c) {
  Value x = c.input(0);
  if (c.getString("mode", "constant") != "constant")
    return c.e.unsupported("mode '" + c.getString("mode", "") + "'"), failure();
  auto widths = c.e.known.getAll(c.input(1));
  if (!widths)
    return c.e.unsupported("pads that are not constant"), failure();
  llvm::SmallVector<int64_t> axes;
  if (c.input(3)) {
    auto given = c.e.known.getAll(c.input(3));
    if (!given)
      return c.e.unsupported("axes that are not constant"), failure();
    for (int64_t a : *given) {
      std::optional<int64_t> at = c.e.axis(a, rankOf(x));
      if (!at)
        return failure();
      axes.push_back(*at);
    }
  } else {
    for (int64_t i = 0; i < rankOf(x); ++i)
      axes.push_back(i);
  }
  if (widths->size() != 2 * axes.size())
    return c.e.invalid("pads must have two elements an axis"), failure();
  Value value =
      c.input(2) ? c.e.reshape(c.input(2), llvm::ArrayRef<int64_t>()) : c.e.scalar(0, elementOf(x));
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t low = (*widths)[i], high = (*widths)[i + axes.size()];
    if (x && (low < 0 || high < 0))
      x = c.e.slice(x, axis, std::max<int64_t>(-low, 0),
                    high < 0 ? high : std::numeric_limits<int64_t>::max());
    auto border = [&](int64_t width) {
      llvm::SmallVector<Value> sizes;
      if (axis > 0)
        sizes.push_back(c.e.shape(x, 0, axis));
      sizes.push_back(c.e.ints({width}));
      if (axis + 1 < rankOf(x))
        sizes.push_back(c.e.shape(x, axis + 1, rankOf(x)));
      return c.e.expand(value, c.e.concat(sizes, 0));
    };
    if (!x || (low <= 0 && high <= 0))
      continue;
    llvm::SmallVector<Value> parts;
    if (low > 0)
      parts.push_back(border(low));
    parts.push_back(x);
    if (high > 0)
      parts.push_back(border(high));
    x = c.e.concat(parts, axis);
  }
  return c.give(x);
}

} // namespace

llvm::ArrayRef<OpEntry> layoutOps() {
  static const OpEntry table[] = {
      {"Concat", kFirst, kLast, 1, -1, buildConcat},
      {"Expand", kFirst, kLast, 2, 2, buildExpand},
      {"Flatten", kFirst, kLast, 1, 1, buildFlatten},
      {"Identity", kFirst, kLast, 1, 1, buildIdentity},
      {"Pad", kFirst, kLast, 2, 4, buildPad},
      {"Reshape", kFirst, kLast, 2, 2, buildReshape},
      {"Slice", kFirst, kLast, 3, 5, buildSlice},
      {"Split", kFirst, kLast, 1, 2, buildSplit},
      {"Squeeze", kFirst, kLast, 1, 2, buildSqueeze},
      {"Tile", kFirst, kLast, 2, 2, buildTile},
      {"Transpose", kFirst, kLast, 1, 1, buildTranspose},
      {"Unsqueeze", kFirst, kLast, 2, 2, buildUnsqueeze},
  };
  return table;
}

} // namespace omnibal::onnx
