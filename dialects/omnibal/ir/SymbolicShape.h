//===- SymbolicShape.h - Sizes affine in tiles and tokens ---------------------------------===//
//
// Dimensions are affine in V and N, the tiles and tokens of a micro-batch, and in the functions of
// a stage's parts also in v and n, as many of them as the part has.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_SYMBOLICSHAPE_H
#define DIALECTS_OMNIBAL_IR_SYMBOLICSHAPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "runtime/support/Types.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace omnibal {

/// A dimension of size constant + perTile * V + perToken * N + perOwnTile * v + perOwnToken * n.
struct SymbolicDim : rt::Extent {
  SymbolicDim() = default;
  SymbolicDim(int64_t constant, int64_t perTile = 0, int64_t perToken = 0, int64_t perOwnTile = 0,
              int64_t perOwnToken = 0)
      : Extent{constant, perTile, perToken, perOwnTile, perOwnToken} {}
  SymbolicDim(const rt::Extent &extent) : Extent(extent) {}
  static SymbolicDim tiles() { return {0, 1}; }
  static SymbolicDim tokens() { return {0, 0, 1}; }
  static SymbolicDim ownTiles() { return {0, 0, 0, 1}; }
  static SymbolicDim ownTokens() { return {0, 0, 0, 0, 1}; }
  bool operator==(const SymbolicDim &o) const { return Extent::operator==(o); }
  bool isOne() const { return isStatic() && constant == 1; }
  /// The exact quotient; none where a coefficient is no multiple, or for divisor 0.
  std::optional<SymbolicDim> over(int64_t divisor) const;
  SymbolicDim operator+(const SymbolicDim &o) const { return plus(o); }
  SymbolicDim operator-(const SymbolicDim &o) const { return *this + o.times(-1); }
};
using SymbolicShape = llvm::SmallVector<SymbolicDim, 4>;

/// Returns the product if it is affine (at most one factor is not static), else none.
std::optional<SymbolicDim> multiply(const SymbolicDim &a, const SymbolicDim &b);
/// Returns the exact quotient if it is affine with integer coefficients, else none (also for
/// divisor 0).
std::optional<SymbolicDim> divideExactly(const SymbolicDim &a, const SymbolicDim &b);
/// Returns the product of all dimensions (1 for an empty list), if it is affine.
std::optional<SymbolicDim> product(llvm::ArrayRef<SymbolicDim> dims);

/// Returns the dimensions of a type, or none if a dynamic dimension has no expression in the
/// encoding.
std::optional<SymbolicShape> getSymbolicShape(mlir::RankedTensorType type);
/// Returns a tensor type with these dimensions; it has an encoding only if a dimension is dynamic.
mlir::RankedTensorType makeTensorType(mlir::MLIRContext *context, llvm::ArrayRef<SymbolicDim> shape,
                                      mlir::Type elementType);
/// Returns a text such as "17*V", "N", "4*V + N", "2*n" or "48".
std::string toString(const SymbolicDim &dim);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_SYMBOLICSHAPE_H
