//===- EmitGroups.cpp - Products of rows with the weight of their group ------------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

namespace {
/// What sorting needs of its workspace for each row: its number, twice.
constexpr int64_t rowOrderWords = 2;
} // namespace

LogicalResult CallBuilder::emitGroupRows(GroupRowsOp op) {
  Place ids = flat(op.getIds(), op);
  set(op.getOrder(), fresh(op.getOrder()));
  set(op.getBorders(), fresh(op.getBorders()));
  std::vector<std::pair<std::string, Place>> operands{
      {"ids", ids}, {"order", placeOf(op.getOrder())}, {"borders", placeOf(op.getBorders())}};
  addWorkspace(operands, ids.shape[0], rowOrderWords);
  call(op, "group_rows", std::move(operands));
  return success();
}

Place CallBuilder::rowsOf(Value value, Operation *op) {
  Place place = unitStride(placeOf(value), op);
  SymbolicShape shape = shapeOf(value);
  SymbolicDim rows = *product(ArrayRef(shape).drop_back());
  if (auto view = reshape(place, {rows, shape.back()}))
    return *view;
  // Rows that repeat: a dimension of stride 0.
  return place.rank() == 3 ? place : reshaped(place, {rows, shape.back()}, op);
}

LogicalResult CallBuilder::emitGroupedLinear(GroupedLinearOp op) {
  set(op.getResult(), fresh(op.getResult()));
  rt::DType type = floatTypeOf({op.getInput(), op.getWeight()});
  Place weight = as(type, placeOf(op.getWeight()), op);
  if (!op.getInOut())
    weight = permute(weight, {0, 2, 1});
  call(op, "grouped_gemm",
       {{"a", as(type, rowsOf(op.getInput(), op), op)},
        {"b", weight},
        {"order", placeOf(op.getOrder())},
        {"borders", placeOf(op.getBorders())},
        {"c", matrix(op.getResult(), op)}});
  return success();
}

LogicalResult CallBuilder::emitGroupedLinearWeightGrad(GroupedLinearWeightGradOp op) {
  rt::DType type = floatTypeOf({op.getInput(), op.getGrad()});
  Place input = as(type, rowsOf(op.getInput(), op), op),
        grad = as(type, rowsOf(op.getGrad(), op), op);
  Place target = gradientTarget(op.getResult(), op);
  call(op, "grouped_gemm_backward",
       {{"a", op.getInOut() ? input : grad},
        {"b", op.getInOut() ? grad : input},
        {"order", placeOf(op.getOrder())},
        {"borders", placeOf(op.getBorders())},
        {"c", target}});
  return success();
}

} // namespace omnibal::lower
