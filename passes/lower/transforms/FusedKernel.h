//===- FusedKernel.h - One generated kernel: a fused group and how it meets memory -------===//
#ifndef PASSES_LOWER_TRANSFORMS_FUSEDKERNEL_H
#define PASSES_LOWER_TRANSFORMS_FUSEDKERNEL_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/lower/transforms/IterationSpace.h"
#include <string>
#include <vector>

namespace omnibal::lower {

/// Says where an operand's data for row r lies: the row number is split into digits (outermost
/// first; the sizes of all except the first matter), each with a stride in elements. Without digits
/// every row sees the same data.
struct RowAddress {
  struct Digit {
    SymbolicDim size, stride;
  };
  llvm::SmallVector<Digit, 3> digits;
};

/// An operand of a fused kernel. Columns have unit stride.
struct FusedAccess {
  Extent2D extent = Extent2D::Full;
  RowAddress rows;
  /// Result only: a sum over rows; the operand is an array of partial rows, one a task.
  bool columnReduction = false;
  /// bfloat16 in memory (an f32 in the kernel).
  bool half = false;
  /// The first element's number is a multiple of this power of two (GPU kernels; roots are aligned
  /// to 64 bytes).
  int64_t alignment = 16;
};

struct FusedKernel {
  FusedOp op;
  std::vector<FusedAccess> inputs, outputs;
  int64_t grain = 1; ///< rows a task; part of the code only with a column reduction on the host
  bool gpu = false;

  bool hasColumnReduction() const;
  /// Sizes and strides that are known at run time only, in the order of the `sizes` argument.
  llvm::SmallVector<SymbolicDim> runtimeSizes() const;
  /// All that the code depends on, as text: equal keys, equal code.
  std::string key() const;
};

/// Says how the body sees input number `index`. For a partial operand, `rowDims` are the row
/// dimensions of the result and `operandDims` the operand's dimensions that move with them (-1:
/// broadcast).
struct InputShape {
  Extent2D extent = Extent2D::None;
  bool partial = false;
  llvm::SmallVector<SymbolicDim, 4> rowDims;
  llvm::SmallVector<int, 4> operandDims;
};
InputShape describeInput(FusedOp op, unsigned index);
/// Extent of result `index`, and whether it is a sum over rows.
FusedAccess describeOutput(FusedOp op, unsigned index);
/// Returns the iteration space of the fused op.
IterationSpace spaceOf(FusedOp op);

/// Appends the kernel as function `symbol` (ABI: docs/kernels.md, `fused`) to `module`.
llvm::LogicalResult emitFusedKernel(const FusedKernel &kernel, llvm::StringRef symbol,
                                    mlir::ModuleOp module);
/// Replaces math ops by arithmetic that vectorizes, for float32 (about 2 ulp), in the whole module.
llvm::LogicalResult expandMath(mlir::ModuleOp module);

} // namespace omnibal::lower
#endif // PASSES_LOWER_TRANSFORMS_FUSEDKERNEL_H
