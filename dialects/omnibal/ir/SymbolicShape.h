//===- SymbolicShape.h - Sizes affine in V (tiles) and N (tokens) ------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_SYMBOLICSHAPE_H
#define DIALECTS_OMNIBAL_IR_SYMBOLICSHAPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace omnibal {

/// A dimension of size constant + perTile * V + perToken * N.
struct SymbolicDim {
  int64_t constant = 0, perTile = 0, perToken = 0;
  SymbolicDim() = default;
  SymbolicDim(int64_t constant, int64_t perTile = 0, int64_t perToken = 0)
      : constant(constant), perTile(perTile), perToken(perToken) {}
  static SymbolicDim tiles() { return {0, 1, 0}; }
  static SymbolicDim tokens() { return {0, 0, 1}; }
  bool isStatic() const { return perTile == 0 && perToken == 0; }
  bool isOne() const { return isStatic() && constant == 1; }
  int64_t evaluate(int64_t tiles, int64_t tokens) const {
    return constant + perTile * tiles + perToken * tokens;
  }
  bool operator==(const SymbolicDim &o) const {
    return constant == o.constant && perTile == o.perTile && perToken == o.perToken;
  }
  bool operator!=(const SymbolicDim &o) const { return !(*this == o); }
  SymbolicDim operator+(const SymbolicDim &o) const {
    return {constant + o.constant, perTile + o.perTile, perToken + o.perToken};
  }
  SymbolicDim operator-(const SymbolicDim &o) const {
    return {constant - o.constant, perTile - o.perTile, perToken - o.perToken};
  }
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
/// Returns a text such as "17*V", "N", "4*V + N" or "48".
std::string toString(const SymbolicDim &dim);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_SYMBOLICSHAPE_H
