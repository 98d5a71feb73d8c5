#include "dialects/omnibal/analysis/TileRows.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/SymbolicShape.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace omnibal::analysis {
namespace {

enum class Rows {
  Fixed, ///< the same for any number of tiles
  Tiles, ///< one tile's after the other's, in the leading dimension
  Other
};

Rows rowsOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto shape = type ? getSymbolicShape(type) : std::nullopt;
  if (!shape)
    return Rows::Other;
  if (llvm::all_of(*shape, [](const SymbolicDim &dim) { return dim.isStatic(); }))
    return Rows::Fixed;
  const SymbolicDim &leading = shape->front();
  const bool isOfTiles = leading == SymbolicDim(0, leading.perTile) && leading.perTile > 0;
  const bool othersAreFixed =
      llvm::all_of(llvm::drop_begin(*shape), [](const SymbolicDim &dim) { return dim.isStatic(); });
  return isOfTiles && othersAreFixed ? Rows::Tiles : Rows::Other;
}

bool hasTiles(Value value) { return value && rowsOf(value) == Rows::Tiles; }

int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

/// Of an axis that may be counted from the end.
bool isLeading(int64_t axis, Value value) { return axis == 0 || axis == -rankOf(value); }

bool haveSameLeading(Value a, Value b) {
  auto shapeOf = [](Value value) {
    return *getSymbolicShape(cast<RankedTensorType>(value.getType()));
  };
  return shapeOf(a).front() == shapeOf(b).front();
}

/// Whether an op whose values are all Fixed or Tiles leaves tiles apart.
bool keepsTilesApart(Operation *op) {
  if (isa<ElementwiseOpInterface>(op))
    return true;
  return TypeSwitch<Operation *, bool>(op)
      // Rows by rows, in whatever leading dimensions; batches by batches.
      .Case<LinearOp, MatMulOp, ConvOp, ReshapeOp, ExpandOp, ConstantOp, GetParameterOp>(
          [](Operation *) { return true; })
      .Case<SoftmaxOp, LogSoftmaxOp, LayerNormOp, RMSNormOp>(
          [](auto o) { return !isLeading(o.getAxis(), o.getInput()); })
      .Case([](BatchValueOp o) {
        return o.getName() == "pixel_values" || o.getName().starts_with(imageRandomKeysPrefix) ||
               o.getName() == layerNumber;
      })
      .Case([](AttentionOp o) {
        return !o.getCuSeqlens() && !o.getTypes() && hasTiles(o.getQuery()) == hasTiles(o.getKey());
      })
      .Case([](TransposeOp o) { return o.getPermutation().front() == 0; })
      .Case([](ConcatOp o) { return !isLeading(o.getAxis(), o.getResult()); })
      .Case([](SliceOp o) {
        return o.getBegin() && o.getStep() && o.getBegin()->front() == 0 &&
               o.getStep()->front() == 1 && haveSameLeading(o.getInput(), o.getResult());
      })
      .Case([](PadOp o) {
        return o.getLow().front() == 0 && haveSameLeading(o.getInput(), o.getResult());
      })
      .Case([](GatherOp o) { return !hasTiles(o.getInput()) || !hasTiles(o.getIndices()); })
      .Case([](ReduceOp o) { return o.getAxes() && !llvm::is_contained(*o.getAxes(), 0); })
      .Default([](Operation *) { return false; });
}

bool isFreeOfMixing(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return llvm::none_of(op->getOperands(), [](Value v) { return rowsOf(v) == Rows::Other; });
  const bool readsTiles = llvm::any_of(op->getOperands(), hasTiles);
  for (Value value : op->getOperands())
    if (rowsOf(value) == Rows::Other)
      return false;
  // A result that does not grow with the tiles that it comes from joins them.
  for (Value value : op->getResults())
    if (rowsOf(value) == Rows::Other || (readsTiles && rowsOf(value) != Rows::Tiles))
      return false;
  const bool isAboutTiles = readsTiles || llvm::any_of(op->getResults(), hasTiles);
  return !isAboutTiles || keepsTilesApart(op);
}

} // namespace

bool computesTileByTile(Block &forward) {
  return llvm::all_of(forward, [](Operation &op) { return isFreeOfMixing(&op); });
}

} // namespace omnibal::analysis
