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

/// The number that a constant holds in every element, also behind reshape, expand and cast.
std::optional<double> splatConstant(mlir::Value value);
/// True if the value is that number, up to float32 rounding.
bool isConstant(mlir::Value value, double expected, double relative = 1e-6);

/// Operands of a commutative op as (other, constant), whichever way round they are.
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

/// x if the value is x * x.
mlir::Value matchSquare(mlir::Value value);

/// True if the value is computed from parameters and constants alone (no batch, no graph input).
bool isParameterLike(mlir::Value value);
/// As isParameterLike, and a parameter is among them.
bool readsParameter(mlir::Value value);

/// The value with another shape; itself if it has it.
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                      llvm::ArrayRef<SymbolicDim> shape);
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                       llvm::ArrayRef<int64_t> permutation);
/// Cast to the element type, nothing where it is that already.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                   mlir::Type elementType);

/// Calls `visit` for every op of the function's block in order. The op may be replaced but not
/// erased by `visit`; dead ops go when all are visited.
void forEachOp(mlir::func::FuncOp function, llvm::function_ref<void(mlir::Operation *)> visit);

} // namespace omnibal::raise
#endif // PASSES_RAISE_MATCH_MATCH_H
