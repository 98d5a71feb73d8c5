//===- TileValues.h - Values that are the same for every tile ----------------------------===//
#ifndef PASSES_SPECIALIZE_TILEVALUES_H
#define PASSES_SPECIALIZE_TILEVALUES_H

#include "dialects/omnibal/interpreter/HostTensor.h"
#include "passes/specialize/SpecializeInternal.h"
#include <array>

namespace omnibal::specialization {

/// Follows values that depend on the number of tiles V, but not on what pictures show: masks that
/// say where a picture is valid (all of it: tiles have the model's size), grid positions computed
/// from them, choices of the places that hold a picture (all: micro-batches have no empty places).
/// They are evaluated for a few numbers of tiles; what is one and the same row for every tile
/// becomes that row, expanded.
class TileValues {
public:
  TileValues(mlir::func::FuncOp function, int64_t limitElements);

  /// Looks at an op whose types are final and whose operands have been visited.
  void visit(mlir::Operation *op, const SymbolicContents &contents);
  /// Returns the result of `op` as one row, repeated for each tile; null if it is not that.
  mlir::Value repeatedRow(mlir::OpBuilder &builder, mlir::Operation *op) const;
  /// Elements of a small integer tensor as expressions in V, where they are affine.
  std::optional<SymbolicShape> affine(mlir::Value value) const;
  /// True if the value lists all tiles in order: 0, 1, ... V - 1.
  bool listsAllTiles(mlir::Value value) const;
  /// True if every element of the boolean, one for each tile, is true.
  bool choosesAllTiles(mlir::Value value) const;
  /// Puts another value, or none, in the place of `from`.
  void replace(mlir::Value from, mlir::Value to);

private:
  static constexpr std::array<int64_t, 3> tileCounts{2, 3, 5};
  /// The value for each of the numbers of tiles. A splat has only one element and no dimensions.
  struct Probed {
    std::array<HostTensor, 3> tensors;
    bool splat = false;
  };
  using Operands = std::vector<Probed>;

  std::optional<Probed> ofOperand(mlir::Value value, const SymbolicContents &contents) const;
  std::optional<Probed> ofSplats(mlir::Operation *op, const Operands &operands) const;
  std::optional<Probed> evaluate(mlir::Operation *op, Operands operands) const;
  void followPictures(mlir::Operation *op, const SymbolicContents &contents);
  std::optional<bool> valueOfRealTiles(mlir::Operation *op, mlir::BlockArgument pictures) const;

  int64_t limitElements;
  llvm::DenseMap<mlir::Value, Probed> known;
  /// Values computed from one input of pictures, constants and sizes alone.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> ofPictures;
};

} // namespace omnibal::specialization
#endif // PASSES_SPECIALIZE_TILEVALUES_H
