//===- Emit.cpp - Building dialect ops with inferred result types ------------------------===//
#include "importers/onnx/Emit.h"
#include "importers/onnx/Diagnostics.h"
#include <utility>

using namespace mlir;

namespace omnibal::onnx {

std::nullptr_t Emitter::invalid(const llvm::Twine &what) {
  if (!std::exchange(told, true))
    invalidModel(loc) << label << ": " << what;
  return nullptr;
}

std::nullptr_t Emitter::unsupported(const llvm::Twine &what) {
  if (!std::exchange(told, true))
    notSupported(loc) << label << ": " << what;
  return nullptr;
}

//--- Constants
//-------------------------------------------------------------------------------------

Value Emitter::constant(DenseElementsAttr value) {
  return ConstantOp::create(builder, loc, value.getType(), value);
}

Value Emitter::ints(llvm::ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, builder.getI64Type());
  return constant(DenseElementsAttr::get(type, values));
}

Value Emitter::intScalar(int64_t value) {
  return constant(DenseElementsAttr::get(RankedTensorType::get({}, builder.getI64Type()), value));
}

Value Emitter::scalar(double value, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (element.isInteger(1))
    return constant(DenseElementsAttr::get(type, value != 0));
  if (element.isInteger(64))
    return constant(DenseElementsAttr::get(type, int64_t(value)));
  return constant(DenseElementsAttr::get(type, Attribute(builder.getFloatAttr(element, value))));
}

//--- Checks
//------------------------------------------------------------------------------------------

RankedTensorType Emitter::broadcastType(llvm::ArrayRef<Value> operands) {
  llvm::SmallVector<int64_t> dims;
  for (Value operand : operands) {
    if (!operand)
      return {};
    llvm::ArrayRef<int64_t> shape = shapeOf(operand);
    if (shape.size() > dims.size())
      dims.insert(dims.begin(), shape.size() - dims.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &dim = dims[dims.size() - shape.size() + i];
      int64_t other = shape[i];
      if (dim == other || other == 1)
        continue;
      if (dim == 1)
        dim = other;
      else if (dim == kDynamic || other == kDynamic)
        dim = dim == kDynamic ? other : dim; // the dynamic one must be that size or 1
      else
        return invalid("operands of shapes that do not broadcast: size " + llvm::Twine(dim) +
                       " against " + llvm::Twine(other)),
               RankedTensorType();
    }
  }
  return RankedTensorType::get(dims, elementOf(operands.back()));
}

bool Emitter::sameElements(Value a, Value b) {
  if (elementOf(a) == elementOf(b))
    return true;
  invalid("operands of different element types");
  return false;
}

std::optional<int64_t> Emitter::axis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  invalid("axis " + llvm::Twine(axis) + " of a tensor of rank " + llvm::Twine(rank));
  return std::nullopt;
}

bool Emitter::requireFloat(Value v, llvm::StringRef what) {
  if (!v || isa<FloatType>(elementOf(v)))
    return bool(v);
  unsupported(what + " must be a float tensor");
  return false;
}

bool Emitter::requireInt(Value v, llvm::StringRef what) {
  if (!v || elementOf(v).isInteger(64))
    return bool(v);
  invalid(what + " must be an integer tensor");
  return false;
}

//--- Elementwise
//-------------------------------------------------------------------------------------

Value Emitter::scale(Value x, double factor) {
  if (!x || factor == 1.0)
    return x;
  return mul(x, scalar(factor, elementOf(x)));
}

Value Emitter::compare(Value a, Value b, ComparePredicate predicate) {
  RankedTensorType type = broadcastType({a, b});
  if (!type || !sameElements(a, b))
    return {};
  return CompareOp::create(builder, loc, type.clone(builder.getI1Type()), a, b, predicate);
}

Value Emitter::select(Value condition, Value onTrue, Value onFalse) {
  RankedTensorType type = broadcastType({condition, onTrue, onFalse});
  if (!type || !sameElements(onTrue, onFalse))
    return {};
  if (!elementOf(condition).isInteger(1))
    return invalid("the condition must be a bool tensor");
  return SelectOp::create(builder, loc, type, condition, onTrue, onFalse);
}

Value Emitter::cast(Value x, Type element) {
  if (!x || elementOf(x) == element)
    return x;
  return CastOp::create(builder, loc, typeOf(x).clone(element), x);
}

//--- Shapes and indexing
//-----------------------------------------------------------------------------

Value Emitter::shape(Value x, int64_t start, int64_t end) {
  if (!x)
    return {};
  auto type = RankedTensorType::get({std::max<int64_t>(end - start, 0)}, builder.getI64Type());
  return ShapeOp::create(builder, loc, type, x, start,
                         builder.getI64IntegerAttr(std::max(start, end)));
}

Value Emitter::gather(Value x, Value indices, int64_t axisIndex) {
  if (!requireInt(indices, "indices") || !x)
    return {};
  std::optional<int64_t> at = axis(axisIndex, rankOf(x));
  if (!at)
    return {};
  llvm::SmallVector<int64_t> dims(shapeOf(x).take_front(*at));
  llvm::append_range(dims, shapeOf(indices));
  llvm::append_range(dims, shapeOf(x).drop_front(*at + 1));
  return GatherOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x, indices, *at,
                          IntegerAttr());
}

Value Emitter::gatherElements(Value x, Value indices, int64_t axisIndex) {
  if (!requireInt(indices, "indices") || !x)
    return {};
  std::optional<int64_t> at = axis(axisIndex, rankOf(x));
  if (!at)
    return {};
  if (rankOf(x) != rankOf(indices))
    return invalid("data and indices must have one rank");
  return GatherElementsOp::create(builder, loc, typeOf(indices).clone(elementOf(x)), x, indices,
                                  *at);
}

Value Emitter::range(Value start, Value limit, Value delta) {
  if (!start || !limit || !delta)
    return {};
  if (!sameElements(start, limit) || !sameElements(start, delta))
    return {};
  for (Value v : {start, limit, delta})
    if (rankOf(v) != 0)
      return invalid("start, limit and delta must be scalars");
  int64_t size = kDynamic;
  auto from = known.getAll(start), to = known.getAll(limit), by = known.getAll(delta);
  if (from && to && by) {
    if (by->front() == 0)
      return invalid("delta is 0");
    size = int64_t(std::ceil((double(to->front()) - double(from->front())) / double(by->front())));
    size = std::max<int64_t>(size, 0);
  }
  return RangeOp::create(builder, loc, RankedTensorType::get({size}, elementOf(start)), start,
                         limit, delta);
}

//--- Reductions and neural-network ops
//-----------------------------------------------------------------

Value Emitter::reduce(Value x, ReduceKind kind, llvm::ArrayRef<int64_t> axes, bool keepDims) {
  if (!x)
    return {};
  llvm::SmallVector<int64_t> sorted(axes), dims;
  llvm::sort(sorted);
  for (int64_t i = 0; i < rankOf(x); ++i) {
    if (!llvm::is_contained(sorted, i))
      dims.push_back(shapeOf(x)[i]);
    else if (keepDims)
      dims.push_back(1);
  }
  return ReduceOp::create(builder, loc, RankedTensorType::get(dims, elementOf(x)), x, Value(), kind,
                          builder.getDenseI64ArrayAttr(sorted), keepDims,
                          /*noop_with_empty_axes=*/false);
}

Value Emitter::matmul(Value a, Value b, bool transposeA, bool transposeB) {
  if (!a || !b || !sameElements(a, b))
    return {};
  llvm::SmallVector<int64_t> lhs(shapeOf(a)), rhs(shapeOf(b));
  if (lhs.empty() || rhs.empty())
    return invalid("operands must have rank 1 at least");
  bool lhsVector = lhs.size() == 1, rhsVector = rhs.size() == 1;
  if (lhsVector)
    lhs.insert(lhs.begin(), 1);
  if (rhsVector)
    rhs.push_back(1);
  if (transposeA)
    std::swap(lhs[lhs.size() - 1], lhs[lhs.size() - 2]);
  if (transposeB)
    std::swap(rhs[rhs.size() - 1], rhs[rhs.size() - 2]);
  int64_t inner = lhs.back(), other = rhs[rhs.size() - 2];
  if (inner != other && inner != kDynamic && other != kDynamic)
    return invalid("inner dimensions " + llvm::Twine(inner) + " and " + llvm::Twine(other) +
                   " differ");
  llvm::SmallVector<int64_t> dims;
  size_t batch = std::max(lhs.size(), rhs.size()) - 2;
  for (size_t i = 0; i < batch; ++i) {
    int64_t l = i + lhs.size() < batch + 2 ? 1 : lhs[i + lhs.size() - 2 - batch];
    int64_t r = i + rhs.size() < batch + 2 ? 1 : rhs[i + rhs.size() - 2 - batch];
    if (l != r && l > 1 && r > 1)
      return invalid("batch dimensions " + llvm::Twine(l) + " and " + llvm::Twine(r) + " differ");
    dims.push_back(l == 1 || (l == kDynamic && r != 1) ? r : l);
  }
  if (!lhsVector)
    dims.push_back(lhs[lhs.size() - 2]);
  if (!rhsVector)
    dims.push_back(rhs.back());
  return MatMulOp::create(builder, loc, RankedTensorType::get(dims, elementOf(a)), a, b, transposeA,
                          transposeB);
}

Value Emitter::softmax(Value x, int64_t axisIndex) {
  if (!requireFloat(x, "the input"))
    return {};
  std::optional<int64_t> at = axis(axisIndex, rankOf(x));
  return at ? SoftmaxOp::create(builder, loc, x.getType(), x, *at).getResult() : Value();
}

Value Emitter::logSoftmax(Value x, int64_t axisIndex) {
  if (!requireFloat(x, "the input"))
    return {};
  std::optional<int64_t> at = axis(axisIndex, rankOf(x));
  return at ? LogSoftmaxOp::create(builder, loc, x.getType(), x, *at).getResult() : Value();
}

} // namespace omnibal::onnx
