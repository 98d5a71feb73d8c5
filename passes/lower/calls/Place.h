//===- Place.h - Strided windows with symbolic sizes -------------------------------------===//
//
// A place says where a tensor value lies: in a window of a root, which will become a buffer.
// Reshapes, transposes, slices and expansions only change the window.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_CALLS_PLACE_H
#define PASSES_LOWER_CALLS_PLACE_H

#include "dialects/omnibal/ir/SymbolicShape.h"
#include <optional>

namespace omnibal::lower {

struct Place {
  int root = -1;
  SymbolicDim offset = 0;
  SymbolicShape shape, strides; ///< in elements

  size_t rank() const { return shape.size(); }
};

/// Returns dense row-major strides; none if a stride is not affine.
std::optional<SymbolicShape> denseStrides(llvm::ArrayRef<SymbolicDim> shape);
/// True if the place is row-major without gaps from offset 0.
bool isDense(const Place &place);
/// True if dimensions [from, to) are contiguous among themselves, the last one with stride 1.
bool isContiguous(const Place &place, size_t from, size_t to);
/// Returns the same elements in another shape, if strides can express it.
std::optional<Place> reshape(const Place &place, llvm::ArrayRef<SymbolicDim> shape);
Place permute(const Place &place, llvm::ArrayRef<int64_t> permutation);
/// Returns the NumPy broadcast to `shape`, with stride 0 in the dimensions that grow.
Place broadcast(const Place &place, llvm::ArrayRef<SymbolicDim> shape);

} // namespace omnibal::lower
#endif // PASSES_LOWER_CALLS_PLACE_H
