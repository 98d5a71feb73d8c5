//===- Match.cpp -------------------------------------------------------------------------===//
#include "passes/raise/match/Match.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>

using namespace mlir;

namespace omnibal::raise {

SymbolicShape shapeOf(Value value) {
  auto shape = getSymbolicShape(typeOf(value));
  return shape ? *shape : SymbolicShape();
}

bool isAlongTokens(Value value, int64_t axis) {
  const SymbolicShape shape = shapeOf(value);
  return isTokenDim(shape[axis < 0 ? axis + shape.size() : axis]);
}

std::optional<double> splatConstant(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat)
        return std::nullopt;
      if (isa<FloatType>(splat.getElementType()))
        return splat.getSplatValue<APFloat>().convertToDouble();
      APInt integer = splat.getSplatValue<APInt>();
      return splat.getElementType().isInteger(1) ? double(integer.getZExtValue())
                                                 : double(integer.getSExtValue());
    }
    if (!isa<ReshapeOp, ExpandOp, CastOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

bool isConstant(Value value, double expected, double relative) {
  auto constant = splatConstant(value);
  return constant && std::abs(*constant - expected) <= relative * std::max(1.0, std::abs(expected));
}

namespace {
void collect(Value value, Product &product, bool root) {
  if (auto constant = splatConstant(value)) {
    product.constant *= *constant;
    return;
  }
  if (root || value.hasOneUse()) {
    if (auto mul = value.getDefiningOp<MulOp>()) {
      collect(mul.getLhs(), product, false);
      collect(mul.getRhs(), product, false);
      return;
    }
    if (auto div = value.getDefiningOp<DivOp>())
      if (auto constant = splatConstant(div.getRhs()); constant && *constant != 0) {
        product.constant /= *constant;
        collect(div.getLhs(), product, false);
        return;
      }
  }
  product.factors.push_back(value);
}

/// Depth-first over operands without recursion limits in practice: parameter chains are short.
bool parameterLike(Value value, bool &reads, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 64)
    return false;
  if (isa<GetParameterOp>(op)) {
    reads = true;
    return true;
  }
  if (isa<ConstantOp>(op))
    return true;
  if (op->getNumOperands() == 0 || !isMemoryEffectFree(op))
    return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return parameterLike(operand, reads, depth + 1); });
}
} // namespace

Product productOf(Value value) {
  Product product;
  collect(value, product, true);
  return product;
}

Value stripReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

Value matchSquare(Value value) {
  if (auto power = value.getDefiningOp<PowOp>())
    return isConstant(power.getRhs(), 2) ? power.getLhs() : Value();
  if (auto mul = value.getDefiningOp<MulOp>())
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  return {};
}

bool isParameterLike(Value value) {
  bool reads = false;
  return parameterLike(value, reads, 0);
}

bool readsParameter(Value value) {
  bool reads = false;
  return parameterLike(value, reads, 0) && reads;
}

Value reshapeTo(OpBuilder &builder, Location loc, Value value, ArrayRef<SymbolicDim> shape) {
  auto type = makeTensorType(builder.getContext(), shape, typeOf(value).getElementType());
  if (type == value.getType())
    return value;
  return ReshapeOp::create(builder, loc, type, value, Value(), false);
}

Value transposed(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> permutation) {
  SymbolicShape from = shapeOf(value), to;
  for (int64_t p : permutation)
    to.push_back(from[p]);
  auto type = makeTensorType(builder.getContext(), to, typeOf(value).getElementType());
  return TransposeOp::create(builder, loc, type, value, builder.getDenseI64ArrayAttr(permutation));
}

Value castTo(OpBuilder &builder, Location loc, Value value, Type elementType) {
  if (typeOf(value).getElementType() == elementType)
    return value;
  auto type = makeTensorType(builder.getContext(), shapeOf(value), elementType);
  return CastOp::create(builder, loc, type, value);
}

void forEachOp(func::FuncOp function, llvm::function_ref<void(Operation *)> visit) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator()))
    visit(&op);
  eliminateDeadAndEqual(function);
}

} // namespace omnibal::raise
