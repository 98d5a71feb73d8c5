//===- IndexingEval.cpp - Gathers, scatters and triangles --------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"

using namespace mlir;

namespace omnibal {
namespace {

/// Index in [0, size), negative ones counted from the end; a diagnostic if it is outside.
FailureOr<int64_t> checkedIndex(Operation *op, int64_t index, int64_t size) {
  int64_t result = index < 0 ? index + size : index;
  if (result < 0 || result >= size)
    return op->emitOpError() << "index " << index << " is out of range for size " << size;
  return result;
}

LogicalResult gather(Evaluation &e, GatherOp op) {
  const HostTensor &input = e.operand(0), &indices = e.operand(1);
  int64_t axis = int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + input.rank() : op.getAxis();
  ArrayRef<int64_t> in(input.shape);
  int64_t outer = elementCount(in.take_front(axis)), inner = elementCount(in.drop_front(axis + 1));
  SmallVector<int64_t> shape(in.take_front(axis));
  shape.append(indices.shape.begin(), indices.shape.end());
  shape.append(in.begin() + axis + 1, in.end());
  HostTensor &result = e.addResult(shape);
  int64_t to = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t index : indices.ints) {
      auto row = checkedIndex(op, index, in[axis]);
      if (failed(row))
        return failure();
      for (int64_t i = 0; i < inner; ++i)
        copyElement(result, to++, input, (o * in[axis] + *row) * inner + i);
    }
  return success();
}

/// Offset of the slice that one index tuple addresses behind `batch` leading dimensions.
FailureOr<int64_t> tupleOffset(Operation *op, ArrayRef<int64_t> shape, const int64_t *tuple,
                               int64_t length, int64_t batch) {
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  int64_t offset = 0;
  for (int64_t k = 0; k < length; ++k) {
    auto index = checkedIndex(op, tuple[k], shape[batch + k]);
    if (failed(index))
      return failure();
    offset += *index * strides[batch + k];
  }
  return offset;
}

LogicalResult gatherND(Evaluation &e, GatherNDOp op) {
  const HostTensor &input = e.operand(0), &indices = e.operand(1);
  int64_t batch = op.getBatchDims(), length = indices.shape.back();
  ArrayRef<int64_t> in(input.shape), tuples(indices.shape);
  int64_t batches = elementCount(in.take_front(batch));
  int64_t perBatch = elementCount(tuples.drop_front(batch).drop_back());
  int64_t slice = elementCount(in.drop_front(batch + length));
  int64_t batchSize = elementCount(in.drop_front(batch));
  SmallVector<int64_t> shape(tuples.drop_back());
  shape.append(in.begin() + batch + length, in.end());
  HostTensor &result = e.addResult(shape);
  int64_t to = 0;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t t = 0; t < perBatch; ++t) {
      auto offset =
          tupleOffset(op, in, indices.ints.data() + (b * perBatch + t) * length, length, batch);
      if (failed(offset))
        return failure();
      for (int64_t i = 0; i < slice; ++i)
        copyElement(result, to++, input, b * batchSize + *offset + i);
    }
  return success();
}

/// result[i] = reduction(result[i], update[j])
void combine(HostTensor &result, int64_t i, const HostTensor &update, int64_t j,
             StringRef reduction) {
  auto apply = [&](auto &to, const auto &from) {
    if (reduction == "none")
      to = from;
    else if (reduction == "add")
      to += from;
    else if (reduction == "mul")
      to *= from;
    else if (reduction == "max")
      to = std::max(to, from);
    else
      to = std::min(to, from);
  };
  if (result.isFloat())
    apply(result.floats[i], update.floats[j]);
  else
    apply(result.ints[i], update.ints[j]);
}

LogicalResult scatterND(Evaluation &e, ScatterNDOp op) {
  const HostTensor &input = e.operand(0), &indices = e.operand(1), &updates = e.operand(2);
  HostTensor &result = e.addResult(input.shape);
  result.floats = input.floats;
  result.ints = input.ints;
  int64_t length = indices.shape.back();
  int64_t tuples = elementCount(ArrayRef<int64_t>(indices.shape).drop_back());
  int64_t slice = elementCount(ArrayRef<int64_t>(input.shape).drop_front(length));
  for (int64_t t = 0; t < tuples; ++t) {
    auto offset = tupleOffset(op, input.shape, indices.ints.data() + t * length, length, 0);
    if (failed(offset))
      return failure();
    for (int64_t i = 0; i < slice; ++i)
      combine(result, *offset + i, updates, t * slice + i, op.getReduction());
  }
  return success();
}

/// body(position in the indexed tensor, position in `indices`) for element-wise gathers and
/// scatters.
template <typename Body>
LogicalResult forEachElement(Operation *op, ArrayRef<int64_t> shape, const HostTensor &indices,
                             int64_t axis, Body body) {
  if (axis < 0)
    axis += shape.size();
  SmallVector<int64_t> strides = rowMajorStrides(shape), others = strides;
  others[axis] = 0;
  int64_t offset[1] = {0}, i = 0;
  LogicalResult status = success();
  forEachIndex(indices.shape, {others}, offset, [&] {
    int64_t at = i++;
    auto index = checkedIndex(op, indices.ints[at], shape[axis]);
    if (failed(index))
      status = failure();
    else if (succeeded(status))
      body(offset[0] + *index * strides[axis], at);
  });
  return status;
}

LogicalResult gatherElements(Evaluation &e, GatherElementsOp op) {
  const HostTensor &input = e.operand(0), &indices = e.operand(1);
  HostTensor &result = e.addResult(indices.shape);
  return forEachElement(op, input.shape, indices, op.getAxis(),
                        [&](int64_t from, int64_t to) { copyElement(result, to, input, from); });
}

LogicalResult scatterElements(Evaluation &e, ScatterElementsOp op) {
  const HostTensor &input = e.operand(0), &indices = e.operand(1), &updates = e.operand(2);
  HostTensor &result = e.addResult(input.shape);
  result.floats = input.floats;
  result.ints = input.ints;
  return forEachElement(op, input.shape, indices, op.getAxis(), [&](int64_t to, int64_t from) {
    combine(result, to, updates, from, op.getReduction());
  });
}

LogicalResult trilu(Evaluation &e, TriluOp op) {
  const HostTensor &input = e.operand(0);
  int64_t k = op.getK() ? e.operand(1).ints[0] : 0;
  int64_t rows = input.shape[input.rank() - 2], columns = input.shape.back();
  HostTensor &result = e.addResult(input.shape);
  for (int64_t i = 0; i < input.size(); ++i) {
    int64_t row = i / columns % rows, column = i % columns;
    if (op.getUpper() ? column >= row + k : column <= row + k)
      copyElement(result, i, input, i);
  }
  return success();
}

LogicalResult embedding(Evaluation &e, EmbeddingOp op) {
  const HostTensor &table = e.operand(0), &ids = e.operand(1);
  int64_t rows = table.shape[0], width = table.shape[1], to = 0;
  SmallVector<int64_t> shape(ids.shape);
  shape.push_back(width);
  HostTensor &result = e.addResult(shape);
  for (int64_t id : ids.ints) {
    auto row = checkedIndex(op, id, rows);
    if (failed(row))
      return failure();
    for (int64_t c = 0; c < width; ++c)
      result.floats[to++] = table.floats[*row * width + c];
  }
  return success();
}

LogicalResult embeddingGrad(Evaluation &e, EmbeddingGradOp op) {
  const HostTensor &grad = e.operand(0), &ids = e.operand(1);
  auto shape = e.declaredShape();
  if (failed(shape))
    return failure();
  HostTensor &result = e.addResult(*shape);
  int64_t width = (*shape)[1], from = 0;
  for (int64_t id : ids.ints) {
    auto row = checkedIndex(op, id, (*shape)[0]);
    if (failed(row))
      return failure();
    if (op.getPadding() && *row == static_cast<int64_t>(*op.getPadding())) {
      from += width;
      continue;
    }
    for (int64_t c = 0; c < width; ++c)
      result.floats[*row * width + c] += grad.floats[from++];
  }
  return success();
}

LogicalResult shiftTokens(Evaluation &e, ShiftTokensOp op) {
  const HostTensor &x = e.operand(0), &positions = e.operand(1);
  int64_t rows = x.shape[1], width = x.shape[2], distance = op.getDistance();
  HostTensor &result = e.addResult(x.shape);
  for (int64_t n = distance; n < rows; ++n) {
    if (positions.ints[n] < distance)
      continue; // the row before it is of another sample
    int64_t from = op.getInverse() ? n : n - distance, to = op.getInverse() ? n - distance : n;
    std::copy_n(x.floats.begin() + from * width, width, result.floats.begin() + to * width);
  }
  return success();
}

/// Counts also rows of no columns.
int64_t rowsOf(const HostTensor &features) {
  return elementCount(ArrayRef<int64_t>(features.shape).drop_back());
}

LogicalResult imageMerge(Evaluation &e, ImageMergeOp op) {
  const HostTensor &text = e.operand(0), &features = e.operand(1), &rows = e.operand(2);
  int64_t width = text.shape.back(), count = rowsOf(features);
  HostTensor &result = e.addResult(text.shape);
  for (auto [n, row] : llvm::enumerate(rows.ints)) {
    if (row >= count)
      return op.emitOpError() << "image row " << row << " is out of range for " << count
                              << " feature rows";
    const double *from =
        row < 0 ? text.floats.data() + n * width : features.floats.data() + row * width;
    std::copy(from, from + width, result.floats.begin() + n * width);
  }
  return success();
}

LogicalResult imageMergeGrad(Evaluation &e, ImageMergeGradOp op) {
  const HostTensor &grad = e.operand(0), &rows = e.operand(1);
  auto shape = e.declaredShape(1);
  if (failed(shape))
    return failure();
  HostTensor &text = e.addResult(grad.shape), &features = e.addResult(*shape);
  int64_t width = grad.shape.back(), count = rowsOf(features);
  for (auto [n, row] : llvm::enumerate(rows.ints)) {
    if (row >= count)
      return op.emitOpError() << "image row " << row << " is out of range for " << count
                              << " feature rows";
    double *to = row < 0 ? text.floats.data() + n * width : features.floats.data() + row * width;
    for (int64_t c = 0; c < width; ++c)
      to[c] += grad.floats[n * width + c];
  }
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateIndexing(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](GatherOp op) { return gather(e, op); })
      .Case([&](GatherNDOp op) { return gatherND(e, op); })
      .Case([&](GatherElementsOp op) { return gatherElements(e, op); })
      .Case([&](ScatterNDOp op) { return scatterND(e, op); })
      .Case([&](ScatterElementsOp op) { return scatterElements(e, op); })
      .Case([&](TriluOp op) { return trilu(e, op); })
      .Case([&](EmbeddingOp op) { return embedding(e, op); })
      .Case([&](EmbeddingGradOp op) { return embeddingGrad(e, op); })
      .Case([&](ShiftTokensOp op) { return shiftTokens(e, op); })
      .Case([&](ImageMergeOp op) { return imageMerge(e, op); })
      .Case([&](ImageMergeGradOp op) { return imageMergeGrad(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
