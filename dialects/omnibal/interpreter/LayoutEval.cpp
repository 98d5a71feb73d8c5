//===- LayoutEval.cpp - Layout ops, shapes and ranges ------------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <cmath>

using namespace mlir;

namespace omnibal {
namespace {

LogicalResult reinterpret(Evaluation &e, ArrayRef<int64_t> shape) {
  const HostTensor &input = e.operand(0);
  if (elementCount(shape) != input.size())
    return e.op->emitOpError() << "changes the number of elements from " << input.size() << " to "
                               << elementCount(shape);
  HostTensor &result = e.addResult(shape);
  result.floats = input.floats;
  result.ints = input.ints;
  return success();
}

LogicalResult reshape(Evaluation &e, ReshapeOp op) {
  const HostTensor &input = e.operand(0);
  if (!op.getShape()) {
    auto shape = e.declaredShape();
    return failed(shape) ? failure() : reinterpret(e, *shape);
  }
  SmallVector<int64_t> shape(ArrayRef<int64_t>(e.operand(1).ints));
  int64_t known = 1, rest = -1;
  for (auto [i, dim] : llvm::enumerate(shape)) {
    if (dim == 0 && !op.getAllowZero()) {
      if (int64_t(i) >= input.rank())
        return op.emitOpError() << "copies dimension " << i << " of an input of rank "
                                << input.rank();
      dim = input.shape[i];
    }
    if (dim == -1)
      rest = i;
    else
      known *= dim;
  }
  if (rest >= 0)
    shape[rest] = known == 0 ? 0 : input.size() / known;
  return reinterpret(e, shape);
}

/// Axes of an optional operand, counted from the front.
SmallVector<int64_t> axesOf(const HostTensor *operand, int64_t rank) {
  SmallVector<int64_t> axes;
  if (operand)
    for (int64_t axis : operand->ints)
      axes.push_back(axis < 0 ? axis + rank : axis);
  return axes;
}

LogicalResult squeeze(Evaluation &e, SqueezeOp op) {
  const HostTensor &input = e.operand(0);
  SmallVector<int64_t> axes = axesOf(op.getAxes() ? &e.operand(1) : nullptr, input.rank()), shape;
  for (auto [i, dim] : llvm::enumerate(input.shape))
    if (op.getAxes() ? !llvm::is_contained(axes, int64_t(i)) : dim != 1)
      shape.push_back(dim);
  return reinterpret(e, shape);
}

LogicalResult unsqueeze(Evaluation &e, UnsqueezeOp op) {
  const HostTensor &input = e.operand(0);
  int64_t rank = input.rank() + e.operand(1).size();
  SmallVector<int64_t> axes = axesOf(&e.operand(1), rank), shape(input.shape);
  llvm::sort(axes);
  for (int64_t axis : axes) {
    if (axis < 0 || axis > int64_t(shape.size()))
      return op.emitOpError() << "axis " << axis << " is out of range";
    shape.insert(shape.begin() + axis, 1);
  }
  return reinterpret(e, shape);
}

LogicalResult transpose(Evaluation &e, TransposeOp op) {
  const HostTensor &input = e.operand(0);
  SmallVector<int64_t> own = rowMajorStrides(input.shape), shape, strides;
  for (int64_t axis : op.getPermutation()) {
    shape.push_back(input.shape[axis]);
    strides.push_back(own[axis]);
  }
  copyStrided(e.addResult(shape), input, strides, 0);
  return success();
}

LogicalResult expand(Evaluation &e, ExpandOp op) {
  const HostTensor &input = e.operand(0);
  FailureOr<SmallVector<int64_t>> wanted;
  if (op.getShape())
    wanted = SmallVector<int64_t>(ArrayRef<int64_t>(e.operand(1).ints));
  else
    wanted = e.declaredShape();
  if (failed(wanted))
    return failure();
  auto shape = broadcastShape(input.shape, *wanted);
  if (failed(shape))
    return op.emitOpError("cannot broadcast its input to the shape");
  copyStrided(e.addResult(*shape), input, broadcastStrides(input.shape, *shape), 0);
  return success();
}

LogicalResult slice(Evaluation &e, SliceOp op) {
  const HostTensor &input = e.operand(0);
  SmallVector<int64_t> strides = rowMajorStrides(input.shape), shape(input.shape);
  int64_t offset = 0;
  auto take = [&](int64_t axis, int64_t begin, int64_t step, int64_t size) {
    if (size > 0)
      offset += begin * strides[axis];
    strides[axis] *= step;
    shape[axis] = size;
  };
  if (op.getBegin()) {
    auto declared = e.declaredShape();
    if (failed(declared))
      return failure();
    for (int64_t axis = 0; axis < input.rank(); ++axis) {
      int64_t begin = (*op.getBegin())[axis], step = op.getStep() ? (*op.getStep())[axis] : 1;
      int64_t size = (*declared)[axis], last = begin + (size - 1) * step;
      if (size > 0 && (std::min(begin, last) < 0 || std::max(begin, last) >= input.shape[axis]))
        return op.emitOpError() << "reads outside axis " << axis << " of size "
                                << input.shape[axis];
      take(axis, begin, step, size);
    }
  } else {
    const HostTensor *starts = e.valueOf(op.getStarts()), *ends = e.valueOf(op.getEnds());
    const HostTensor *steps = e.valueOf(op.getSteps()), *named = e.valueOf(op.getAxes());
    if (!starts || !ends)
      return op.emitOpError("needs 'starts' and 'ends', or 'begin'");
    SmallVector<int64_t> axes = axesOf(named, input.rank());
    for (int64_t i = 0; i < starts->size(); ++i) {
      int64_t axis = named ? axes[i] : i, step = steps ? steps->ints[i] : 1;
      if (axis < 0 || axis >= input.rank() || step == 0)
        return op.emitOpError("has an axis out of range or step 0");
      int64_t size = input.shape[axis], top = step > 0 ? size : size - 1;
      auto bound = [&](int64_t value, int64_t low) {
        if (value < 0)
          value = value < -size ? low : value + size;
        return std::max(low, std::min(value, top));
      };
      int64_t begin = bound(starts->ints[i], 0), end = bound(ends->ints[i], step > 0 ? 0 : -1);
      int64_t span = step > 0 ? end - begin : begin - end, stride = std::abs(step);
      take(axis, begin, step, span <= 0 ? 0 : (span - 1) / stride + 1);
    }
  }
  copyStrided(e.addResult(shape), input, strides, offset);
  return success();
}

/// Copies `source` into the box of `result` that starts at `offset` with these strides.
void place(HostTensor &result, const HostTensor &source, ArrayRef<int64_t> strides,
           int64_t offset) {
  SmallVector<int64_t> to(strides);
  int64_t position[1] = {offset}, i = 0;
  forEachIndex(source.shape, {to}, position,
               [&] { copyElement(result, position[0], source, i++); });
}

LogicalResult concat(Evaluation &e, ConcatOp op) {
  SmallVector<int64_t> shape = e.operand(0).shape;
  int64_t axis =
      int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + int64_t(shape.size()) : op.getAxis();
  shape[axis] = 0;
  for (const HostTensor *input : e.operands)
    shape[axis] += input->shape[axis];
  HostTensor &result = e.addResult(shape);
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  int64_t offset = 0;
  for (const HostTensor *input : e.operands) {
    place(result, *input, strides, offset);
    offset += input->shape[axis] * strides[axis];
  }
  return success();
}

LogicalResult pad(Evaluation &e, PadOp op) {
  const HostTensor &input = e.operand(0);
  auto shape = e.declaredShape();
  if (failed(shape))
    return failure();
  SmallVector<int64_t> strides = rowMajorStrides(*shape);
  int64_t offset = 0;
  for (int64_t axis = 0; axis < input.rank(); ++axis) {
    int64_t low = op.getLow()[axis], step = op.getStep() ? (*op.getStep())[axis] : 1;
    int64_t last = low + (input.shape[axis] - 1) * step;
    if (input.shape[axis] > 0 && (std::min(low, last) < 0 || std::max(low, last) >= (*shape)[axis]))
      return op.emitOpError() << "writes outside axis " << axis;
    offset += low * strides[axis];
    strides[axis] *= step;
  }
  place(e.addResult(*shape), input, strides, offset);
  return success();
}

LogicalResult tile(Evaluation &e, TileOp op) {
  const HostTensor &input = e.operand(0);
  // [a, b] times [r, s] is a broadcast of [1, a, 1, b] to [r, a, s, b].
  SmallVector<int64_t> own = rowMajorStrides(input.shape), shape, split, strides;
  for (int64_t axis = 0; axis < input.rank(); ++axis) {
    int64_t repeats = e.operand(1).ints[axis];
    shape.push_back(repeats * input.shape[axis]);
    split.append({repeats, input.shape[axis]});
    strides.append({0, own[axis]});
  }
  HostTensor &result = e.addResult(shape);
  result.shape = split;
  copyStrided(result, input, strides, 0);
  result.shape = shape;
  return success();
}

LogicalResult range(Evaluation &e, RangeOp op) {
  const HostTensor &start = e.operand(0), &limit = e.operand(1), &delta = e.operand(2);
  if (delta.at(0) == 0)
    return op.emitOpError("has delta 0");
  double exact = std::ceil((limit.at(0) - start.at(0)) / delta.at(0));
  int64_t count = exact > 0 ? static_cast<int64_t>(exact) : 0;
  HostTensor &result = e.addResult({count});
  for (int64_t i = 0; i < count; ++i) {
    if (result.isFloat())
      result.floats[i] = start.floats[0] + i * delta.floats[0];
    else
      result.ints[i] = start.ints[0] + i * delta.ints[0];
  }
  return success();
}

LogicalResult nonzero(Evaluation &e) {
  const HostTensor &input = e.operand(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < input.size(); ++i)
    if (input.at(i) != 0)
      found.push_back(i);
  int64_t count = found.size();
  HostTensor &result = e.addResult({input.rank(), count});
  SmallVector<int64_t> strides = rowMajorStrides(input.shape);
  for (int64_t axis = 0; axis < input.rank(); ++axis)
    for (int64_t i = 0; i < count; ++i)
      result.ints[axis * count + i] = found[i] / strides[axis] % input.shape[axis];
  return success();
}

LogicalResult shapeOf(Evaluation &e, ShapeOp op) {
  const HostTensor &input = e.operand(0);
  int64_t rank = input.rank();
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = clamp(op.getStart()), end = op.getEnd() ? clamp(*op.getEnd()) : rank;
  HostTensor &result = e.addResult({std::max<int64_t>(0, end - start)});
  for (int64_t i = start; i < end; ++i)
    result.ints[i - start] = input.shape[i];
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateLayout(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](ReshapeOp op) { return reshape(e, op); })
      .Case([&](SqueezeOp op) { return squeeze(e, op); })
      .Case([&](UnsqueezeOp op) { return unsqueeze(e, op); })
      .Case([&](TransposeOp op) { return transpose(e, op); })
      .Case([&](ExpandOp op) { return expand(e, op); })
      .Case([&](SliceOp op) { return slice(e, op); })
      .Case([&](ConcatOp op) { return concat(e, op); })
      .Case([&](PadOp op) { return pad(e, op); })
      .Case([&](TileOp op) { return tile(e, op); })
      .Case([&](ShapeOp op) { return shapeOf(e, op); })
      .Case([&](SizeOp) {
        e.addResult({}).ints[0] = e.operand(0).size();
        return success();
      })
      .Case([&](RangeOp op) { return range(e, op); })
      .Case([&](NonZeroOp) { return nonzero(e); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
