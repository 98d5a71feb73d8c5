//===- Layouts.cpp - Shares and moves --------------------------------------------------------===//
#include "dialects/omnibal/ir/Layouts.h"
#include "runtime/support/Shares.h"

using namespace mlir;
using namespace omnibal;

SymbolicDim omnibal::unitsOf(LayoutAttr split) {
  switch (split.getUnitsOf()) {
  case UnitsOf::Tiles:
    return SymbolicDim::tiles();
  case UnitsOf::Tokens:
    return SymbolicDim::tokens();
  case UnitsOf::Number:
    return split.getUnits();
  }
  llvm_unreachable("units are a number, V or N");
}

std::optional<SymbolicDim> omnibal::outerOf(LayoutAttr split, ArrayRef<SymbolicDim> shape) {
  if (split.getDim() >= static_cast<int64_t>(shape.size()))
    return std::nullopt;
  const SymbolicDim &dim = shape[split.getDim()];
  const SymbolicDim row = *multiply(unitsOf(split), split.getInner());
  if (row == SymbolicDim(0)) // a micro-batch without tiles
    return dim == row ? std::optional(SymbolicDim(1)) : std::nullopt;
  return divideExactly(dim, row);
}

namespace {
SymbolicDim ownUnits(LayoutAttr split, int64_t parts, int64_t part) {
  const SymbolicDim units = unitsOf(split);
  return units.isStatic() ? SymbolicDim(rt::shareOf(units.constant, part, parts).size())
                          : SymbolicDim(0, 0, 0, units.perTile, units.perToken);
}
} // namespace

std::optional<SymbolicShape> omnibal::partShape(ArrayRef<SymbolicDim> shape, LayoutAttr layout,
                                                int64_t parts, int64_t part) {
  SymbolicShape result(shape.begin(), shape.end());
  if (!layout.isSplit())
    return result;
  std::optional<SymbolicDim> outer = outerOf(layout, shape);
  if (!outer)
    return std::nullopt;
  std::optional<SymbolicDim> held =
      multiply(*outer, ownUnits(layout, parts, part).times(layout.getInner()));
  if (!held)
    return std::nullopt;
  result[layout.getDim()] = *held;
  return result;
}

RankedTensorType omnibal::partType(RankedTensorType type, LayoutAttr layout, int64_t parts,
                                   int64_t part) {
  std::optional<SymbolicShape> shape = getSymbolicShape(type);
  if (shape)
    shape = partShape(*shape, layout, parts, part);
  if (!shape)
    return nullptr;
  return layout.isSplit() ? makeTensorType(type.getContext(), *shape, type.getElementType()) : type;
}

LayoutAttr omnibal::rowSplitOf(RankedTensorType type) {
  std::optional<SymbolicShape> shape = getSymbolicShape(type);
  if (!shape)
    return {};
  const auto *rows = llvm::find_if(*shape, [](const SymbolicDim &dim) { return !dim.isStatic(); });
  if (rows == shape->end())
    return {};
  for (UnitsOf of : {UnitsOf::Tokens, UnitsOf::Tiles}) {
    const int64_t inner = of == UnitsOf::Tokens ? rows->perToken : rows->perTile;
    if (inner < 1)
      continue;
    LayoutAttr split = LayoutAttr::split(type.getContext(), rows - shape->begin(), of, inner);
    if (outerOf(split, *shape) == SymbolicDim(1))
      return split;
  }
  return {};
}

Move omnibal::moveOf(LayoutAttr from, LayoutAttr to) {
  if (from == to)
    return Move::None;
  if (from.isPartial())
    return to.isSplit() ? Move::ReduceScatter : Move::AllReduce;
  if (from.isSplit()) {
    if (to.isSplit())
      return Move::AllToAll;
    return to.isPartial() ? Move::Place : Move::AllGather;
  }
  if (to.isSplit())
    return Move::Take;
  return to.isPartial() ? Move::KeepFirst : Move::None;
}

bool omnibal::sends(Move move) {
  return llvm::is_contained({Move::AllGather, Move::ReduceScatter, Move::AllReduce, Move::AllToAll},
                            move);
}

namespace {
/// Whether element i of the split's dimension belongs to a part with this share.
bool holds(LayoutAttr split, const rt::UnitRange &share, int64_t i) {
  const int64_t unit = i / split.getInner() % split.getUnits();
  return unit >= share.begin && unit < share.end;
}

/// How many elements a part has under both of two splits.
int64_t commonElements(ArrayRef<int64_t> shape, LayoutAttr a, LayoutAttr b, int64_t parts,
                       int64_t part) {
  const rt::UnitRange ofA = rt::shareOf(a.getUnits(), part, parts);
  const rt::UnitRange ofB = rt::shareOf(b.getUnits(), part, parts);
  int64_t elements = 1;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    int64_t held = 0;
    for (int64_t i = 0; i < size; ++i)
      held += (a.getDim() != static_cast<int64_t>(dim) || holds(a, ofA, i)) &&
              (b.getDim() != static_cast<int64_t>(dim) || holds(b, ofB, i));
    elements *= held;
  }
  return elements;
}
} // namespace

int64_t omnibal::sentElements(ArrayRef<int64_t> shape, LayoutAttr from, LayoutAttr to,
                              int64_t parts, int64_t part) {
  int64_t all = 1;
  for (int64_t size : shape)
    all *= size;
  auto held = [&](LayoutAttr split) { return commonElements(shape, split, split, parts, part); };
  const int64_t summed = rt::shareOf(all, part, parts).size();
  switch (moveOf(from, to)) {
  case Move::AllGather:
    return (parts - 1) * held(from);
  case Move::ReduceScatter:
    return all - held(to);
  case Move::AllReduce:
    return all - summed + (parts - 1) * summed;
  case Move::AllToAll:
    return held(from) - commonElements(shape, from, to, parts, part);
  case Move::None:
  case Move::KeepFirst:
  case Move::Take:
  case Move::Place:
    return 0;
  }
  llvm_unreachable("all moves are above");
}
