//===- ShapeInference.h - Helpers of the shape rules (internal to the dialect) -----------===//
#ifndef DIALECTS_OMNIBAL_IR_SHAPEINFERENCE_H
#define DIALECTS_OMNIBAL_IR_SHAPEINFERENCE_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal {

using ContentsFn = llvm::function_ref<std::optional<SymbolicShape>(unsigned)>;
using ShapeList = llvm::ArrayRef<SymbolicShape>;
using ShapeResults = llvm::SmallVectorImpl<SymbolicShape>;

/// Returns the NumPy broadcast of two shapes, or none if two dimensions differ and neither is 1.
std::optional<SymbolicShape> broadcast(llvm::ArrayRef<SymbolicDim> a,
                                       llvm::ArrayRef<SymbolicDim> b);
/// Returns a text such as "[N, 4]" for messages.
std::string toString(llvm::ArrayRef<SymbolicDim> shape);

/// True if both shapes have the same number of elements for every V and N.
bool sameElementCount(llvm::ArrayRef<SymbolicDim> a, llvm::ArrayRef<SymbolicDim> b);
/// Returns d with product(whole) = d * product(part), if there is such an affine d.
std::optional<SymbolicDim> divideProducts(llvm::ArrayRef<SymbolicDim> whole,
                                          llvm::ArrayRef<SymbolicDim> part);
/// Returns the affine part of the product of all dimensions and, if wanted, the coefficient of N^2.
/// Other terms are dropped: in raised graphs a tile attends to itself, and tiles never meet tokens
/// in one product.
SymbolicDim affineProduct(llvm::ArrayRef<SymbolicDim> dims, int64_t *squaredTokens = nullptr,
                          int64_t *squaredTiles = nullptr);
/// a <= b for every V >= 0 and N >= 1 (a micro-batch holds at least one token).
bool isAlwaysAtMost(const SymbolicDim &a, const SymbolicDim &b);

/// Shape of result i's type, if it is completely known.
std::optional<SymbolicShape> getResultShape(mlir::Operation *op, unsigned i = 0);
/// Elements of a constant integer value with at most 4096 elements.
std::optional<SymbolicShape> getConstantContents(mlir::Value value);
/// Returns whether the contents of this operand must be known to infer shapes (reshape's shape,
/// ...).
bool shapeDependsOnContents(mlir::Operation *op, unsigned operand);

/// Returns contents as plain integers; reports a diagnostic if they are not known or not static.
llvm::FailureOr<llvm::SmallVector<int64_t>> requireStatic(mlir::Operation *op, ContentsFn contents,
                                                          unsigned operand, llvm::StringRef name);
/// Returns contents; reports a diagnostic if they are not known.
llvm::FailureOr<SymbolicShape> requireContents(mlir::Operation *op, ContentsFn contents,
                                               unsigned operand, llvm::StringRef name);
/// Returns the axis in [0, rank) from one that may count from the end; reports a diagnostic if it
/// is out of range.
llvm::FailureOr<int64_t> normalizeAxis(mlir::Operation *op, int64_t axis, int64_t rank);
llvm::LogicalResult normalizeAxes(mlir::Operation *op, llvm::SmallVectorImpl<int64_t> &axes,
                                  int64_t rank);

/// Returns the element type that a result must have, from operands and attributes; null: any type.
mlir::Type inferElementType(mlir::Operation *op, unsigned result);
/// Checks the element type rules of the op (TypeRules.cpp).
llvm::LogicalResult verifyElementTypes(mlir::Operation *op);

} // namespace omnibal

/// Begins a shape rule.
#define OMNIBAL_SHAPE_RULE(OP)                                                                     \
  llvm::LogicalResult omnibal::OP::inferSymbolicShapes(                                            \
      llvm::ArrayRef<omnibal::SymbolicShape> shapes, omnibal::ContentsFn contents,                 \
      llvm::SmallVectorImpl<omnibal::SymbolicShape> &results)

#endif // DIALECTS_OMNIBAL_IR_SHAPEINFERENCE_H
