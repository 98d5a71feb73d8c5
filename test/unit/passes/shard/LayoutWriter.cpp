//===- LayoutWriter.cpp ----------------------------------------------------------------------===//
#include "test/unit/passes/shard/LayoutWriter.h"
#include "passes/shard/LayerLayouts.h"

using namespace mlir;

namespace omnibal::test {

void LayoutWriter::set(Operation *op, StringRef name, ArrayRef<LayoutAttr> list) {
  SmallVector<Attribute> attributes(list.begin(), list.end());
  op->setAttr(name, ArrayAttr::get(context, attributes));
}

SmallVector<LayoutWriter::Place> LayoutWriter::placesOf(Operation *op, const DimLetters &dim) {
  SmallVector<Place> places;
  for (unsigned letter : dim)
    for (unsigned leaf : letters.ofOp(op, letter))
      places.push_back({letter, leaf});
  return places;
}

LayoutAttr LayoutWriter::splitOf(int64_t dim, ArrayRef<Place> all, size_t begin, size_t count) {
  SymbolicDim units(1), inner(1);
  for (auto [i, place] : llvm::enumerate(all)) {
    SymbolicDim &size = i < begin + count ? units : inner;
    if (i < begin)
      continue;
    auto more = multiply(size, letters.sizeOf(place.ofLayer));
    if (!more)
      return {};
    size = *more;
  }
  if (!inner.isStatic())
    return {};
  if (units.isStatic())
    return LayoutAttr::split(context, dim, units.constant, inner.constant);
  for (UnitsOf of : {UnitsOf::Tiles, UnitsOf::Tokens})
    if (units == (of == UnitsOf::Tiles ? SymbolicDim::tiles() : SymbolicDim::tokens()))
      return LayoutAttr::split(context, dim, of, inner.constant);
  return {};
}

std::optional<LayoutAttr> LayoutWriter::along(Operation *op, const ValueLetters &dims,
                                              ArrayRef<Place> run) {
  for (auto [dim, own] : llvm::enumerate(dims)) {
    SmallVector<Place> places = placesOf(op, own);
    if (llvm::none_of(places, [&](const Place &each) { return llvm::is_contained(run, each); }))
      continue;
    auto at = std::search(places.begin(), places.end(), run.begin(), run.end());
    LayoutAttr split = at == places.end()
                           ? LayoutAttr()
                           : splitOf(static_cast<int64_t>(dim), places,
                                     static_cast<size_t>(at - places.begin()), run.size());
    if (!split)
      return std::nullopt;
    return split;
  }
  return LayoutAttr();
}

void LayoutWriter::fill(Operation *op, LayoutAttr reads, LayoutAttr layouts) {
  set(op, shard::readsAttrName, SmallVector<LayoutAttr>(op->getNumOperands(), reads));
  set(op, shard::layoutsAttrName, SmallVector<LayoutAttr>(op->getNumResults(), layouts));
}

bool LayoutWriter::split(Operation *op, ArrayRef<Place> run) {
  const FactorRule &rule = *letters.ruleOf(op);
  bool sums = true, joins = true;
  for (const Place &place : run) {
    const LetterKind kind = rule.kinds[place.ofOp];
    joins &= kind == LetterKind::Joined;
    if (kind == LetterKind::Closed ||
        ((kind == LetterKind::Index || joins) && letters.ofOp(op, place.ofOp)[0] != run[0].ofLayer))
      return false;
    sums &= kind == LetterKind::Sum || kind == LetterKind::Index;
  }
  const bool startsItsLetter = letters.ofOp(op, run[0].ofOp)[0] == run[0].ofLayer;
  SmallVector<LayoutAttr> reads, layouts;
  bool gives = false;
  for (auto [i, dims] : llvm::enumerate(rule.results)) {
    auto split = along(op, dims, run);
    if (!split || (!*split && !sums && !joins))
      return false;
    gives |= !*split && !joins;
    layouts.push_back(*split ? *split : (joins ? whole() : partial()));
  }
  for (auto [i, dims] : llvm::enumerate(rule.operands)) {
    auto split = along(op, dims, run);
    if (!split && startsItsLetter && llvm::is_contained(rule.picked, i))
      split = LayoutAttr();
    if (!split)
      return false;
    const bool isAdded = gives && llvm::is_contained(rule.added, i);
    reads.push_back(*split ? *split : (isAdded ? partial() : copied()));
  }
  set(op, shard::readsAttrName, reads);
  set(op, shard::layoutsAttrName, layouts);
  return true;
}

bool LayoutWriter::split(Operation *op, unsigned letter) {
  const std::optional<FactorRule> &rule = letters.ruleOf(op);
  if (!rule)
    return false;
  for (unsigned own = 0; own < rule->sizes.size(); ++own)
    if (llvm::is_contained(letters.ofOp(op, own), letter) && split(op, {Place{own, letter}}))
      return true;
  return false;
}

bool LayoutWriter::hold(unsigned parameter) {
  auto argument = layer.getBody().front().getArgument(
      static_cast<unsigned>(layer.getInputs().size()) + parameter);
  SmallVector<LayoutAttr> reads;
  for (OpOperand &use : argument.getUses())
    reads.push_back(
        (*shard::findLayouts(use.getOwner(), shard::readsAttrName,
                             use.getOwner()->getNumOperands()))[use.getOperandNumber()]);
  auto all = [&](LayoutAttr a, LayoutAttr b) {
    return llvm::all_of(reads, [&](LayoutAttr each) { return each == a || each == b; });
  };
  LayoutAttr held = all(whole(), partial())   ? whole()
                    : all(whole(), copied())  ? copied()
                    : all(reads[0], reads[0]) ? reads[0]
                                              : LayoutAttr();
  if (!held || held.isPartial())
    return false;
  auto get = layer.getParameters()[parameter].getDefiningOp<GetParameterOp>();
  SymbolTable::lookupNearestSymbolFrom(get, get.getParameterAttr())
      ->setAttr(shard::heldAttrName, held);
  return true;
}

bool RandomLayouts::drawSplit(Operation *op, const FactorRule &rule) {
  SmallVector<ValueLetters> values(rule.operands);
  values.append(rule.results);
  const ValueLetters &value = values[below(values.size())];
  if (value.empty())
    return false;
  const auto dim = below(value.size());
  SmallVector<Place> places = placesOf(op, value[dim]);
  if (places.empty())
    return false;
  const size_t begin = below(places.size());
  const size_t count = 1 + (below(3) == 0 ? below(places.size() - begin) : 0);
  return split(op, ArrayRef(places).slice(begin, count));
}

void RandomLayouts::drawWay(Operation *op) {
  const std::optional<FactorRule> &rule = letters.ruleOf(op);
  const size_t way = below(10);
  if (way == 0)
    return fill(op, whole(), whole());
  if (op->getNumOperands() == 0 || !rule || way == 1)
    return fill(op, copied(), copied());
  if (way == 2 && !rule->linearIn.empty()) {
    fill(op, copied(), partial());
    SmallVector<LayoutAttr> reads(op->getNumOperands(), copied());
    for (unsigned i : rule->linearIn[below(rule->linearIn.size())])
      reads[i] = partial();
    return set(op, shard::readsAttrName, reads);
  }
  for (int tries = 0; tries < 20; ++tries)
    if (drawSplit(op, *rule))
      return;
  fill(op, copied(), copied());
}

LayoutAttr RandomLayouts::border(Value value) {
  const ValueLetters dims = letters.of(value);
  const size_t dim = below(dims.size() + 1);
  if (dim == dims.size() || dims[dim].empty())
    return whole();
  SmallVector<Place> places;
  for (unsigned leaf : dims[dim])
    places.push_back({0, leaf});
  LayoutAttr split = splitOf(static_cast<int64_t>(dim), places, below(places.size()), 1);
  return split ? split : whole();
}

bool RandomLayouts::draw() {
  Block &body = layer.getBody().front();
  SmallVector<LayoutAttr> borders;
  for (size_t i = 0; i < layer.getInputs().size(); ++i)
    borders.push_back(border(body.getArgument(static_cast<unsigned>(i))));
  for (Operation &op : body.without_terminator()) {
    const bool isLoss = isa<LinearCrossEntropyOp>(op);
    do
      drawWay(&op);
    while (isLoss && !llvm::all_of(*shard::findLayouts(&op, shard::layoutsAttrName, 2),
                                   [](LayoutAttr l) { return l.isWhole() || l.isSplit(); }));
  }
  for (Value output : body.getTerminator()->getOperands()) {
    if (auto loss = output.getDefiningOp<LinearCrossEntropyOp>())
      borders.push_back((*shard::findLayouts(loss, shard::layoutsAttrName, 2))[0]);
    else
      borders.push_back(border(output));
  }
  set(layer, shard::bordersAttrName, borders);
  for (unsigned i = 0; i < layer.getParameters().size(); ++i)
    if (!hold(i))
      return false;
  return true;
}

} // namespace omnibal::test
