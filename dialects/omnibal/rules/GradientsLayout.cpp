//===- GradientsLayout.cpp - Gradients of layout and indexing ops ------------------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace omnibal;

// Reshapes give the gradient the operand's shape.
#define RESHAPE_GRADIENT(OP)                                                                       \
  OMNIBAL_GRADIENT_RULE(OP) {                                                                      \
    if (needs(0))                                                                                  \
      gradients[0] = b.reshape(g[0], tensorType(op.getInput()));                                   \
    return success();                                                                              \
  }
RESHAPE_GRADIENT(ReshapeOp)
RESHAPE_GRADIENT(SqueezeOp)
RESHAPE_GRADIENT(UnsqueezeOp)
#undef RESHAPE_GRADIENT

namespace {
SmallVector<int64_t> inverse(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result(permutation.size());
  for (auto [i, axis] : llvm::enumerate(permutation))
    result[axis] = i;
  return result;
}
} // namespace

OMNIBAL_GRADIENT_RULE(TransposeOp) {
  if (needs(0))
    gradients[0] = b.transpose(g[0], inverse(op.getPermutation()));
  return success();
}

OMNIBAL_GRADIENT_RULE(ExpandOp) {
  if (needs(0))
    gradients[0] = b.reduceTo(g[0], op.getInput());
  return success();
}

OMNIBAL_GRADIENT_RULE(SliceOp) {
  if (!needs(0))
    return success();
  if (!op.getBegin())
    return op.emitOpError("must have its bounds as attributes before it is differentiated "
                          "(omnibal-specialize does that)");
  gradients[0] = PadOp::create(b.builder, b.loc, op.getInput().getType(), g[0], op.getBeginAttr(),
                               op.getStepAttr());
  return success();
}

OMNIBAL_GRADIENT_RULE(PadOp) {
  if (needs(0))
    gradients[0] = SliceOp::create(b.builder, b.loc, op.getInput().getType(), g[0], Value(),
                                   Value(), Value(), Value(), op.getLowAttr(), op.getStepAttr());
  return success();
}

OMNIBAL_GRADIENT_RULE(ConcatOp) {
  int64_t rank = tensorType(g[0]).getRank();
  int64_t axis = int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + rank : op.getAxis();
  SymbolicDim offset(0);
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    Value input = op->getOperand(i);
    if (needs(i)) {
      if (!offset.isStatic())
        return op.emitOpError() << "cannot be differentiated: input " << i << " begins at "
                                << toString(offset) << ", which depends on the micro-batch";
      SmallVector<int64_t> begin(rank, 0);
      begin[axis] = offset.constant;
      gradients[i] =
          SliceOp::create(b.builder, b.loc, input.getType(), g[0], Value(), Value(), Value(),
                          Value(), b.builder.getDenseI64ArrayAttr(begin), DenseI64ArrayAttr());
    }
    offset = offset + shapeOf(input)[axis];
  }
  return success();
}

OMNIBAL_GRADIENT_RULE(TileOp) {
  if (!needs(0))
    return success();
  // The result is [r, a, s, b] flattened; the repeats are summed.
  SymbolicShape input = shapeOf(op.getInput()), result = shapeOf(op.getResult()), split;
  SmallVector<int64_t> axes;
  for (size_t i = 0; i < input.size(); ++i) {
    auto repeats = divideExactly(result[i], input[i]);
    if (!repeats)
      return op.emitOpError() << "cannot be differentiated: axis " << i << " of size "
                              << toString(input[i]) << " repeats to " << toString(result[i]);
    axes.push_back(split.size());
    split.append({*repeats, input[i]});
  }
  Type element = tensorType(g[0]).getElementType();
  Value parts = b.reshape(g[0], makeTensorType(op.getContext(), split, element));
  gradients[0] = b.reduce(ReduceKind::Sum, parts, axes, false);
  return success();
}

namespace {
/// indices [..] to index tuples [.., 1].
Value asTuples(GradientBuilder &b, Value indices) {
  SymbolicShape shape = shapeOf(indices);
  shape.push_back(SymbolicDim(1));
  return b.reshape(
      indices, makeTensorType(indices.getContext(), shape, tensorType(indices).getElementType()));
}
} // namespace

OMNIBAL_GRADIENT_RULE(GatherOp) {
  if (!needs(0))
    return success();
  if (op.getPadding())
    return op.emitOpError("has a row of padding, which only an embedding keeps from training");
  auto type = tensorType(op.getInput());
  int64_t rank = type.getRank(), indexRank = tensorType(op.getIndices()).getRank();
  int64_t axis = int64_t(op.getAxis()) < 0 ? int64_t(op.getAxis()) + rank : op.getAxis();
  // The gathered axis comes first, so that an index names a slice.
  SmallVector<int64_t> inputOrder{axis}, gradOrder;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      inputOrder.push_back(i);
  for (int64_t i = 0; i < indexRank; ++i)
    gradOrder.push_back(axis + i);
  for (int64_t i = 0; i < axis; ++i)
    gradOrder.push_back(i);
  for (int64_t i = axis + indexRank; i < rank - 1 + indexRank; ++i)
    gradOrder.push_back(i);
  SymbolicShape shape = shapeOf(op.getInput()), permuted;
  for (int64_t i : inputOrder)
    permuted.push_back(shape[i]);
  Value zeros = b.filled(makeTensorType(op.getContext(), permuted, type.getElementType()), 0);
  Value updates = axis == 0 ? Value(g[0]) : b.transpose(g[0], gradOrder);
  Value sum = b.create<ScatterNDOp>(zeros, asTuples(b, op.getIndices()), updates, "add");
  gradients[0] = axis == 0 ? sum : b.transpose(sum, inverse(inputOrder));
  return success();
}

OMNIBAL_GRADIENT_RULE(GatherNDOp) {
  if (!needs(0))
    return success();
  // Batch dimensions become leading index components: an iota along each (exclusive sum of ones).
  Value indices = op.getIndices();
  SymbolicShape shape = shapeOf(indices);
  Type element = tensorType(indices).getElementType();
  SmallVector<Value> parts;
  for (int64_t i = 0; i < int64_t(op.getBatchDims()); ++i) {
    SymbolicShape column = shape;
    column.back() = SymbolicDim(1);
    Value ones = b.filled(makeTensorType(op.getContext(), column, element), 1);
    parts.push_back(b.create<CumSumOp>(ones, Value(), b.builder.getI64IntegerAttr(i), true, false));
  }
  if (!parts.empty()) {
    parts.push_back(indices);
    indices = b.create<ConcatOp>(ValueRange(parts), int64_t(shape.size()) - 1);
  }
  Value zeros = b.filled(tensorType(op.getInput()), 0);
  gradients[0] = b.create<ScatterNDOp>(zeros, indices, g[0], "add");
  return success();
}

OMNIBAL_GRADIENT_RULE(GatherElementsOp) {
  if (needs(0))
    gradients[0] = b.create<ScatterElementsOp>(b.filled(tensorType(op.getInput()), 0),
                                               op.getIndices(), g[0], op.getAxis(), "add");
  return success();
}

OMNIBAL_GRADIENT_RULE(ScatterNDOp) {
  bool adds = op.getReduction() == "add";
  if (!adds && op.getReduction() != "none")
    return op.emitOpError() << "with reduction '" << op.getReduction() << "' has no gradient";
  if (needs(0)) // written elements no longer depend on the input
    gradients[0] = adds ? Value(g[0])
                        : b.create<ScatterNDOp>(g[0], op.getIndices(),
                                                b.filled(tensorType(op.getUpdates()), 0), "none");
  if (needs(2))
    gradients[2] = b.create<GatherNDOp>(g[0], op.getIndices(), 0);
  return success();
}

OMNIBAL_GRADIENT_RULE(ScatterElementsOp) {
  bool adds = op.getReduction() == "add";
  if (!adds && op.getReduction() != "none")
    return op.emitOpError() << "with reduction '" << op.getReduction() << "' has no gradient";
  if (needs(0))
    gradients[0] = adds ? Value(g[0])
                        : b.create<ScatterElementsOp>(g[0], op.getIndices(),
                                                      b.filled(tensorType(op.getUpdates()), 0),
                                                      op.getAxis(), "none");
  if (needs(2))
    gradients[2] = b.create<GatherElementsOp>(g[0], op.getIndices(), op.getAxis());
  return success();
}

OMNIBAL_GRADIENT_RULE(TriluOp) {
  if (needs(0))
    gradients[0] = b.create<TriluOp>(g[0], op.getK(), op.getUpper());
  return success();
}

OMNIBAL_GRADIENT_RULE(ReshardOp) {
  if (needs(0))
    gradients[0] =
        ReshardOp::create(b.builder, b.loc, op.getInput().getType(), g[0], op.getTo().getDual(),
                          op.getFrom().getDual(), op.getPartsAttr(), op.getWholeAttr());
  return success();
}
