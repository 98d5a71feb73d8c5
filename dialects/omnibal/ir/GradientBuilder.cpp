//===- GradientBuilder.cpp ---------------------------------------------------------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace omnibal;

RankedTensorType omnibal::tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

SymbolicShape omnibal::shapeOf(Value value) {
  auto shape = getSymbolicShape(tensorType(value));
  // Autodiff runs on specialized graphs (form R); an open size here is a bug of the pipeline, which
  // shows as invalid IR after the pass.
  return shape ? *shape : SymbolicShape();
}

bool omnibal::isFloatTensor(Value value) {
  return isa<FloatType>(tensorType(value).getElementType());
}

bool omnibal::isFilledWith(Value tensor, double value) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (!isa<ExpandOp, ReshapeOp>(op))
      break;
    tensor = op->getOperand(0);
  }
  DenseFPElementsAttr elements;
  return matchPattern(tensor, m_Constant(&elements)) && elements.isSplat() &&
         elements.getSplatValue<APFloat>().convertToDouble() == value;
}

Value GradientBuilder::mul(Value x, Value y) {
  auto covers = [](Value kept, Value dropped) {
    return isFilledWith(dropped, 1) &&
           (kept.getType() == dropped.getType() || tensorType(dropped).getRank() == 0);
  };
  if (covers(x, y))
    return x;
  if (covers(y, x))
    return y;
  return create<MulOp>(x, y);
}

Value GradientBuilder::scalar(Value like, double value) {
  return scalar(tensorType(like).getElementType(), value);
}

Value GradientBuilder::scalar(Type element, double value) {
  auto type = RankedTensorType::get({}, element);
  Attribute attr = isa<FloatType>(element)
                       ? Attribute(builder.getFloatAttr(element, value))
                       : Attribute(builder.getIntegerAttr(element, int64_t(value)));
  return ConstantOp::create(builder, loc, type,
                            cast<ElementsAttr>(DenseElementsAttr::get(type, attr)));
}

Value GradientBuilder::filled(RankedTensorType type, double value) {
  Value one = scalar(type.getElementType(), value);
  return type.getRank() == 0 ? one : expand(one, type);
}

Value GradientBuilder::reduce(ReduceKind kind, Value x, ArrayRef<int64_t> axes, bool keepdims) {
  if (axes.empty())
    return x;
  return create<ReduceOp>(x, Value(), kind, builder.getDenseI64ArrayAttr(axes), keepdims, false);
}

Value GradientBuilder::reshape(Value x, RankedTensorType type) {
  if (x.getType() == type)
    return x;
  return ReshapeOp::create(builder, loc, type, x, Value(), false);
}

Value GradientBuilder::expand(Value x, RankedTensorType type) {
  if (x.getType() == type)
    return x;
  return ExpandOp::create(builder, loc, type, x, Value());
}

Value GradientBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  return create<TransposeOp>(x, permutation);
}

Value GradientBuilder::reduceTo(Value gradient, Value operand) {
  SymbolicShape from = shapeOf(gradient), to = shapeOf(operand);
  size_t lead = from.size() - to.size();
  SmallVector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < lead || (to[i - lead].isOne() && !from[i].isOne()))
      axes.push_back(i);
  return reshape(reduce(ReduceKind::Sum, gradient, axes, false), tensorType(operand));
}
