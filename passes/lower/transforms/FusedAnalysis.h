//===- FusedAnalysis.h - In which loops over a row's columns a fused group runs ----------===//
//
// This analysis is the same for every target: a row is passed over once for each level of row
// reductions (a norm: once for the statistics, once for the result).
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_TRANSFORMS_FUSEDANALYSIS_H
#define PASSES_LOWER_TRANSFORMS_FUSEDANALYSIS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/lower/transforms/FusedKernel.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::lower {

class FusedAnalysis {
public:
  explicit FusedAnalysis(const FusedKernel &kernel);

  struct Info {
    Extent2D extent = Extent2D::Single;
    int level = 0; ///< number of row reductions that must be complete first
  };

  /// The value behind reshapes and expansions.
  static mlir::Value behind(mlir::Value value);
  Info of(mlir::Value value) const { return infos.lookup(behind(value)); }
  mlir::OperandRange results() const;
  mlir::Value resultBehind(unsigned index) const { return behind(results()[index]); }
  /// `value` is computed in the loop of `phase` too.
  void addRoot(mlir::Value value, int phase);
  /// The row reductions whose input is computed in a phase.
  llvm::ArrayRef<ReduceOp> reductionsOf(int phase) const;
  size_t reductionCount() const;

  std::vector<llvm::SmallVector<mlir::Value>> phases; ///< full values computed in each column loop

private:
  void addRowRoots(mlir::Value value);

  FusedOp fused;
  llvm::DenseMap<mlir::Value, Info> infos;
  llvm::SmallDenseSet<mlir::Value> visited;
  std::vector<llvm::SmallVector<ReduceOp>> reductions;
};

/// Sizes and strides as values of a kernel's code.
struct KernelSizes {
  llvm::SmallVector<SymbolicDim> dims;   ///< FusedKernel::runtimeSizes()
  llvm::SmallVector<mlir::Value> values; ///< those, in their order

  mlir::Value of(mlir::ImplicitLocOpBuilder &b, const SymbolicDim &dim) const;
  /// First element of the row's data in elements from the base; null: the base itself.
  mlir::Value rowOffset(mlir::ImplicitLocOpBuilder &b, const RowAddress &address,
                        mlir::Value row) const;
};

/// What a reduction over nothing gives.
mlir::TypedAttr neutralElement(ReduceKind kind, mlir::Type element);
/// One step of a reduction, on scalars or vectors.
mlir::Value combine(mlir::ImplicitLocOpBuilder &b, ReduceKind kind, mlir::Value x, mlir::Value y);

} // namespace omnibal::lower
#endif // PASSES_LOWER_TRANSFORMS_FUSEDANALYSIS_H
