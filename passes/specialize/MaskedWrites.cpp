//===- MaskedWrites.cpp - Rows written by a mask, before sizes are asked for ---------------===//
//
// x[mask] = values is exported as ScatterND at the places of NonZero(mask), of values expanded to
// as many rows as the mask has ones: a size that depends on data. Where the values are the same for
// all rows, a choice by the mask says the same; where there is a row for each one of the mask, the
// expansion does nothing.
//
//===------------------------------------------------------------------------------------------===//
#include "passes/specialize/SpecializeInternal.h"

using namespace mlir;

namespace omnibal::specialization {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

Value throughReshapes(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, SqueezeOp, UnsqueezeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The mask whose ones are the places of a scatter that writes single elements; null for others.
Value maskOf(ScatterNDOp op) {
  auto transpose = op.getIndices().getDefiningOp<TransposeOp>();
  auto nonzero = transpose ? transpose.getInput().getDefiningOp<NonZeroOp>() : NonZeroOp();
  if (!nonzero || op.getReduction() != "none")
    return {};
  Value mask = nonzero.getInput();
  bool isMask = typeOf(mask).getElementType().isInteger(1) &&
                typeOf(mask).getRank() == typeOf(op.getInput()).getRank();
  return isMask ? mask : Value();
}

void rewrite(ScatterNDOp op) {
  Value mask = maskOf(op);
  auto expand = throughReshapes(op.getUpdates()).getDefiningOp<ExpandOp>();
  if (!mask || !expand || !expand.getShape() || !typeOf(expand.getShape()).hasStaticShape())
    return;
  Value values = expand.getInput();
  ArrayRef<int64_t> shape = typeOf(values).getShape();
  int64_t places =
      typeOf(expand.getShape()).getNumElements(); // [ones of the mask, size of a row..]
  bool rowForEach = int64_t(shape.size()) == places && shape.front() != 1;
  if (rowForEach) {
    expand.getResult().replaceAllUsesWith(values);
    return;
  }
  OpBuilder builder(op);
  Value chosen = SelectOp::create(builder, op.getLoc(), op.getType(), mask, values, op.getInput());
  op.getResult().replaceAllUsesWith(chosen);
}
} // namespace

void rewriteMaskedWrites(func::FuncOp function) {
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto scatter = dyn_cast<ScatterNDOp>(op))
      rewrite(scatter);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace omnibal::specialization
