//===- EmitLayout.cpp - Views, and the copies that remain --------------------------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

LogicalResult CallBuilder::emitReshape(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  if (accumulated.contains(input))
    return success(); // the product went where the reshaped value belongs
  if (product(shapeOf(input)) != product(shapeOf(result)))
    return op->emitOpError("changes the number of elements");
  set(result, reshaped(placeOf(input), shapeOf(result), op));
  return success();
}

LogicalResult CallBuilder::emitSlice(SliceOp op) {
  if (!op.getBegin())
    return op.emitOpError("must be specialized (begin) before lowering");
  Place place = placeOf(op.getInput());
  for (auto [i, begin] : llvm::enumerate(*op.getBegin())) {
    int64_t step = op.getStep() ? (*op.getStep())[i] : 1;
    auto skipped = multiply(place.strides[i], begin), stride = multiply(place.strides[i], step);
    place.offset = place.offset + *skipped;
    place.strides[i] = *stride;
  }
  place.shape = shapeOf(op);
  set(op, place);
  return success();
}

LogicalResult CallBuilder::emitPad(PadOp op) {
  Place whole = fresh(op.getResult()), inner = whole;
  call(op, "fill", {{"dst", whole}}).attributes["value"] = 0;
  inner.shape = shapeOf(op.getInput());
  for (size_t i = 0; i < inner.rank(); ++i) {
    inner.offset = inner.offset + *multiply(whole.strides[i], op.getLow()[i]);
    if (op.getStep())
      inner.strides[i] = *multiply(whole.strides[i], (*op.getStep())[i]);
  }
  call(op, "copy", {{"src", placeOf(op.getInput())}, {"dst", inner}});
  set(op, whole);
  return success();
}

LogicalResult CallBuilder::emitConcat(ConcatOp op) {
  Place whole = fresh(op.getResult());
  int64_t rank = whole.rank();
  auto axis = static_cast<int64_t>(op.getAxis()); // the attribute's getter is unsigned
  axis += axis < 0 ? rank : 0;
  SymbolicDim position = 0;
  for (Value input : op.getInputs()) {
    Place part = whole;
    part.shape = shapeOf(input);
    auto skipped = multiply(whole.strides[axis], position);
    if (!skipped)
      return op.emitOpError("a part does not start at an offset affine in V and N");
    part.offset = *skipped;
    position = position + part.shape[axis];
    call(op, "copy", {{"src", placeOf(input)}, {"dst", part}});
  }
  set(op, whole);
  return success();
}

LogicalResult CallBuilder::emitReduce(ReduceOp op) {
  if (!op.getAxes())
    return op.emitOpError("must be specialized (axes) before lowering");
  Place source = placeOf(op.getInput());
  auto target = accumulated.find(op.getResult());
  Place result = target != accumulated.end() ? target->second : fresh(op.getResult());
  if (target == accumulated.end())
    set(op, result);
  // The result seen with the input's rank: ones where it was reduced, then stride 0.
  SymbolicShape kept = source.shape;
  ArrayRef<int64_t> axes = *op.getAxes();
  for (int64_t axis : axes)
    kept[axis < 0 ? axis + static_cast<int64_t>(source.rank()) : axis] = 1;
  auto aligned = reshape(result, kept);
  if (!aligned)
    return op.emitOpError("its result does not have the input's remaining dimensions");
  Place seen = broadcast(*aligned, source.shape);
  for (int64_t axis : axes)
    seen.strides[axis < 0 ? axis + static_cast<int64_t>(source.rank()) : axis] = 0;
  Call &reduce = call(op, "reduce", {{"src", source}, {"dst", seen}});
  reduce.attributes["kind"] = stringifyReduceKind(op.getKind()).str();
  if (target != accumulated.end())
    reduce.attributes["accumulate"] = true;
  return success();
}

} // namespace omnibal::lower
