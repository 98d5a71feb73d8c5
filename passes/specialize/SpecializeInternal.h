//===- SpecializeInternal.h - Parts of specialization ------------------------------------===//
#ifndef PASSES_SPECIALIZE_SPECIALIZEINTERNAL_H
#define PASSES_SPECIALIZE_SPECIALIZEINTERNAL_H

#include "mlir/IR/PatternMatch.h"
#include "passes/specialize/Specialize.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::specialization {

/// Gives every function argument its type in (V, N), or replaces it by a constant.
llvm::LogicalResult bindInputs(mlir::func::FuncOp function, const SpecializeOptions &options);

/// Makes writes of rows by a mask independent of how many rows the mask has.
void rewriteMaskedWrites(mlir::func::FuncOp function);

/// Contents of small integer tensors, affine in (V, N), flattened row-major.
class SymbolicContents {
public:
  std::optional<SymbolicShape> get(mlir::Value value) const;
  /// Derives the contents of the op's result from those of its operands, where there is a rule.
  void visit(mlir::Operation *op);
  void set(mlir::Value value, SymbolicShape contents) { known[value] = std::move(contents); }
  void forget(mlir::Value value) { known.erase(value); }

private:
  std::optional<SymbolicShape> compute(mlir::Operation *op) const;
  llvm::DenseMap<mlir::Value, SymbolicShape> known;
};

/// Replaces an op whose operands are all constants by constants, which it returns; none if the op
/// is not foldable.
llvm::FailureOr<llvm::SmallVector<mlir::Operation *>>
foldConstant(mlir::RewriterBase &rewriter, mlir::Operation *op, int64_t limitElements);

/// Rewrites an op whose types are specialized into its form without shape operands, or removes it
/// where it does nothing. May erase `op`.
llvm::LogicalResult rewriteShapes(mlir::RewriterBase &rewriter, mlir::Operation *op,
                                  const SymbolicContents &contents);

} // namespace omnibal::specialization
#endif // PASSES_SPECIALIZE_SPECIALIZEINTERNAL_H
