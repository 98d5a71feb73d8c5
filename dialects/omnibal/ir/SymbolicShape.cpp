//===- SymbolicShape.cpp -----------------------------------------------------------------===//
#include "dialects/omnibal/ir/SymbolicShape.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace omnibal {

std::optional<SymbolicDim> multiply(const SymbolicDim &a, const SymbolicDim &b) {
  const SymbolicDim &factor = a.isStatic() ? a : b;
  const SymbolicDim &other = a.isStatic() ? b : a;
  if (!factor.isStatic())
    return std::nullopt;
  return other.times(factor.constant);
}

std::optional<SymbolicDim> SymbolicDim::over(int64_t divisor) const {
  for (int64_t each : numbers())
    if (divisor == 0 || each % divisor != 0)
      return std::nullopt;
  return SymbolicDim(constant / divisor, perTile / divisor, perToken / divisor,
                     perOwnTile / divisor, perOwnToken / divisor);
}

std::optional<SymbolicDim> divideExactly(const SymbolicDim &a, const SymbolicDim &b) {
  if (b.isStatic())
    return a.over(b.constant);
  // a must be an integer multiple of b.
  const int64_t q = b.perToken      ? a.perToken / b.perToken
                    : b.perTile     ? a.perTile / b.perTile
                    : b.perOwnToken ? a.perOwnToken / b.perOwnToken
                                    : a.perOwnTile / b.perOwnTile;
  if (multiply(b, q) != a)
    return std::nullopt;
  return SymbolicDim(q);
}

std::optional<SymbolicDim> product(ArrayRef<SymbolicDim> dims) {
  std::optional<SymbolicDim> result = SymbolicDim(1);
  for (const SymbolicDim &dim : dims) {
    result = multiply(*result, dim);
    if (!result)
      return std::nullopt;
  }
  return result;
}

namespace {
std::optional<SymbolicDim> fromAffine(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return SymbolicDim(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    const SymbolicDim symbols[] = {SymbolicDim::tiles(), SymbolicDim::tokens(),
                                   SymbolicDim::ownTiles(), SymbolicDim::ownTokens()};
    if (dim.getPosition() >= std::size(symbols))
      return std::nullopt;
    return symbols[dim.getPosition()];
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  auto lhs = fromAffine(binary.getLHS()), rhs = fromAffine(binary.getRHS());
  if (!lhs || !rhs)
    return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add)
    return *lhs + *rhs;
  if (binary.getKind() == AffineExprKind::Mul)
    return multiply(*lhs, *rhs);
  return std::nullopt;
}
} // namespace

std::optional<SymbolicShape> getSymbolicShape(RankedTensorType type) {
  SymbolicShape shape;
  auto encoding = dyn_cast_or_null<AffineMapAttr>(type.getEncoding());
  if (encoding && encoding.getValue().getNumResults() != static_cast<unsigned>(type.getRank()))
    return std::nullopt;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (!type.isDynamicDim(i)) {
      shape.push_back(type.getDimSize(i));
      continue;
    }
    if (!encoding)
      return std::nullopt;
    auto dim = fromAffine(encoding.getValue().getResult(i));
    if (!dim)
      return std::nullopt;
    shape.push_back(*dim);
  }
  return shape;
}

RankedTensorType makeTensorType(MLIRContext *context, ArrayRef<SymbolicDim> shape,
                                Type elementType) {
  SmallVector<int64_t> sizes;
  SmallVector<AffineExpr> exprs;
  bool dynamic = false, own = false;
  for (const SymbolicDim &dim : shape) {
    dynamic |= !dim.isStatic();
    own |= dim.isOwn();
    sizes.push_back(dim.isStatic() ? dim.constant : ShapedType::kDynamic);
    exprs.push_back(getAffineDimExpr(0, context) * dim.perTile +
                    getAffineDimExpr(1, context) * dim.perToken +
                    getAffineDimExpr(2, context) * dim.perOwnTile +
                    getAffineDimExpr(3, context) * dim.perOwnToken + dim.constant);
  }
  Attribute encoding;
  if (dynamic)
    encoding = AffineMapAttr::get(AffineMap::get(own ? 4 : 2, 0, exprs, context));
  return RankedTensorType::get(sizes, elementType, encoding);
}

std::string toString(const SymbolicDim &dim) {
  std::string text;
  auto add = [&](int64_t coefficient, const char *symbol) {
    if (coefficient == 0)
      return;
    if (!text.empty())
      text += " + ";
    if (!*symbol)
      text += std::to_string(coefficient);
    else
      text += (coefficient == 1 ? "" : std::to_string(coefficient) + "*") + symbol;
  };
  add(dim.perTile, "V");
  add(dim.perToken, "N");
  add(dim.perOwnTile, "v");
  add(dim.perOwnToken, "n");
  add(dim.constant, "");
  return text.empty() ? "0" : text;
}

} // namespace omnibal
