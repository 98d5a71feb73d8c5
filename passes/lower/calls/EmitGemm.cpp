//===- EmitGemm.cpp - Matrix products on strided operands --------------------------------===//
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

void swapLast(Place &place) {
  size_t r = place.rank();
  std::swap(place.shape[r - 1], place.shape[r - 2]);
  std::swap(place.strides[r - 1], place.strides[r - 2]);
}

bool hasUnitStride(const Place &place) {
  for (size_t i : {place.rank() - 1, place.rank() - 2})
    if (place.strides[i] == SymbolicDim(1) || place.shape[i].isOne())
      return true;
  return false;
}

/// The last two dimensions only, where the others are ones.
Place lastTwo(const Place &place) {
  Place result = place;
  result.shape.erase(result.shape.begin(), result.shape.end() - 2);
  result.strides.erase(result.strides.begin(), result.strides.end() - 2);
  return result;
}

} // namespace

Place CallBuilder::quantizedScratch(GemmOp op) {
  // Few enough to stay in a cache, and enough that a product of them is worth its beginning.
  constexpr int64_t floats = int64_t{1} << 18, leastColumns = 32;
  const rt::QuantizedShape matrix = quantizedShapeOf(op.getRhs().getType());
  const int64_t depth = op.getTransposeRhs() ? matrix.cols : matrix.rows;
  const int64_t columns = op.getTransposeRhs() ? matrix.rows : matrix.cols;
  const int64_t some = std::max(floats / std::max<int64_t>(depth, 1) / leastColumns, int64_t{1});
  return fresh(Float32Type::get(fn.getContext()), {std::min(columns, some * leastColumns) * depth});
}

LogicalResult CallBuilder::emitGemm(GemmOp op) {
  const bool quantized = isQuantized(op.getRhs().getType());
  rt::DType type = quantized ? rt::DType::F32 : floatTypeOf({op.getLhs(), op.getRhs()});
  Place a = as(type, placeOf(op.getLhs()), op), b = placeOf(op.getRhs());
  if (!quantized)
    b = as(type, b, op);
  if (op.getTransposeLhs())
    swapLast(a);
  if (op.getTransposeRhs() && !quantized)
    swapLast(b);
  if (!hasUnitStride(a))
    a = materialize(a, op);
  if (!quantized && !hasUnitStride(b))
    b = materialize(b, op);

  SymbolicShape shape = shapeOf(op.getResult());
  auto target = accumulated.find(op.getResult());
  bool accumulate = target != accumulated.end();
  Place residual, c;
  bool hasResidual = op.getResidual() && !accumulate;
  if (hasResidual)
    residual = placeOf(op.getResidual());
  if (accumulate) {
    c = target->second;
  } else if (hasResidual && a.root != residual.root && b.root != residual.root &&
             diesAt(residual, op) && isDense(residual) &&
             (dtypeAt(residual) == rt::DType::BF16) == storage.isBFloat16(op.getResult()) &&
             list.roots[residual.root].elements == product(shape)) {
    // The sum takes the place of what it adds to.
    c = residual;
    set(op.getResult(), c);
    if (op.getActivation() == Activation::None && !op.getBias()) {
      hasResidual = false;
      accumulate = true;
    }
  } else {
    c = fresh(op.getResult());
    set(op.getResult(), c);
  }
  if (hasResidual)
    residual = as(dtypeAt(c), residual, op);
  Place pre;
  if (op.getPre()) {
    pre = fresh(elementType(op.getPre()), shapeOf(op.getPre()), dtypeAt(c) == rt::DType::BF16);
    set(op.getPre(), pre);
  }

  Place at;
  if (op.getAt())
    at = as(dtypeAt(c), placeOf(op.getAt()), op);

  SymbolicShape batch(shape.begin(), shape.end() - 2);
  auto rows = product(ArrayRef(shape).drop_back());
  SymbolicShape flat{rows.value_or(0), shape.back()};
  // One matrix on the right: leading dimensions of the left are rows.
  auto flatA = rows ? reshape(a, {*rows, a.shape.back()}) : std::nullopt;
  if (quantized && rows && (!flatA || !hasUnitStride(*flatA)))
    flatA = reshape(materialize(a, op), {*rows, a.shape.back()});
  bool oneMatrix = (quantized || allOnes(ArrayRef(b.shape).drop_back(2))) && flatA &&
                   hasUnitStride(*flatA) && !op.getTransposeLhs() && reshape(c, flat) &&
                   (!hasResidual || reshape(residual, flat)) &&
                   (!op.getPre() || reshape(pre, flat)) && (!op.getAt() || reshape(at, flat));
  if (oneMatrix) {
    a = *flatA;
    if (!quantized)
      b = lastTwo(b);
    c = *reshape(c, flat);
    if (hasResidual)
      residual = *reshape(residual, flat);
    if (op.getPre())
      pre = *reshape(pre, flat);
    if (op.getAt())
      at = *reshape(at, flat);
  } else if (quantized) {
    return op.emitOpError("the rows of a product with a quantized weight are not one number, "
                          "affine in V and N, of rows at equal distances");
  } else {
    SymbolicShape wideA(batch), wideB(batch);
    wideA.append(a.shape.end() - 2, a.shape.end());
    wideB.append(b.shape.end() - 2, b.shape.end());
    a = broadcast(a, wideA);
    b = broadcast(b, wideB);
  }

  std::vector<std::pair<std::string, Place>> operands{{"a", a}, {"b", b}, {"c", c}};
  if (op.getBias()) {
    Place bias = as(type, placeOf(op.getBias()), op);
    operands.emplace_back("bias", bias);
  }
  if (hasResidual)
    operands.emplace_back("residual", residual);
  if (op.getPre())
    operands.emplace_back("pre", pre);
  if (op.getAt())
    operands.emplace_back("at", at);
  if (op.getSums())
    operands.emplace_back(op.getSumRhs() ? "sum_b" : "sum_a", gradientTarget(op.getSums(), op));
  if (quantized)
    operands.emplace_back("scratch", quantizedScratch(op));
  Call &gemm = call(op, quantized ? "quantized_gemm" : "gemm", std::move(operands));
  if (quantized)
    gemm.attributes["quantized"] = rt::nameOf(quantizedShapeOf(op.getRhs().getType()).kind);
  if (quantized && op.getTransposeRhs())
    gemm.attributes["transpose_b"] = true;
  if (accumulate)
    gemm.attributes["accumulate"] = true;
  if (op.getAlpha().convertToDouble() != 1.0)
    gemm.attributes["alpha"] = op.getAlpha().convertToDouble();
  if (op.getActivation() != Activation::None)
    gemm.attributes["activation"] = stringifyActivation(op.getActivation()).str();
  return success();
}

/// Rows of the weight go through a thread's own few numbers, so the call has no temporary.
LogicalResult CallBuilder::emitRowSquares(RowSquaresOp op) {
  const rt::Quantization kind = quantizedShapeOf(op.getWeight().getType()).kind;
  Place weight = placeOf(op.getWeight());
  if (kind == rt::Quantization::None && op.getInOut())
    swapLast(weight);
  set(op.getResult(), fresh(op.getResult()));
  Call &squares = call(op, "row_squares",
                       {{"weight", weight},
                        {"a", unitStride(placeOf(op.getA()), op)},
                        {"b", placeOf(op.getB())},
                        {"result", placeOf(op.getResult())}});
  squares.attributes["scale"] = op.getScale().convertToDouble();
  if (kind != rt::Quantization::None)
    squares.attributes["quantized"] = rt::nameOf(kind);
  return success();
}

LogicalResult CallBuilder::emitDequantize(DequantizeOp op) {
  set(op.getResult(), fresh(op.getResult()));
  Call &numbers = call(op, "dequantize",
                       {{"codes", placeOf(op.getWeight())}, {"matrix", placeOf(op.getResult())}});
  numbers.attributes["quantized"] = rt::nameOf(quantizedShapeOf(op.getWeight().getType()).kind);
  return success();
}

} // namespace omnibal::lower
