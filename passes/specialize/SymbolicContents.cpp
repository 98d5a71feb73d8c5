//===- SymbolicContents.cpp - Integer tensors as affine expressions ----------------------===//
#include "mlir/IR/Matchers.h"
#include "passes/specialize/SpecializeInternal.h"

using namespace mlir;

namespace omnibal::specialization {
namespace {

/// Shapes and index lists are short; longer tensors are data.
constexpr int64_t maximumElements = 256;

using Dims = SymbolicShape;
using MaybeDims = std::optional<SymbolicShape>;

bool isStatic(ArrayRef<SymbolicDim> dims) {
  return llvm::all_of(dims, [](const SymbolicDim &dim) { return dim.isStatic(); });
}

/// Sign of an expression for all V, N >= 0: -1, 0, 1; none if it depends.
std::optional<int> signOf(const SymbolicDim &dim) {
  if (dim == SymbolicDim(0))
    return 0;
  if (dim.constant > 0 && dim.perTile >= 0 && dim.perToken >= 0)
    return 1;
  if (dim.constant < 0 && dim.perTile <= 0 && dim.perToken <= 0)
    return -1;
  return std::nullopt;
}

std::optional<SymbolicDim> compare(const SymbolicDim &a, const SymbolicDim &b,
                                   ComparePredicate predicate) {
  std::optional<int> sign = signOf(a - b);
  if (!sign)
    return std::nullopt;
  switch (predicate) {
  case ComparePredicate::EQ:
    return SymbolicDim(*sign == 0);
  case ComparePredicate::LT:
    return SymbolicDim(*sign < 0);
  case ComparePredicate::LE:
    return SymbolicDim(*sign <= 0);
  case ComparePredicate::GT:
    return SymbolicDim(*sign > 0);
  case ComparePredicate::GE:
    return SymbolicDim(*sign >= 0);
  }
  return std::nullopt;
}

std::optional<SymbolicDim> divide(const SymbolicDim &a, const SymbolicDim &b) {
  if (auto exact = divideExactly(a, b))
    return exact;
  if (a.isStatic() && b.isStatic() && b.constant != 0)
    return SymbolicDim(a.constant / b.constant);
  return std::nullopt;
}

/// Elementwise rule on short tensors where the smaller operand is a scalar or of equal size.
MaybeDims binary(const MaybeDims &lhs, const MaybeDims &rhs,
                 llvm::function_ref<std::optional<SymbolicDim>(SymbolicDim, SymbolicDim)> rule) {
  if (!lhs || !rhs)
    return std::nullopt;
  size_t size = std::max(lhs->size(), rhs->size());
  if ((lhs->size() != size && lhs->size() != 1) || (rhs->size() != size && rhs->size() != 1) ||
      lhs->empty() || rhs->empty())
    return std::nullopt;
  Dims result;
  for (size_t i = 0; i < size; ++i) {
    auto value = rule((*lhs)[lhs->size() == 1 ? 0 : i], (*rhs)[rhs->size() == 1 ? 0 : i]);
    if (!value)
      return std::nullopt;
    result.push_back(*value);
  }
  return result;
}

/// Constant elements of a rank-1 slice operand, or the default where it is absent.
std::optional<int64_t> staticScalar(const SymbolicContents &contents, Value operand,
                                    int64_t absent) {
  if (!operand)
    return absent;
  MaybeDims dims = contents.get(operand);
  if (!dims || dims->size() != 1 || !dims->front().isStatic())
    return std::nullopt;
  return dims->front().constant;
}

MaybeDims sliceRankOne(const SymbolicContents &contents, SliceOp op) {
  MaybeDims input = contents.get(op.getInput());
  auto start = staticScalar(contents, op.getStarts(), 0);
  auto end = staticScalar(contents, op.getEnds(), 0);
  auto step = staticScalar(contents, op.getSteps(), 1);
  if (!input || !start || !end || !step || *step == 0)
    return std::nullopt;
  int64_t size = input->size();
  auto clamp = [&](int64_t value, int64_t low, int64_t high) {
    if (value < 0 && value >= -size)
      value += size;
    else if (value < 0)
      value = -1;
    return std::clamp(value, low, high);
  };
  Dims result;
  if (*step > 0)
    for (int64_t i = clamp(*start, 0, size); i < clamp(*end, 0, size); i += *step)
      result.push_back((*input)[i]);
  else
    for (int64_t i = clamp(*start, -1, size - 1); i > clamp(*end, -1, size - 1); i += *step)
      result.push_back((*input)[i]);
  return result;
}

MaybeDims gatherRankOne(const MaybeDims &input, const MaybeDims &indices) {
  if (!input || !indices || !isStatic(*indices))
    return std::nullopt;
  Dims result;
  int64_t size = input->size();
  for (const SymbolicDim &index : *indices) {
    int64_t at = index.constant < 0 ? index.constant + size : index.constant;
    if (at < 0 || at >= size)
      return std::nullopt;
    result.push_back((*input)[at]);
  }
  return result;
}

MaybeDims ofConstant(ConstantOp op) {
  auto elements = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!elements)
    return std::nullopt;
  bool isBool = elements.getElementType().isInteger(1);
  bool isUnsigned = elements.getElementType().isUnsignedInteger() || isBool;
  Dims result;
  for (const APInt &value : elements.getValues<APInt>())
    result.push_back(isUnsigned ? static_cast<int64_t>(value.getZExtValue())
                                : value.getSExtValue());
  return result;
}
} // namespace

std::optional<SymbolicShape> SymbolicContents::get(Value value) const {
  auto it = known.find(value);
  return it == known.end() ? std::nullopt : MaybeDims(it->second);
}

std::optional<SymbolicShape> SymbolicContents::compute(Operation *op) const {
  auto operand = [&](unsigned i) { return get(op->getOperand(i)); };
  if (auto constant = dyn_cast<ConstantOp>(op))
    return ofConstant(constant);
  if (isa<ShapeOp, SizeOp>(op)) {
    auto dims = getSymbolicShape(cast<RankedTensorType>(op->getOperand(0).getType()));
    if (!dims)
      return std::nullopt;
    if (isa<SizeOp>(op)) {
      auto size = product(*dims);
      return size ? MaybeDims(Dims{*size}) : std::nullopt;
    }
    auto shape = cast<ShapeOp>(op);
    int64_t rank = dims->size();
    auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    int64_t begin = clamp(shape.getStart()), end = clamp(shape.getEnd().value_or(rank));
    return Dims(dims->begin() + begin, dims->begin() + std::max(begin, end));
  }
  if (isa<ReshapeOp, SqueezeOp, UnsqueezeOp>(op))
    return operand(0);
  if (auto cast = dyn_cast<CastOp>(op)) {
    Type to = mlir::cast<RankedTensorType>(cast.getType()).getElementType();
    return to.isInteger(64) || to.isInteger(32) ? operand(0) : std::nullopt;
  }
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    Dims result;
    for (Value input : concat.getInputs()) {
      MaybeDims part = get(input);
      if (!part)
        return std::nullopt;
      result.append(*part);
    }
    return concat.getType().getRank() == 1 ? MaybeDims(result) : std::nullopt;
  }
  if (auto gather = dyn_cast<GatherOp>(op))
    return cast<RankedTensorType>(gather.getInput().getType()).getRank() == 1
               ? gatherRankOne(operand(0), operand(1))
               : std::nullopt;
  if (auto slice = dyn_cast<SliceOp>(op))
    return slice.getType().getRank() == 1 ? sliceRankOne(*this, slice) : std::nullopt;
  if (isa<ExpandOp>(op)) {
    MaybeDims input = operand(0);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (input && input->size() == 1)
      return Dims(type.getNumElements(), input->front());
    return input && static_cast<int64_t>(input->size()) == type.getNumElements() ? input
                                                                                 : std::nullopt;
  }
  if (isa<NegOp>(op))
    return binary(Dims{SymbolicDim(0)}, operand(0),
                  [](SymbolicDim a, SymbolicDim b) -> std::optional<SymbolicDim> { return a - b; });
  if (isa<AddOp>(op))
    return binary(operand(0), operand(1),
                  [](SymbolicDim a, SymbolicDim b) -> std::optional<SymbolicDim> { return a + b; });
  if (isa<SubOp>(op))
    return binary(operand(0), operand(1),
                  [](SymbolicDim a, SymbolicDim b) -> std::optional<SymbolicDim> { return a - b; });
  if (isa<MulOp>(op))
    return binary(operand(0), operand(1), multiply);
  if (isa<DivOp>(op))
    return binary(operand(0), operand(1), divide);
  if (isa<MaxOp, MinOp>(op))
    return binary(operand(0), operand(1),
                  [&](SymbolicDim a, SymbolicDim b) -> std::optional<SymbolicDim> {
                    auto sign = signOf(a - b);
                    if (!sign)
                      return std::nullopt;
                    return (*sign >= 0) == isa<MaxOp>(op) ? a : b;
                  });
  if (auto compareOp = dyn_cast<CompareOp>(op))
    return binary(operand(0), operand(1), [&](SymbolicDim a, SymbolicDim b) {
      return compare(a, b, compareOp.getPredicate());
    });
  if (isa<SelectOp>(op)) {
    MaybeDims condition = operand(0), onTrue = operand(1), onFalse = operand(2);
    if (!condition || !onTrue || !onFalse || !isStatic(*condition))
      return std::nullopt;
    size_t size = std::max({condition->size(), onTrue->size(), onFalse->size()});
    Dims result;
    for (size_t i = 0; i < size; ++i) {
      auto at = [&](const Dims &dims) { return dims[dims.size() == 1 ? 0 : i]; };
      result.push_back(at(*condition).constant ? at(*onTrue) : at(*onFalse));
    }
    return result;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    MaybeDims input = operand(0);
    if (!input || cast<RankedTensorType>(reduce.getInput().getType()).getRank() != 1)
      return std::nullopt;
    if (reduce.getKind() == ReduceKind::Prod) {
      auto all = product(*input);
      return all ? MaybeDims(Dims{*all}) : std::nullopt;
    }
    if (reduce.getKind() != ReduceKind::Sum)
      return std::nullopt;
    SymbolicDim sum;
    for (const SymbolicDim &dim : *input)
      sum = sum + dim;
    return Dims{sum};
  }
  return std::nullopt;
}

void SymbolicContents::visit(Operation *op) {
  if (op->getNumResults() != 1)
    return;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !type.hasStaticShape() || type.getNumElements() > maximumElements ||
      !type.getElementType().isIntOrIndex())
    return;
  MaybeDims contents = compute(op);
  if (contents && static_cast<int64_t>(contents->size()) == type.getNumElements())
    known[op->getResult(0)] = std::move(*contents);
}

} // namespace omnibal::specialization
