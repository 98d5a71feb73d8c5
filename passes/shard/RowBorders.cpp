//===- RowBorders.cpp ------------------------------------------------------------------------===//
#include "passes/shard/RowBorders.h"
#include "dialects/omnibal/analysis/LayerGraph.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

/// The split of the rows of a value that only layers read; null: it has none, or stays whole.
LayoutAttr rowSplitBetween(Value value) {
  auto layer = value.getDefiningOp<LayerOp>();
  if (!layer || value.use_empty() || !llvm::all_of(value.getUsers(), llvm::IsaPred<LayerOp>) ||
      getOutputKind(layer, cast<OpResult>(value).getResultNumber()) != OutputKind::Output)
    return {};
  auto type = cast<RankedTensorType>(value.getType());
  return isa<FloatType>(type.getElementType()) ? rowSplitOf(type) : LayoutAttr();
}

} // namespace

LayoutAttr RowBorders::of(Value value) const {
  LayoutAttr split = rowSplitBetween(value);
  const bool isChosen = split && (split.getUnitsOf() == UnitsOf::Tokens ? tokens : tiles);
  return isChosen ? split : LayoutAttr::whole(value.getContext());
}

SmallVector<LayoutAttr> RowBorders::of(LayerOp layer) const {
  SmallVector<LayoutAttr> borders;
  for (Value input : layer.getInputs())
    borders.push_back(of(input));
  for (Value output : layer.getOutputs())
    borders.push_back(of(output));
  return borders;
}

RowBorders possibleBorders(ArrayRef<LayerOp> layers) {
  RowBorders possible;
  for (LayerOp layer : layers)
    for (Value output : layer.getOutputs())
      if (LayoutAttr split = rowSplitBetween(output))
        (split.getUnitsOf() == UnitsOf::Tokens ? possible.tokens : possible.tiles) = true;
  return possible;
}

} // namespace omnibal::shard
