//===- LayerLayouts.cpp ----------------------------------------------------------------------===//
#include "passes/shard/LayerLayouts.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/ir/QuantizedTensor.h"

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

void writeLayouts(Operation *op, StringRef name, ArrayRef<LayoutAttr> layouts) {
  SmallVector<Attribute> attributes(layouts.begin(), layouts.end());
  op->setAttr(name, ArrayAttr::get(op->getContext(), attributes));
}

/// How the parts hold `symbol`, of which `parameter` is the value.
static std::optional<LayoutAttr> heldOf(ParameterOp symbol, Value parameter) {
  Attribute held = symbol ? symbol->getAttr(heldAttrName) : Attribute();
  if (!held)
    return LayoutAttr::whole(parameter.getContext());
  if (auto layout = dyn_cast<LayoutAttr>(held))
    return layout;
  return std::nullopt;
}

std::optional<LayoutAttr> findHeld(Value parameter) {
  auto get = parameter.getDefiningOp<GetParameterOp>();
  return heldOf(get ? SymbolTable::lookupNearestSymbolFrom<ParameterOp>(get, get.getParameterAttr())
                    : ParameterOp(),
                parameter);
}

std::optional<LayoutAttr> findHeld(Value parameter, SymbolTableCollection &symbols) {
  auto get = parameter.getDefiningOp<GetParameterOp>();
  return heldOf(get ? symbols.lookupNearestSymbolFrom<ParameterOp>(get, get.getParameterAttr())
                    : ParameterOp(),
                parameter);
}

bool readsFree(LayoutAttr held, LayoutAttr read) {
  return read == held || (held.isCopied() && read.isWhole()) ||
         (held.isWhole() && read.isPartial());
}

bool hasLayouts(LayerOp layer) {
  return layer->hasAttr(bordersAttrName) || llvm::any_of(layer.getBody().front(), [](auto &op) {
           return op.hasAttr(readsAttrName) || op.hasAttr(layoutsAttrName);
         });
}

SmallVector<Type> outputTypesOfPart(LayerOp layer) {
  SmallVector<Type> types(layer->getResultTypes());
  const size_t inputs = layer.getInputs().size();
  auto borders = findLayouts(layer, bordersAttrName, inputs + types.size());
  for (size_t i = 0; borders && i < types.size(); ++i) // rows do not depend on the part
    types[i] = partType(cast<RankedTensorType>(types[i]), (*borders)[inputs + i], 1, 0);
  return types;
}

int64_t partsOf(ModuleOp module) {
  if (auto plan = module->getAttrOfType<PlanAttr>(planAttrName))
    return plan.getParts();
  auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
  return cluster ? cluster.getParts() : 1;
}

bool areReplicas(ModuleOp module) {
  auto mode = module->getAttrOfType<TrainModeAttr>(trainModeAttrName);
  return mode && mode.getDegree() > 1;
}

bool hasPartsApart(ModuleOp module) {
  if (partsOf(module) == 1)
    return false;
  bool apart = llvm::any_of(module.getOps<ParameterOp>(), [](ParameterOp parameter) {
    auto held = parameter->getAttrOfType<LayoutAttr>(heldAttrName);
    return held && held.isSplit();
  });
  module.walk([&](ReshardOp) { apart = true; });
  return apart;
}

RankedTensorType heldType(ParameterOp parameter, int64_t parts, int64_t part) {
  auto type = cast<RankedTensorType>(parameter.getType());
  auto held = dyn_cast_or_null<LayoutAttr>(parameter->getAttr(heldAttrName));
  return held ? partType(type, held, parts, part) : type;
}

SymbolicShape shapeOf(Value value) {
  return getSymbolicShape(cast<RankedTensorType>(value.getType())).value_or(SymbolicShape());
}

bool areAlike(RankedTensorType type, LayoutAttr one, LayoutAttr other) {
  auto isAll = [](LayoutAttr each) { return each.isWhole() || each.isCopied(); };
  const bool hasGradient = isa<FloatType>(type.getElementType()) && !isQuantized(type);
  return one == other || (!hasGradient && isAll(one) && isAll(other));
}

/// What a part sends of a value of k^2 elements.
static int64_t sentShare(Move move, int64_t parts) {
  switch (move) {
  case Move::AllReduce:
    return 2 * (parts - 1) * parts;
  case Move::AllGather:
  case Move::ReduceScatter:
    return (parts - 1) * parts;
  case Move::AllToAll:
    return parts - 1;
  default:
    return 0;
  }
}

bool isNearer(LayoutAttr one, LayoutAttr other, LayoutAttr to, int64_t parts) {
  auto key = [&](LayoutAttr from) {
    return std::tuple(
        sentShare(moveOf(from, to), parts) + sentShare(moveOf(to.getDual(), from.getDual()), parts),
        from.getKind(), from.getDim(), from.getUnitsOf(), from.getUnits(), from.getInner());
  };
  return key(one) < key(other);
}

Moves sentMoves(Operation *function) {
  Moves moves;
  function->walk([&](ReshardOp move) {
    if (sends(moveOf(move.getFrom(), move.getTo())))
      moves.push_back({move.getFrom(), move.getTo(), move.getWholeAttr()});
  });
  return moves;
}

} // namespace omnibal::shard
