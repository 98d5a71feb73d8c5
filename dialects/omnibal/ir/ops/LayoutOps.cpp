//===- LayoutOps.cpp - Shape rules of layout ops, shapes and ranges ----------------------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// Elements of `shape` with ONNX's 0 (copy) and -1 (rest) resolved.
FailureOr<SymbolicShape> resolveReshape(ReshapeOp op, ArrayRef<SymbolicDim> input,
                                        ArrayRef<SymbolicDim> wanted) {
  SymbolicShape result(wanted.begin(), wanted.end());
  std::optional<size_t> rest;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == SymbolicDim(0) && !op.getAllowZero()) {
      if (i >= input.size()) // reshape_c1
        return op.emitOpError() << "copies dimension " << i << " of an input of rank "
                                << input.size();
      result[i] = input[i];
    } else if (result[i] == SymbolicDim(-1)) {
      if (rest) // reshape_c2
        return op.emitOpError("has more than one -1 in its shape");
      rest = i;
    }
  }
  if (!rest)
    return result;
  SymbolicShape others = result;
  others.erase(others.begin() + *rest);
  std::optional<SymbolicDim> dim = divideProducts(input, others);
  if (!dim) // reshape_c3
    return op.emitOpError() << "cannot divide " << toString(input) << " by " << toString(others);
  result[*rest] = *dim;
  return result;
}
} // namespace

OMNIBAL_SHAPE_RULE(ReshapeOp) {
  FailureOr<SymbolicShape> result;
  if (getShape()) {
    FailureOr<SymbolicShape> wanted = requireContents(*this, contents, 1, "shape");
    if (failed(wanted))
      return failure();
    result = resolveReshape(*this, shapes[0], *wanted);
    if (failed(result))
      return failure();
  } else if (auto declared = getResultShape(*this)) {
    result = *declared;
  } else {
    return emitOpError("without 'shape' needs a result type with known dimensions");
  }
  if (!sameElementCount(shapes[0], *result)) // reshape_c4
    return emitOpError() << "changes the number of elements: " << toString(shapes[0]) << " to "
                         << toString(*result);
  results.push_back(*result);
  return success();
}

OMNIBAL_SHAPE_RULE(SqueezeOp) {
  SmallVector<int64_t> axes;
  if (getAxes()) {
    auto known = requireStatic(*this, contents, 1, "axes");
    if (failed(known) || failed(normalizeAxes(*this, *known, shapes[0].size())))
      return failure();
    axes = *known;
  } else {
    for (size_t i = 0; i < shapes[0].size(); ++i)
      if (shapes[0][i].isOne())
        axes.push_back(i);
  }
  SymbolicShape result;
  for (size_t i = 0; i < shapes[0].size(); ++i) {
    if (!llvm::is_contained(axes, int64_t(i)))
      result.push_back(shapes[0][i]);
    else if (!shapes[0][i].isOne()) // squeeze_c1
      return emitOpError() << "drops dimension " << i << " of size " << toString(shapes[0][i]);
  }
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(UnsqueezeOp) {
  auto axes = requireStatic(*this, contents, 1, "axes");
  if (failed(axes) || failed(normalizeAxes(*this, *axes, shapes[0].size() + axes->size())))
    return failure();
  SymbolicShape result = shapes[0];
  for (int64_t axis : *axes)
    result.insert(result.begin() + axis, SymbolicDim(1));
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(TransposeOp) {
  ArrayRef<int64_t> permutation = getPermutation();
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i) || sorted.size() != shapes[0].size()) // transpose_c1
      return emitOpError() << "permutation is not one of rank " << shapes[0].size();
  if (sorted.size() != shapes[0].size())
    return emitOpError() << "permutation is not one of rank " << shapes[0].size();
  SymbolicShape result;
  for (int64_t axis : permutation)
    result.push_back(shapes[0][axis]);
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(ExpandOp) {
  SymbolicShape wanted;
  if (getShape()) {
    FailureOr<SymbolicShape> known = requireContents(*this, contents, 1, "shape");
    if (failed(known))
      return failure();
    wanted = *known;
  } else if (auto declared = getResultShape(*this)) {
    wanted = *declared;
  } else {
    return emitOpError("without 'shape' needs a result type with known dimensions");
  }
  auto result = broadcast(shapes[0], wanted);
  if (!result || (!getShape() && *result != wanted)) // expand_c1
    return emitOpError() << "cannot broadcast " << toString(shapes[0]) << " to "
                         << toString(wanted);
  results.push_back(*result);
  return success();
}

namespace {
/// `bound` of a slice of `size` elements, negative values counted from the end, within [low, high].
/// Sizes that depend on V or N compare for every micro-batch; a table of fixed length cut to a
/// symbolic one is long enough for every sequence the model can take.
FailureOr<SymbolicDim> clampBound(SliceOp op, SymbolicDim bound, const SymbolicDim &size,
                                  SymbolicDim low, SymbolicDim high) {
  constexpr int64_t farAway = int64_t(1) << 31;
  if (bound.isStatic()) {
    if (bound.constant >= farAway - 1)
      return high;
    if (bound.constant <= -farAway)
      return low;
    if (bound.constant < 0)
      bound = size + bound;
  } else if (isAlwaysAtMost(bound, SymbolicDim(-1))) {
    bound = size + bound; // "-N": from the end
  }
  if (isAlwaysAtMost(bound, low))
    return low;
  if (isAlwaysAtMost(high, bound))
    return high;
  bool aboveLow = isAlwaysAtMost(low, bound), belowHigh = isAlwaysAtMost(bound, high);
  if (aboveLow && (belowHigh || high.isStatic()))
    return bound;
  // slice_c3
  return op.emitOpError() << "has a bound " << toString(bound) << " that is within "
                          << toString(size) << " elements for some micro-batches only";
}

LogicalResult inferSliceWithAttributes(SliceOp op, const SymbolicShape &input,
                                       ShapeResults &results) {
  ArrayRef<int64_t> begin = *op.getBegin();
  SmallVector<int64_t> step(begin.size(), 1);
  if (op.getStep())
    step.assign(op.getStep()->begin(), op.getStep()->end());
  if (begin.size() != input.size() || step.size() != input.size()) // slice_c1
    return op.emitOpError() << "needs one begin and one step for each of " << input.size()
                            << " axes";
  auto declared = getResultShape(op);
  if (!declared || declared->size() != input.size()) // slice_c1
    return op.emitOpError("with 'begin' needs a result type of the input's rank and known size");
  for (size_t i = 0; i < input.size(); ++i) {
    const SymbolicDim &size = (*declared)[i];
    if (step[i] == 0 || begin[i] < 0) // slice_c2
      return op.emitOpError() << "needs begin >= 0 and step != 0 on axis " << i;
    if (size == SymbolicDim(0))
      continue;
    SymbolicDim last = *multiply(size - SymbolicDim(1), step[i]) + SymbolicDim(begin[i]);
    SymbolicDim top = step[i] > 0 ? last : SymbolicDim(begin[i]);
    SymbolicDim bottom = step[i] > 0 ? SymbolicDim(begin[i]) : last;
    bool low = bottom.isStatic() && bottom.constant < 0;
    SymbolicDim room = input[i] - SymbolicDim(1) - top;
    if (low || (room.isStatic() && room.constant < 0)) // slice_c4
      return op.emitOpError() << "reads outside axis " << i << " of size " << toString(input[i]);
  }
  results.push_back(*declared);
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(SliceOp) {
  const SymbolicShape &input = shapes[0];
  if (getBegin())
    return inferSliceWithAttributes(*this, input, results);
  if (!getStarts() || !getEnds())
    return emitOpError("needs 'starts' and 'ends', or 'begin'");
  auto starts = requireContents(*this, contents, 1, "starts");
  auto ends = requireContents(*this, contents, 2, "ends");
  if (failed(starts) || failed(ends))
    return failure();
  SmallVector<int64_t> axes(llvm::to_vector(llvm::seq<int64_t>(0, starts->size())));
  SmallVector<int64_t> steps(starts->size(), 1);
  unsigned next = 3;
  if (getAxes()) {
    auto known = requireStatic(*this, contents, next++, "axes");
    if (failed(known))
      return failure();
    axes = *known;
  }
  if (getSteps()) {
    auto known = requireStatic(*this, contents, next, "steps");
    if (failed(known))
      return failure();
    steps = *known;
  }
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      steps.size() != starts->size()) // slice_c1
    return emitOpError("needs as many starts, ends, axes and steps");
  SymbolicShape result = input;
  for (size_t i = 0; i < axes.size(); ++i) {
    FailureOr<int64_t> axis = normalizeAxis(*this, axes[i], input.size());
    if (failed(axis))
      return failure();
    const SymbolicDim &size = input[*axis];
    int64_t step = steps[i];
    if (step == 0) // slice_c2
      return emitOpError() << "has step 0 on axis " << *axis;
    SymbolicDim one(1), low = step > 0 ? SymbolicDim(0) : SymbolicDim(-1);
    auto start =
        clampBound(*this, (*starts)[i], size, SymbolicDim(0), step > 0 ? size : size - one);
    auto end = clampBound(*this, (*ends)[i], size, low, step > 0 ? size : size - one);
    if (failed(start) || failed(end))
      return failure();
    SymbolicDim span = step > 0 ? *end - *start : *start - *end;
    int64_t stride = std::abs(step);
    if (span.isStatic()) {
      result[*axis] = SymbolicDim(span.constant <= 0 ? 0 : (span.constant + stride - 1) / stride);
    } else if (stride == 1 || divideExactly(span, stride)) {
      result[*axis] = *divideExactly(span, stride);
    } else {
      return emitOpError() << "takes every " << stride << "th of " << toString(span)
                           << " elements, which is not affine"; // slice_c5
    }
  }
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(ConcatOp) {
  if (shapes.empty()) // concat_c1
    return emitOpError("needs at least one input");
  FailureOr<int64_t> axis = normalizeAxis(*this, getAxis(), shapes[0].size());
  if (failed(axis))
    return failure();
  SymbolicShape result = shapes[0];
  for (const SymbolicShape &shape : shapes.drop_front()) {
    for (size_t i = 0; i < result.size(); ++i)
      if (shape.size() != result.size() ||
          (int64_t(i) != *axis && shape[i] != result[i])) // concat_c2
        return emitOpError() << "cannot join " << toString(shapes[0]) << " and " << toString(shape)
                             << " along axis " << *axis;
    result[*axis] = result[*axis] + shape[*axis];
  }
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(PadOp) {
  auto declared = getResultShape(*this);
  size_t rank = shapes[0].size();
  if (!declared || declared->size() != rank || getLow().size() != rank ||
      (getStep() && getStep()->size() != rank)) // pad_c1
    return emitOpError("needs one low (and step) an axis and a result type of known size");
  for (size_t i = 0; i < rank; ++i) {
    int64_t step = getStep() ? (*getStep())[i] : 1;
    if (step == 0 || getLow()[i] < 0) // pad_c2
      return emitOpError() << "needs low >= 0 and step != 0 on axis " << i;
    if (shapes[0][i] == SymbolicDim(0))
      continue;
    SymbolicDim last = *multiply(shapes[0][i] - SymbolicDim(1), step) + SymbolicDim(getLow()[i]);
    SymbolicDim room =
        (*declared)[i] - SymbolicDim(1) - (step > 0 ? last : SymbolicDim(getLow()[i]));
    if ((room.isStatic() && room.constant < 0) ||
        (step < 0 && last.isStatic() && last.constant < 0)) // pad_c3
      return emitOpError() << "result axis " << i << " of size " << toString((*declared)[i])
                           << " is too short";
  }
  results.push_back(*declared);
  return success();
}

OMNIBAL_SHAPE_RULE(TileOp) {
  auto repeats = requireContents(*this, contents, 1, "repeats");
  if (failed(repeats))
    return failure();
  if (repeats->size() != shapes[0].size()) // tile_c1
    return emitOpError() << "needs one repeat for each of " << shapes[0].size() << " axes";
  SymbolicShape result;
  for (size_t i = 0; i < repeats->size(); ++i) {
    auto dim = multiply(shapes[0][i], (*repeats)[i]);
    if (!dim) // tile_c2
      return emitOpError() << "repeats " << toString(shapes[0][i]) << " elements "
                           << toString((*repeats)[i]) << " times, which is not affine";
    result.push_back(*dim);
  }
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(ShapeOp) {
  int64_t rank = shapes[0].size();
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t end = getEnd() ? clamp(*getEnd()) : rank;
  results.push_back({SymbolicDim(std::max<int64_t>(0, end - clamp(getStart())))});
  return success();
}

OMNIBAL_SHAPE_RULE(SizeOp) {
  results.push_back({});
  return success();
}

OMNIBAL_SHAPE_RULE(RangeOp) {
  SymbolicDim bound[3];
  const char *names[3] = {"start", "limit", "delta"};
  for (unsigned i = 0; i < 3; ++i) {
    auto known = requireContents(*this, contents, i, names[i]);
    if (failed(known))
      return failure();
    if (known->size() != 1) // range_c2
      return emitOpError() << "'" << names[i] << "' must be one number";
    bound[i] = known->front();
  }
  SymbolicDim span = bound[1] - bound[0];
  if (!bound[2].isStatic() || bound[2].constant == 0) // range_c3
    return emitOpError("'delta' must be a constant other than 0");
  int64_t delta = bound[2].constant;
  if (span.isStatic()) {
    int64_t count =
        delta > 0 ? (span.constant + delta - 1) / delta : (-span.constant - delta - 1) / -delta;
    results.push_back({SymbolicDim(std::max<int64_t>(0, count))});
    return success();
  }
  auto count = divideExactly(span, delta);
  if (!count) // range_c4
    return emitOpError() << "has " << toString(span) << " / " << delta
                         << " elements, which is not affine";
  results.push_back({*count});
  return success();
}

OMNIBAL_SHAPE_RULE(NonZeroOp) {
  auto known = requireContents(*this, contents, 0, "input");
  if (failed(known))
    return failure();
  int64_t count = llvm::count_if(*known, [](const SymbolicDim &d) { return d != SymbolicDim(0); });
  results.push_back({SymbolicDim(int64_t(shapes[0].size())), SymbolicDim(count)});
  return success();
}
