//===- RewriteShapes.cpp - Ops without shape operands ------------------------------------===//
#include "dialects/omnibal/ir/Builders.h"
#include "dialects/omnibal/ir/ShapeInference.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"
#include "passes/specialize/SpecializeInternal.h"

using namespace mlir;

namespace omnibal::specialization {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

std::optional<SmallVector<int64_t>> constantInts(Value value) {
  DenseIntElementsAttr elements;
  if (!value || !matchPattern(value, m_Constant(&elements)))
    return std::nullopt;
  SmallVector<int64_t> result;
  for (const APInt &element : elements.getValues<APInt>())
    result.push_back(element.getSExtValue());
  return result;
}

/// Returns where a slice starts on one axis, in [0, size]. Fails if that is not a constant.
FailureOr<int64_t> startOf(SliceOp op, int64_t axis, const SymbolicDim &size,
                           const SymbolicDim &start, int64_t step) {
  // The last N of N + 2 rows start at 2, as the last N of N start at 0.
  SymbolicDim fromEnd = size + start;
  if (!start.isStatic() && step > 0 && fromEnd.isStatic() && isAlwaysAtMost(start, SymbolicDim(-1)))
    return std::max<int64_t>(0, fromEnd.constant);
  if (!start.isStatic()) {
    op.emitError() << describe(op) << ": the slice of axis " << axis << " starts at "
                   << toString(start) << ", which is not a constant";
    return failure();
  }
  int64_t at = start.constant;
  if (size.isStatic()) {
    if (at < 0)
      at = at < -size.constant ? (step > 0 ? 0 : -1) : at + size.constant;
    return std::clamp<int64_t>(at, 0,
                               step > 0 ? size.constant : std::max<int64_t>(0, size.constant - 1));
  }
  // A negative start beyond any size means the beginning; others count from the unknown end.
  if (at <= -(int64_t(1) << 31))
    at = 0;
  if (at < 0 || step < 0) {
    op.emitError() << describe(op) << ": the slice of axis " << axis << " of size "
                   << toString(size) << " counts from the end; only whole rows of tokens or tiles "
                   << "are supported (export the logits of all tokens)";
    return failure();
  }
  return at;
}

LogicalResult rewriteSlice(RewriterBase &rewriter, SliceOp op, const SymbolicContents &contents) {
  if (op.getBegin() && op.getStep() && !op.getStarts())
    return success();
  auto inputShape = getSymbolicShape(typeOf(op.getInput()));
  int64_t rank = inputShape->size();
  SmallVector<int64_t> begin(rank, 0), step(rank, 1);
  auto starts = contents.get(op.getStarts());
  if (!starts)
    return op.emitError() << describe(op)
                          << ": the start of the slice is not known at compile time";
  auto axes = op.getAxes() ? contents.get(op.getAxes()) : std::nullopt;
  auto steps = op.getSteps() ? contents.get(op.getSteps()) : std::nullopt;
  for (auto [i, start] : llvm::enumerate(*starts)) {
    int64_t axis = axes ? (*axes)[i].constant : static_cast<int64_t>(i);
    axis = axis < 0 ? axis + rank : axis;
    step[axis] = steps ? (*steps)[i].constant : 1;
    auto at = startOf(op, axis, (*inputShape)[axis], start, step[axis]);
    if (failed(at))
      return failure();
    begin[axis] = *at;
  }
  if (op.getType() == op.getInput().getType() &&
      llvm::all_of(step, [](int64_t s) { return s == 1; })) {
    rewriter.replaceOp(op, op.getInput());
    return success();
  }
  rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), op.getInput(), Value(), Value(), Value(),
                                       Value(), rewriter.getDenseI64ArrayAttr(begin),
                                       rewriter.getDenseI64ArrayAttr(step));
  return success();
}

/// tile = reshape to [1, d0, 1, d1, ..], expand to [r0, d0, r1, d1, ..], reshape.
LogicalResult rewriteTile(RewriterBase &rewriter, TileOp op, const SymbolicContents &contents) {
  auto input = getSymbolicShape(typeOf(op.getInput()));
  auto repeats = contents.get(op.getRepeats());
  if (!repeats)
    return op.emitError() << describe(op) << ": repeats are not known at compile time";
  SymbolicShape split, repeated;
  for (auto [dim, repeat] : llvm::zip_equal(*input, *repeats)) {
    if (!repeat.isOne()) {
      split.push_back(1);
      repeated.push_back(repeat);
    }
    split.push_back(dim);
    repeated.push_back(dim);
  }
  Type element = op.getType().getElementType();
  MLIRContext *context = op.getContext();
  Value value = ReshapeOp::create(rewriter, op.getLoc(), makeTensorType(context, split, element),
                                  op.getInput(), Value(), false);
  value = ExpandOp::create(rewriter, op.getLoc(), makeTensorType(context, repeated, element), value,
                           Value());
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), value, Value(), false);
  return success();
}

LogicalResult rewriteReduce(RewriterBase &rewriter, ReduceOp op) {
  int64_t rank = typeOf(op.getInput()).getRank();
  SmallVector<int64_t> axes;
  if (op.getAxesOperand()) {
    auto given = constantInts(op.getAxesOperand());
    if (!given)
      return op.emitError() << describe(op) << ": axes are not known at compile time";
    axes = *given;
  } else if (op.getAxes()) {
    axes.assign(op.getAxes()->begin(), op.getAxes()->end());
  }
  if (axes.empty() && op.getNoopWithEmptyAxes()) {
    rewriter.replaceOp(op, op.getInput());
    return success();
  }
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (int64_t &axis : axes)
    axis = axis < 0 ? axis + rank : axis;
  llvm::sort(axes);
  if (!op.getAxesOperand() && op.getAxes() && ArrayRef<int64_t>(axes) == *op.getAxes() &&
      !op.getNoopWithEmptyAxes())
    return success();
  rewriter.replaceOpWithNewOp<ReduceOp>(op, op.getType(), op.getInput(), Value(), op.getKind(),
                                        rewriter.getDenseI64ArrayAttr(axes), op.getKeepdims(),
                                        false);
  return success();
}

LogicalResult rewriteCumSum(RewriterBase &rewriter, CumSumOp op) {
  if (!op.getAxisOperand())
    return success();
  auto axis = constantInts(op.getAxisOperand());
  if (!axis || axis->size() != 1)
    return op.emitError() << describe(op) << ": the axis is not known at compile time";
  int64_t at = axis->front() < 0 ? axis->front() + op.getType().getRank() : axis->front();
  rewriter.replaceOpWithNewOp<CumSumOp>(op, op.getType(), op.getInput(), Value(),
                                        rewriter.getI64IntegerAttr(at), op.getExclusive(),
                                        op.getReverse());
  return success();
}

/// Reshape without shape operand; nothing at all where the shape stays.
void replaceByReshape(RewriterBase &rewriter, Operation *op, Value input) {
  if (input.getType() == op->getResult(0).getType())
    return rewriter.replaceOp(op, input);
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op->getResult(0).getType(), input, Value(), false);
}
} // namespace

LogicalResult rewriteShapes(RewriterBase &rewriter, Operation *op,
                            const SymbolicContents &contents) {
  rewriter.setInsertionPoint(op);
  if (isa<ReshapeOp, SqueezeOp, UnsqueezeOp>(op)) {
    replaceByReshape(rewriter, op, op->getOperand(0));
  } else if (auto cast = dyn_cast<CastOp>(op)) {
    if (cast.getType() == cast.getOperand().getType())
      rewriter.replaceOp(op, cast.getOperand());
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    if (isIdentityPermutation(transpose.getPermutation()))
      rewriter.replaceOp(op, transpose.getInput());
  } else if (auto expand = dyn_cast<ExpandOp>(op)) {
    if (expand.getType() == expand.getInput().getType())
      rewriter.replaceOp(op, expand.getInput());
    else if (expand.getShape())
      rewriter.replaceOpWithNewOp<ExpandOp>(op, expand.getType(), expand.getInput(), Value());
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    if (concat.getInputs().size() == 1)
      rewriter.replaceOp(op, concat.getInputs().front());
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    return rewriteSlice(rewriter, slice, contents);
  } else if (auto tile = dyn_cast<TileOp>(op)) {
    return rewriteTile(rewriter, tile, contents);
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    return rewriteReduce(rewriter, reduce);
  } else if (auto cumsum = dyn_cast<CumSumOp>(op)) {
    return rewriteCumSum(rewriter, cumsum);
  }
  return success();
}

} // namespace omnibal::specialization
