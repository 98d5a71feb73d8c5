//===- ShapeInference.cpp - Helpers of the shape rules -----------------------------------===//
#include "dialects/omnibal/ir/ShapeInference.h"
#include "dialects/omnibal/ir/Builders.h"
#include "llvm/ADT/TypeSwitch.h"
#include <array>
#include <map>

using namespace mlir;
using namespace omnibal;

std::optional<SymbolicShape> omnibal::broadcast(ArrayRef<SymbolicDim> a, ArrayRef<SymbolicDim> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SymbolicShape result(a.begin(), a.end());
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    SymbolicDim &dim = result[lead + i];
    if (dim == b[i] || b[i].isOne())
      continue;
    if (!dim.isOne())
      return std::nullopt;
    dim = b[i];
  }
  return result;
}

std::string omnibal::toString(ArrayRef<SymbolicDim> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + toString(shape[i]);
  return text + "]";
}

namespace {
/// Coefficients of V^a N^b v^c n^d.
using Polynomial = std::map<std::array<int, 4>, int64_t>;

Polynomial productPolynomial(ArrayRef<SymbolicDim> dims) {
  Polynomial result{{{0, 0, 0, 0}, 1}};
  for (const SymbolicDim &dim : dims) {
    Polynomial next;
    for (auto [power, c] : result) {
      if (dim.constant != 0)
        next[power] += c * dim.constant;
      const int64_t factors[] = {dim.perTile, dim.perToken, dim.perOwnTile, dim.perOwnToken};
      for (size_t symbol = 0; symbol < std::size(factors); ++symbol) {
        if (factors[symbol] == 0)
          continue;
        auto higher = power;
        ++higher[symbol];
        next[higher] += c * factors[symbol];
      }
    }
    std::erase_if(next, [](const auto &term) { return term.second == 0; });
    result = std::move(next);
  }
  return result;
}
} // namespace

bool omnibal::sameElementCount(ArrayRef<SymbolicDim> a, ArrayRef<SymbolicDim> b) {
  return productPolynomial(a) == productPolynomial(b);
}

SymbolicDim omnibal::affineProduct(ArrayRef<SymbolicDim> dims, int64_t *squaredTokens,
                                   int64_t *squaredTiles) {
  Polynomial terms = productPolynomial(dims);
  if (squaredTokens)
    *squaredTokens = terms[{0, 2, 0, 0}];
  if (squaredTiles)
    *squaredTiles = terms[{2, 0, 0, 0}];
  return {terms[{0, 0, 0, 0}], terms[{1, 0, 0, 0}], terms[{0, 1, 0, 0}], terms[{0, 0, 1, 0}],
          terms[{0, 0, 0, 1}]};
}

std::optional<SymbolicDim> omnibal::divideProducts(ArrayRef<SymbolicDim> whole,
                                                   ArrayRef<SymbolicDim> part) {
  // Equal factors cancel first, so that N * N / N stays affine.
  SymbolicShape left(whole.begin(), whole.end()), right;
  for (const SymbolicDim &dim : part) {
    auto it = llvm::find(left, dim);
    if (it != left.end() && dim != SymbolicDim(0))
      left.erase(it);
    else
      right.push_back(dim);
  }
  auto numerator = product(left), denominator = product(right);
  if (!numerator || !denominator || *denominator == SymbolicDim(0))
    return std::nullopt;
  return divideExactly(*numerator, *denominator);
}

bool omnibal::isAlwaysAtMost(const SymbolicDim &a, const SymbolicDim &b) {
  SymbolicDim d = b - a;
  return d.perTile >= 0 && d.perToken >= 0 && d.perOwnTile >= 0 && d.perOwnToken >= 0 &&
         d.evaluate(0, 1) >= 0;
}

std::optional<SymbolicShape> omnibal::getResultShape(Operation *op, unsigned i) {
  return getSymbolicShape(cast<RankedTensorType>(op->getResult(i).getType()));
}

std::optional<SymbolicShape> omnibal::getConstantContents(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return std::nullopt;
  auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue());
  if (!elements || elements.getNumElements() > 4096)
    return std::nullopt;
  SymbolicShape shape;
  bool isUnsigned =
      elements.getElementType().isInteger(1) || elements.getElementType().isUnsignedInteger();
  for (const APInt &element : elements.getValues<APInt>())
    shape.push_back(isUnsigned ? int64_t(element.getZExtValue()) : element.getSExtValue());
  return shape;
}

bool omnibal::shapeDependsOnContents(Operation *op, unsigned operand) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<ReshapeOp, SqueezeOp, UnsqueezeOp, ExpandOp, TileOp, ReduceOp, SliceOp>(
          [&](auto) { return operand > 0; })
      .Case<RangeOp, NonZeroOp>([](auto) { return true; })
      .Default([](Operation *) { return false; });
}

FailureOr<SymbolicShape> omnibal::requireContents(Operation *op, ContentsFn contents,
                                                  unsigned operand, StringRef name) {
  if (auto known = contents(operand))
    return *known;
  return op->emitOpError() << "needs the value of '" << name
                           << "' at compile time; it depends on data";
}

FailureOr<SmallVector<int64_t>> omnibal::requireStatic(Operation *op, ContentsFn contents,
                                                       unsigned operand, StringRef name) {
  FailureOr<SymbolicShape> known = requireContents(op, contents, operand, name);
  if (failed(known))
    return failure();
  SmallVector<int64_t> values;
  for (const SymbolicDim &dim : *known) {
    if (!dim.isStatic())
      return op->emitOpError() << "needs '" << name << "' to be constant, not " << toString(dim);
    values.push_back(dim.constant);
  }
  return values;
}

FailureOr<int64_t> omnibal::normalizeAxis(Operation *op, int64_t axis, int64_t rank) {
  int64_t result = axis < 0 ? axis + rank : axis;
  if (result < 0 || result >= rank)
    return op->emitOpError() << "axis " << axis << " is out of range for rank " << rank;
  return result;
}

LogicalResult omnibal::normalizeAxes(Operation *op, SmallVectorImpl<int64_t> &axes, int64_t rank) {
  for (int64_t &axis : axes) {
    FailureOr<int64_t> normal = normalizeAxis(op, axis, rank);
    if (failed(normal))
      return failure();
    axis = *normal;
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return op->emitOpError() << "names an axis twice";
  return success();
}

namespace {
/// Operand shapes, if all are known.
std::optional<SmallVector<SymbolicShape>> operandShapes(Operation *op) {
  SmallVector<SymbolicShape> shapes;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    auto shape = type ? getSymbolicShape(type) : std::nullopt;
    if (!shape)
      return std::nullopt;
    shapes.push_back(*shape);
  }
  return shapes;
}
} // namespace

LogicalResult omnibal::inferResultTypes(Operation *op) {
  auto interface = dyn_cast<ShapeInferenceOpInterface>(op);
  if (!interface)
    return op->emitOpError("has no shape rule");
  auto shapes = operandShapes(op);
  if (!shapes)
    return op->emitOpError("has an operand whose shape is not known");
  auto contents = [&](unsigned i) { return getConstantContents(op->getOperand(i)); };
  SmallVector<SymbolicShape> results;
  if (failed(interface.inferSymbolicShapes(*shapes, contents, results)))
    return failure();
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Type element = inferElementType(op, i);
    if (!element)
      element = cast<RankedTensorType>(result.getType()).getElementType();
    result.setType(makeTensorType(op->getContext(), results[i], element));
  }
  return success();
}

LogicalResult omnibal::detail::verifyShapesAndTypes(Operation *op) {
  if (failed(verifyElementTypes(op)))
    return failure();
  // Straight after import shapes may still be open: specialization closes them and verifies again.
  auto shapes = operandShapes(op);
  if (!shapes)
    return success();
  auto contents = [&](unsigned i) { return getConstantContents(op->getOperand(i)); };
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (shapeDependsOnContents(op, i) && !contents(i))
      return success();
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    if (!getResultShape(op, i))
      return success();
  SmallVector<SymbolicShape> results;
  if (failed(cast<ShapeInferenceOpInterface>(op).inferSymbolicShapes(*shapes, contents, results)))
    return failure();
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    SymbolicShape declared = *getResultShape(op, i);
    if (declared != results[i]) // shape_c1
      return op->emitOpError() << "result " << i << " has shape " << toString(declared)
                               << " but its operands give " << toString(results[i]);
  }
  return success();
}
