//===- LayerLayouts.cpp ----------------------------------------------------------------------===//
#include "passes/shard/LayerLayouts.h"

using namespace mlir;

namespace omnibal::shard {

std::optional<SmallVector<LayoutAttr>> findLayouts(Operation *op, StringRef name, size_t count) {
  SmallVector<LayoutAttr> layouts;
  Attribute list = op->getAttr(name);
  if (list) {
    auto array = dyn_cast<ArrayAttr>(list);
    if (!array || !llvm::all_of(array, llvm::IsaPred<LayoutAttr>))
      return std::nullopt;
    layouts.append(array.getAsRange<LayoutAttr>().begin(), array.getAsRange<LayoutAttr>().end());
  }
  if (layouts.size() != count)
    return std::nullopt;
  return layouts;
}

std::optional<LayoutAttr> findHeld(Value parameter) {
  auto get = parameter.getDefiningOp<GetParameterOp>();
  ParameterOp symbol =
      get ? SymbolTable::lookupNearestSymbolFrom<ParameterOp>(get, get.getParameterAttr())
          : ParameterOp();
  Attribute held = symbol ? symbol->getAttr(heldAttrName) : Attribute();
  if (!held)
    return LayoutAttr::whole(parameter.getContext());
  if (auto layout = dyn_cast<LayoutAttr>(held))
    return layout;
  return std::nullopt;
}

SymbolicShape shapeOf(Value value) {
  return getSymbolicShape(cast<RankedTensorType>(value.getType())).value_or(SymbolicShape());
}

bool areAlike(RankedTensorType type, LayoutAttr one, LayoutAttr other) {
  auto isAll = [](LayoutAttr each) { return each.isWhole() || each.isCopied(); };
  return one == other || (!isa<FloatType>(type.getElementType()) && isAll(one) && isAll(other));
}

} // namespace omnibal::shard
