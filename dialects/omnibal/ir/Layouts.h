//===- Layouts.h - What parts hold of a value, and what moves between layouts ----------------===//
#ifndef DIALECTS_OMNIBAL_IR_LAYOUTS_H
#define DIALECTS_OMNIBAL_IR_LAYOUTS_H

#include "dialects/omnibal/ir/SymbolicShape.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"

namespace omnibal {

/// Returns the units of a split as a size: a number, V or N.
SymbolicDim unitsOf(LayoutAttr split);
/// Returns how often the split's row of units stands in its dimension (the elements in front of a
/// unit), or none where units and inner do not divide the dimension or there is none.
std::optional<SymbolicDim> outerOf(LayoutAttr split, llvm::ArrayRef<SymbolicDim> shape);

/// Returns the shape of what `part` of `parts` holds of a value of this shape; none where a split
/// does not fit.
std::optional<SymbolicShape> partShape(llvm::ArrayRef<SymbolicDim> shape, LayoutAttr layout,
                                       int64_t parts, int64_t part);
/// The same for a type that has its shape.
mlir::RankedTensorType partType(mlir::RankedTensorType type, LayoutAttr layout, int64_t parts,
                                int64_t part);
/// The split of the outermost dimension that grows with the micro-batch, where it is rows of tokens
/// or of tiles; else null.
LayoutAttr rowSplitOf(mlir::RankedTensorType type);

/// What parts do when a value moves.
enum class Move {
  None,          ///< each part has what it needs
  KeepFirst,     ///< part 0 keeps its value, the others have zeros
  Take,          ///< each part takes its units of what it has
  Place,         ///< zeros around each part's units
  AllGather,     ///< each part gets the units of all
  ReduceScatter, ///< each part gets the sums of its units
  AllReduce,     ///< each part gets all sums
  AllToAll       ///< units of one dimension become units of another
};
Move moveOf(LayoutAttr from, LayoutAttr to);
/// Whether parts send to each other.
bool sends(Move move);

/// Returns how many elements `part` sends to others when a value of this shape moves; sums of an
/// AllReduce are cut into shares of all elements. Layouts fit the shape, and units are numbers.
int64_t sentElements(llvm::ArrayRef<int64_t> shape, LayoutAttr from, LayoutAttr to, int64_t parts,
                     int64_t part);

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_LAYOUTS_H
