//===- LayoutChain.h - Composition of reshapes and transposes ----------------------------===//
#ifndef PASSES_RAISE_MATCH_LAYOUTCHAIN_H
#define PASSES_RAISE_MATCH_LAYOUTCHAIN_H

#include "passes/raise/match/Match.h"

namespace omnibal::raise {

/// A source tensor whose dimensions are split into factors, in row-major order, and the order and
/// grouping in which they form the target. Composes any chain of reshapes and transposes.
class LayoutChain {
public:
  explicit LayoutChain(llvm::ArrayRef<SymbolicDim> source);

  /// Regroups the factors into this shape; false if a factor would have to be split in a way that
  /// arithmetic on V and N cannot follow (the chain is then unchanged).
  bool reshape(llvm::ArrayRef<SymbolicDim> shape);
  void transpose(llvm::ArrayRef<int64_t> permutation);

  /// Builds at most reshape, transpose, reshape from `source`, and no op where nothing moves.
  mlir::Value emit(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value source) const;
  /// Number of ops that emit creates.
  int cost() const;

private:
  struct Factor {
    SymbolicDim size;
    int64_t sourceRank; ///< sorts factors by their place in the source
  };
  /// The chain has at most three steps; an empty shape or permutation is left out.
  struct Steps {
    std::optional<SymbolicShape> first;
    llvm::SmallVector<int64_t> permutation;
    std::optional<SymbolicShape> last;
    int count() const { return first.has_value() + !permutation.empty() + last.has_value(); }
  };
  Steps steps() const;
  std::optional<Steps> onTargetDims() const;
  std::optional<Steps> onSourceDims() const;
  Steps onMergedFactors() const;
  SymbolicShape targetShape() const;

  SymbolicShape source;
  /// Target dimensions, each a list of factors without those of size 1.
  llvm::SmallVector<llvm::SmallVector<Factor>> target;
};

/// Returns the value by the shortest chain of reshapes and transposes from the root of its own, or
/// itself if that is not shorter.
mlir::Value shortenLayout(mlir::OpBuilder &builder, mlir::Value value);

} // namespace omnibal::raise
#endif // PASSES_RAISE_MATCH_LAYOUTCHAIN_H
