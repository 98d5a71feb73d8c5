//===- FactorsReduction.cpp - Letters of reductions, norms and work along an axis ------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/rules/Factors.h"

using namespace mlir;
using namespace omnibal;

namespace {
int64_t fromFront(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

SmallVector<int64_t> axesOf(ReduceOp op, int64_t rank) {
  SmallVector<int64_t> axes;
  if (DenseI64ArrayAttr given = op.getAxesAttr())
    for (int64_t axis : given.asArrayRef())
      axes.push_back(fromFront(axis, rank));
  if (axes.empty() && !op.getNoopWithEmptyAxes())
    llvm::append_range(axes, llvm::seq<int64_t>(0, rank));
  return axes;
}

/// Elements of the dimensions, or none where that depends on the micro-batch.
std::optional<int64_t> constantProduct(ArrayRef<SymbolicDim> shape) {
  std::optional<SymbolicDim> size = product(shape);
  if (!size || !size->isStatic())
    return std::nullopt;
  return size->constant;
}

/// Sums of what all parts hold, which each part goes on with.
Value sumOverParts(GradientBuilder &b, Value x, ArrayRef<int64_t> axes, const PartOf &part) {
  Value own = b.reduce(ReduceKind::Sum, x, axes, /*keepdims=*/true);
  MLIRContext *context = own.getContext();
  return ReshardOp::create(b.builder, b.loc, own.getType(), own, LayoutAttr::partial(context),
                           LayoutAttr::copied(context), part.parts, tensorType(own));
}
} // namespace

OMNIBAL_FACTOR_RULE_AND_PART(ReduceOp) {
  if (op.getAxesOperand())
    return false;
  const auto rank = static_cast<int64_t>(f.operand(0).size());
  SmallVector<int64_t> axes = axesOf(op, rank);
  SymbolicShape reduced;
  for (int64_t axis : axes)
    reduced.push_back(f.operand(0)[axis]);
  const ReduceKind kind = op.getKind();
  const bool adds =
      kind == ReduceKind::Sum || (kind == ReduceKind::Mean && constantProduct(reduced));
  int64_t to = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (!llvm::is_contained(axes, dim)) {
      f.carry(dim, to++);
      continue;
    }
    to += op.getKeepdims();
    f.onOperand(0, dim, f.letter(f.operand(0)[dim], adds ? LetterKind::Sum : LetterKind::Closed));
  }
  if (kind == ReduceKind::Sum || kind == ReduceKind::Mean)
    f.linearIn({0});
  return true;
}
/// A mean over what parts hold together is a sum over what each holds, divided by all of it.
static LogicalResult buildPartOfReduceOp(OpBuilder &builder, ReduceOp op, const PartOf &part,
                                         ValueRange operands, SmallVectorImpl<Value> &results) {
  SmallVector<int64_t> axes = axesOf(op, part.wholeOperands[0].getRank());
  LayoutAttr read = part.reads[0];
  if (op.getKind() != ReduceKind::Mean || !read.isSplit() ||
      !llvm::is_contained(axes, read.getDim())) {
    return buildSameOp(builder, op, part, operands, results);
  }
  GradientBuilder b(builder, op.getLoc());
  int64_t size = 1;
  for (int64_t axis : axes)
    size *= part.wholeOperands[0].getDimSize(axis);
  Value sum = b.reduce(ReduceKind::Sum, operands[0], axes, op.getKeepdims());
  results.push_back(b.mul(sum, 1.0 / static_cast<double>(size)));
  return success();
}

namespace {
/// All dimensions but one are carried along.
void allBut(FactorBuilder &f, int64_t axis) {
  for (int64_t dim = 0; dim < static_cast<int64_t>(f.operand(0).size()); ++dim)
    if (dim != axis)
      f.carry(dim, dim);
}
} // namespace

OMNIBAL_FACTOR_RULE(SoftmaxOp) {
  allBut(f, fromFront(static_cast<int64_t>(op.getAxis()), f.result().size()));
  return true;
}
OMNIBAL_FACTOR_RULE(LogSoftmaxOp) {
  allBut(f, fromFront(static_cast<int64_t>(op.getAxis()), f.result().size()));
  return true;
}
OMNIBAL_FACTOR_RULE(CumSumOp) {
  if (op.getAxisOperand() || !op.getAxis())
    return false;
  allBut(f, fromFront(static_cast<int64_t>(*op.getAxis()), f.result().size()));
  f.linearIn({0});
  return true;
}
OMNIBAL_FACTOR_RULE(TopKOp) {
  allBut(f, static_cast<int64_t>(f.operand(0).size()) - 1);
  return true;
}

namespace {
/// Rows pass; what a norm is over is split at the price of its sums.
void addNorm(Operation *op, int64_t axis, FactorBuilder &f) {
  const auto rank = static_cast<int64_t>(f.result().size());
  axis = fromFront(axis, rank);
  const bool isStatic =
      constantProduct(ArrayRef<SymbolicDim>(f.operand(0)).drop_front(axis)).has_value();
  for (int64_t dim = 0; dim < rank; ++dim)
    f.carry(dim, dim,
            dim < axis ? LetterKind::Free : (isStatic ? LetterKind::Inner : LetterKind::Closed));
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    f.broadcast(i);
}

/// The dimensions that a norm is over, if they are split among parts, else none.
SmallVector<int64_t> splitAxes(int64_t axis, const PartOf &part) {
  const int64_t rank = part.wholeResults[0].getRank();
  SmallVector<int64_t> axes;
  axis = fromFront(axis, rank);
  if (part.layouts[0].isSplit() && part.layouts[0].getDim() >= axis)
    llvm::append_range(axes, llvm::seq<int64_t>(axis, rank));
  return axes;
}
/// The mean of all parts' elements along the axes.
Value meanOverParts(GradientBuilder &b, Value x, ArrayRef<int64_t> axes, const PartOf &part) {
  int64_t size = 1;
  for (int64_t axis : axes)
    size *= part.wholeResults[0].getDimSize(axis);
  return b.mul(sumOverParts(b, x, axes, part), 1.0 / static_cast<double>(size));
}
/// x / sqrt(mean of its squares + epsilon)
Value normalized(GradientBuilder &b, Value x, ArrayRef<int64_t> axes, double epsilon,
                 const PartOf &part) {
  Value mean = meanOverParts(b, b.mul(x, x), axes, part);
  return b.mul(x, b.create<RsqrtOp>(b.add(mean, b.scalar(x, epsilon))));
}

/// A norm as it is, or where what it is over is split, by `split` along those axes.
template <typename NormOp, typename Split>
LogicalResult buildPartOfNorm(OpBuilder &builder, NormOp op, const PartOf &part,
                              ValueRange operands, SmallVectorImpl<Value> &results, Split split) {
  SmallVector<int64_t> axes = splitAxes(static_cast<int64_t>(op.getAxis()), part);
  if (axes.empty())
    return buildSameOp(builder, op, part, operands, results);
  GradientBuilder b(builder, op.getLoc());
  results.push_back(split(b, axes, op.getEpsilon().convertToDouble()));
  return success();
}
} // namespace

OMNIBAL_FACTOR_RULE_AND_PART(RMSNormOp) {
  addNorm(op, static_cast<int64_t>(op.getAxis()), f);
  return true;
}
static LogicalResult buildPartOfRMSNormOp(OpBuilder &builder, RMSNormOp op, const PartOf &part,
                                          ValueRange operands, SmallVectorImpl<Value> &results) {
  auto split = [&](GradientBuilder &b, ArrayRef<int64_t> axes, double epsilon) {
    Value y = normalized(b, operands[0], axes, epsilon, part);
    return op.getScale() ? b.mul(y, operands[1]) : y;
  };
  return buildPartOfNorm(builder, op, part, operands, results, split);
}

OMNIBAL_FACTOR_RULE_AND_PART(LayerNormOp) {
  addNorm(op, static_cast<int64_t>(op.getAxis()), f);
  return true;
}
static LogicalResult buildPartOfLayerNormOp(OpBuilder &builder, LayerNormOp op, const PartOf &part,
                                            ValueRange operands, SmallVectorImpl<Value> &results) {
  auto split = [&](GradientBuilder &b, ArrayRef<int64_t> axes, double epsilon) {
    Value centered = b.sub(operands[0], meanOverParts(b, operands[0], axes, part));
    Value y = b.mul(normalized(b, centered, axes, epsilon, part), operands[1]);
    return op.getBias() ? b.add(y, operands[2]) : y;
  };
  return buildPartOfNorm(builder, op, part, operands, results, split);
}

void omnibal::attachReductionFactors(MLIRContext &context) {
  ReduceOp::attachInterface<ReduceOpFactors>(context);
  SoftmaxOp::attachInterface<SoftmaxOpFactors>(context);
  LogSoftmaxOp::attachInterface<LogSoftmaxOpFactors>(context);
  CumSumOp::attachInterface<CumSumOpFactors>(context);
  TopKOp::attachInterface<TopKOpFactors>(context);
  RMSNormOp::attachInterface<RMSNormOpFactors>(context);
  LayerNormOp::attachInterface<LayerNormOpFactors>(context);
}
