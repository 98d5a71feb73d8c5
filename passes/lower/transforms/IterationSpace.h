//===- IterationSpace.h - How ops see the rows x cols of a fused kernel ------------------===//
//
// A fused kernel runs over rows x cols, cols static and innermost. A value of a group is one number
// an element, a row, a column, or one for all. Which of them follows from its number of elements,
// so that reshapes between ops of a group cost nothing.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_TRANSFORMS_ITERATIONSPACE_H
#define PASSES_LOWER_TRANSFORMS_ITERATIONSPACE_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal::lower {

struct IterationSpace {
  SymbolicDim rows = 1;
  int64_t cols = 1;
  bool operator==(const IterationSpace &other) const {
    return rows == other.rows && cols == other.cols;
  }
};

enum class Extent2D {
  None,   ///< does not fit the space
  Full,   ///< one number an element
  PerRow, ///< one a row
  PerCol, ///< one a column
  Single  ///< one
};

inline bool allOnes(llvm::ArrayRef<SymbolicDim> dims) {
  return llvm::all_of(dims, [](const SymbolicDim &dim) { return dim.isOne(); });
}

/// Returns what a value of this shape is in `space`.
Extent2D classify(llvm::ArrayRef<SymbolicDim> shape, const IterationSpace &space);

/// How an op sees its operand: like classify, but by alignment with the result; `Partial` = full in
/// some row dimensions and broadcast in others (only operands from outside the group can be so).
struct OperandUse {
  Extent2D extent = Extent2D::None;
  bool partial = false;
  llvm::SmallVector<SymbolicDim, 4> rows = {}; ///< of a partial operand: its row dimensions
  bool operator==(const OperandUse &other) const {
    return extent == other.extent && partial == other.partial && rows == other.rows;
  }
};

/// How `op` fits a space.
struct OpFit {
  Extent2D result = Extent2D::None;
  bool columnReduction = false; ///< the result is a sum over all rows: it can only leave the group
  llvm::SmallVector<OperandUse, 4> operands;
  llvm::SmallVector<SymbolicDim, 4> rowDims; ///< of an op with a partial operand
};

/// True for ops that can be part of a fused group.
bool isFusible(mlir::Operation *op);
/// True for ops that compute nothing: reshape, expand.
bool isFree(mlir::Operation *op);
/// Returns how `op` runs in `space`, or none if it cannot.
std::optional<OpFit> fit(mlir::Operation *op, const IterationSpace &space);
/// Returns the spaces in which the op computes one number per element (at least one for an
/// elementwise op).
llvm::SmallVector<IterationSpace> candidateSpaces(mlir::Operation *op);

} // namespace omnibal::lower
#endif // PASSES_LOWER_TRANSFORMS_ITERATIONSPACE_H
