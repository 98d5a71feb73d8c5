//===- Match.h - Small questions about values --------------------------------------------===//
#ifndef PASSES_RAISE_MATCH_MATCH_H
#define PASSES_RAISE_MATCH_MATCH_H

#include "dialects/omnibal/ir/Builders.h"
#include "passes/specialize/Specialize.h"

namespace omnibal::raise {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
/// Shape of a value of form S; every dimension is known there.
SymbolicShape shapeOf(mlir::Value value);
inline int64_t rankOf(mlir::Value value) { return typeOf(value).getRank(); }
/// An axis attribute that may count from the end.
inline bool isLastAxis(int64_t axis, int64_t rank) { return axis == -1 || axis == rank - 1; }
inline bool isTokenDim(const SymbolicDim &dim) { return dim.perToken != 0; }
/// Whether an axis, which may count from the end, goes along the tokens.
bool isAlongTokens(mlir::Value value, int64_t axis);

/// Returns the number that a constant holds in every element, also behind reshape, expand and cast.
std::optional<double> splatConstant(mlir::Value value);
/// True if the value is that number, up to float32 rounding.
bool isConstant(mlir::Value value, double expected, double relative = 1e-6);

/// Returns the operands of a commutative op as (other, constant), in whichever order they are.
template <typename OpT>
std::optional<std::pair<mlir::Value, double>> matchWithConstant(mlir::Value value) {
  auto op = value.getDefiningOp<OpT>();
  if (!op)
    return std::nullopt;
  if (auto constant = splatConstant(op.getRhs()))
    return std::pair(op.getLhs(), *constant);
  if (auto constant = splatConstant(op.getLhs()))
    return std::pair(op.getRhs(), *constant);
  return std::nullopt;
}

/// A product: the factors that are not constants, in order, and the product of the constants.
/// Goes through products with one use only, except at `value` itself.
struct Product {
  llvm::SmallVector<mlir::Value, 4> factors;
  double constant = 1;
};
Product productOf(mlir::Value value);

/// Returns what the value is a reshape of, or itself.
mlir::Value stripReshapes(mlir::Value value);

/// Returns x if the value is x * x.
mlir::Value matchSquare(mlir::Value value);

/// True if the value is computed from parameters and constants alone (no batch, no graph input).
bool isParameterLike(mlir::Value value);
/// True if the value is parameter-like (isParameterLike) and reads a parameter.
bool readsParameter(mlir::Value value);

/// Returns the value with another shape, or itself if it has that shape.
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                      llvm::ArrayRef<SymbolicDim> shape);
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                       llvm::ArrayRef<int64_t> permutation);
/// Casts to the element type; does nothing if the value has it already.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                   mlir::Type elementType);

/// Calls `visit` for every op of the function's block in order. `visit` may replace the op but not
/// erase it; dead ops are removed when all are visited.
void forEachOp(mlir::func::FuncOp function, llvm::function_ref<void(mlir::Operation *)> visit);

} // namespace omnibal::raise
#endif // PASSES_RAISE_MATCH_MATCH_H
