//===- IterationSpace.cpp ----------------------------------------------------------------===//
#include "passes/lower/transforms/IterationSpace.h"
#include "passes/lower/TensorBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

/// Index of the first column dimension: dims[split..] multiply to cols, dims[..split] to rows.
std::optional<size_t> splitOf(ArrayRef<SymbolicDim> shape, const IterationSpace &space) {
  int64_t cols = 1;
  size_t split = shape.size();
  while (split > 0 && cols < space.cols && shape[split - 1].isStatic())
    cols *= shape[--split].constant;
  if (cols != space.cols || product(shape.take_front(split)) != space.rows)
    return std::nullopt;
  return split;
}

/// `shape` as dimensions aligned with a result of `rank` dimensions (ones in front).
SymbolicShape aligned(ArrayRef<SymbolicDim> shape, size_t rank) {
  SymbolicShape result(rank, SymbolicDim(1));
  for (size_t i = 0; i < shape.size() && i < rank; ++i)
    result[rank - 1 - i] = shape[shape.size() - 1 - i];
  return result;
}

bool fitBroadcast(Operation *op, ArrayRef<SymbolicDim> result, const IterationSpace &space,
                  OpFit &fit) {
  fit.result = classify(result, space);
  if (fit.result == Extent2D::None)
    return false;
  size_t split = result.size();
  if (fit.result == Extent2D::Full)
    split = *splitOf(result, space);
  else if (fit.result == Extent2D::PerCol)
    split = 0;
  ArrayRef<SymbolicDim> rows = result.take_front(split), cols = result.drop_front(split);
  for (Value operand : op->getOperands()) {
    auto shape = getSymbolicShape(typeOf(operand));
    if (!shape || shape->size() > result.size())
      return false;
    SymbolicShape dims = aligned(*shape, result.size());
    ArrayRef<SymbolicDim> own(dims);
    ArrayRef<SymbolicDim> ownRows = own.take_front(split), ownCols = own.drop_front(split);
    bool fullCols = ownCols == cols, fullRows = ownRows == rows;
    if (!fullCols && !allOnes(ownCols))
      return false;
    OperandUse use;
    bool noRows = allOnes(ownRows) && !fullRows;
    bool noCols = !fullCols || (space.cols == 1 && noRows); // one column: row and element are one
    if (!fullRows && !noRows)
      use.partial = true;
    switch (fit.result) {
    case Extent2D::Full:
      use.extent = noRows ? (noCols ? Extent2D::Single : Extent2D::PerCol)
                          : (noCols ? Extent2D::PerRow : Extent2D::Full);
      break;
    case Extent2D::PerRow:
      use.extent = noRows ? Extent2D::Single : Extent2D::PerRow;
      break;
    case Extent2D::PerCol:
      use.extent = noCols ? Extent2D::Single : Extent2D::PerCol;
      break;
    default:
      use.extent = Extent2D::Single;
    }
    if (use.partial) {
      if (fit.result != Extent2D::Full)
        return false;
      fit.rowDims.assign(rows.begin(), rows.end());
      use.rows.assign(ownRows.begin(), ownRows.end());
    }
    fit.operands.push_back(use);
  }
  return true;
}

bool fitReduce(ReduceOp op, const IterationSpace &space, OpFit &fit) {
  auto shape = getSymbolicShape(typeOf(op.getInput()));
  if (!shape || !op.getAxes() || op.getAxesOperand())
    return false;
  auto split = splitOf(*shape, space);
  if (!split)
    return false;
  llvm::SmallVector<bool> reduced(shape->size(), false);
  ArrayRef<int64_t> axes = *op.getAxes();
  for (int64_t axis : axes)
    reduced[axis < 0 ? axis + shape->size() : axis] = true;
  bool rowsAll = true, rowsAny = false, colsAll = true, colsAny = false;
  for (size_t i = 0; i < shape->size(); ++i) {
    if ((*shape)[i].isOne())
      continue;
    (i < *split ? rowsAny : colsAny) |= reduced[i];
    (i < *split ? rowsAll : colsAll) &= reduced[i];
  }
  fit.operands.push_back({Extent2D::Full, false});
  if (!rowsAny && colsAll && colsAny) {
    fit.result = Extent2D::PerRow;
    return true;
  }
  if (rowsAny && rowsAll && !colsAny && op.getKind() == ReduceKind::Sum &&
      typeOf(op).getElementType().isF32()) {
    fit.result = Extent2D::PerCol;
    fit.columnReduction = true;
    return true;
  }
  return false;
}

} // namespace

Extent2D classify(ArrayRef<SymbolicDim> shape, const IterationSpace &space) {
  // With as many rows as columns, or one row, the number of elements does not tell them apart.
  if (splitOf(shape, space))
    return Extent2D::Full;
  if (allOnes(shape))
    return space.rows.isOne() ? Extent2D::PerRow : Extent2D::Single;
  if (space.rows == SymbolicDim(space.cols))
    return Extent2D::None;
  auto total = product(shape);
  if (total == space.rows)
    return Extent2D::PerRow;
  if (total == SymbolicDim(space.cols) && !shape.empty())
    return Extent2D::PerCol;
  return Extent2D::None;
}

bool isFree(Operation *op) { return isa<ReshapeOp, ExpandOp>(op); }

bool isFusible(Operation *op) {
  if (!isa<ElementwiseOpInterface, ReduceOp>(op) && !isFree(op))
    return false;
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !getSymbolicShape(tensor))
      return false;
    Type element = tensor.getElementType();
    if (!element.isF32() && !element.isInteger(32) && !element.isInteger(64) &&
        !element.isInteger(1) && !element.isF64())
      return false;
  }
  return op->getNumResults() == 1;
}

std::optional<OpFit> fit(Operation *op, const IterationSpace &space) {
  OpFit result;
  SymbolicShape shape = *getSymbolicShape(typeOf(op->getResult(0)));
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    if (!fitReduce(reduce, space, result))
      return std::nullopt;
    return result;
  }
  if (isa<ReshapeOp>(op)) {
    result.result = classify(shape, space);
    Extent2D input = classify(*getSymbolicShape(typeOf(op->getOperand(0))), space);
    if (op->getNumOperands() != 1 || input != result.result || input == Extent2D::None)
      return std::nullopt;
    result.operands.push_back({input, false});
    return result;
  }
  if (op->getNumOperands() == 0 || !fitBroadcast(op, shape, space, result))
    return std::nullopt;
  return result;
}

SmallVector<IterationSpace> candidateSpaces(Operation *op) {
  Value whole = isa<ReduceOp>(op) ? op->getOperand(0) : op->getResult(0);
  SymbolicShape shape = *getSymbolicShape(typeOf(whole));
  SmallVector<IterationSpace> spaces;
  int64_t cols = 1;
  for (size_t split = shape.size() + 1; split-- > 0;) {
    if (split < shape.size()) {
      if (!shape[split].isStatic())
        break;
      cols *= shape[split].constant;
    }
    auto rows = product(ArrayRef(shape).take_front(split));
    IterationSpace space{rows.value_or(0), cols};
    if (!rows || cols == 0 || llvm::is_contained(spaces, space))
      continue;
    auto found = fit(op, space);
    if (found && (found->result == Extent2D::Full || isa<ReduceOp>(op)))
      spaces.push_back(space);
  }
  return spaces;
}

} // namespace omnibal::lower
