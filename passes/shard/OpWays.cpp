//===- OpWays.cpp ----------------------------------------------------------------------------===//
#include "passes/shard/OpWays.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/shard/Ways.h"

using namespace mlir;

namespace omnibal::shard {

OpWays::OpWays(LayerOp layer) : letters(layer), context(layer.getContext()) {
  auto isParameter = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getArgNumber() >= layer.getInputs().size();
  };
  for (Operation &op : layer.getBody().front().without_terminator()) {
    auto remat = dyn_cast<RematerializableOpInterface>(op);
    const bool isDear = remat && !remat.isCheapToRecompute();
    if (isDear || llvm::any_of(op.getOperands(), isParameter))
      addRuns(&op);
  }
}

/// Letters of the op's rule that stand side by side in a dimension.
void OpWays::addRuns(Operation *op) {
  const std::optional<FactorRule> &rule = letters.ruleOf(op);
  if (!rule)
    return;
  for (ArrayRef<ValueLetters> values : {ArrayRef(rule->operands), ArrayRef(rule->results)})
    for (const ValueLetters &value : values)
      for (const DimLetters &dim : value)
        for (size_t begin = 0; begin < dim.size(); ++begin) {
          DimLetters run;
          for (unsigned letter : llvm::ArrayRef(dim).drop_front(begin)) {
            const DimLetters leaves = letters.ofOp(op, letter);
            if (leaves.empty() || rule->kinds[letter] == LetterKind::Closed)
              break;
            llvm::append_range(run, leaves);
            if (!llvm::is_contained(runs, run))
              runs.push_back(run);
          }
        }
}

/// Whether rows are split that values address, where a part's first one depends on the micro-batch:
/// no symbol tells it.
static bool addressesOpenRows(const std::optional<FactorRule> &rule, const Way &way) {
  for (auto [i, read] : llvm::enumerate(way.reads))
    if (rule && read.isSplit() && read.getUnitsOf() != UnitsOf::Number &&
        llvm::any_of(rule->operands[i][read.getDim()],
                     [&](unsigned letter) { return rule->kinds[letter] == LetterKind::Index; }))
      return true;
  return false;
}

bool OpWays::isLegal(Operation *op, const Way &way) const {
  return !addressesOpenRows(letters.ruleOf(op), way) &&
         findFault(op, letters.ruleOf(op), way.reads, way.layouts).empty();
}

Way OpWays::all(Operation *op, LayoutAttr layout) const {
  return {SmallVector<LayoutAttr>(op->getNumOperands(), layout),
          SmallVector<LayoutAttr>(op->getNumResults(), layout)};
}

DimLetters OpWays::runOf(Value value, LayoutAttr split) const {
  const ValueLetters all = letters.of(value);
  if (split.getDim() >= static_cast<int64_t>(all.size()))
    return {};
  const DimLetters &dim = all[split.getDim()];
  SymbolicDim inner(1);
  size_t end = dim.size();
  while (end > 0 && inner != SymbolicDim(split.getInner())) {
    auto more = multiply(inner, letters.sizeOf(dim[--end]));
    inner = more.value_or(SymbolicDim(0));
  }
  if (inner != SymbolicDim(split.getInner()))
    return {};
  SymbolicDim units(1);
  for (size_t begin = end; begin > 0;) {
    auto more = multiply(units, letters.sizeOf(dim[--begin]));
    if (!more)
      break;
    units = *more;
    if (units == unitsOf(split))
      return DimLetters(dim.begin() + begin, dim.begin() + end);
  }
  return {};
}

/// The split of a value, as the op says its letters, along these side by side; null: it has none of
/// them.
LayoutAttr OpWays::splitOf(Operation *op, const ValueLetters &said, const DimLetters &run) const {
  for (auto [dim, own] : llvm::enumerate(said)) {
    DimLetters all;
    for (unsigned letter : own)
      llvm::append_range(all, letters.ofOp(op, letter));
    auto at = std::search(all.begin(), all.end(), run.begin(), run.end());
    if (at == all.end())
      continue;
    SymbolicDim units(1), inner(1);
    for (unsigned letter : run)
      units = multiply(units, letters.sizeOf(letter)).value_or(SymbolicDim(0));
    for (auto behind = at + run.size(); behind != all.end(); ++behind)
      inner = multiply(inner, letters.sizeOf(*behind)).value_or(SymbolicDim::tokens());
    if (!inner.isStatic())
      return {};
    const auto where = static_cast<int64_t>(dim);
    if (units.isStatic())
      return LayoutAttr::split(context, where, units.constant, inner.constant);
    return LayoutAttr::split(context, where,
                             units == SymbolicDim::tiles() ? UnitsOf::Tiles : UnitsOf::Tokens,
                             inner.constant);
  }
  return {};
}

/// Whether parts that are divided along the letters tell each other what whole results need.
bool OpWays::joins(Operation *op, const DimLetters &run) const {
  const std::optional<FactorRule> &rule = letters.ruleOf(op);
  for (auto [letter, kind] : llvm::enumerate(rule->kinds)) {
    const DimLetters leaves = letters.ofOp(op, static_cast<unsigned>(letter));
    if (kind == LetterKind::Joined && llvm::is_contained(leaves, run.front()))
      return true;
  }
  return false;
}

std::optional<Way> OpWays::along(Operation *op, const DimLetters &run) const {
  const std::optional<FactorRule> &rule = letters.ruleOf(op);
  if (!rule || run.empty())
    return std::nullopt;
  Way way;
  bool givesPartial = false;
  const LayoutAttr without =
      joins(op, run) ? LayoutAttr::whole(context) : LayoutAttr::partial(context);
  for (size_t i = 0; i < op->getNumResults(); ++i) {
    LayoutAttr split = splitOf(op, rule->results[i], run);
    way.layouts.push_back(split ? split : without);
    givesPartial |= way.layouts.back().isPartial();
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    LayoutAttr split = splitOf(op, rule->operands[i], run);
    const bool isAdded = givesPartial && llvm::is_contained(rule->added, i);
    way.reads.push_back(split     ? split
                        : isAdded ? LayoutAttr::partial(context)
                                  : LayoutAttr::copied(context));
  }
  if (!isLegal(op, way))
    return std::nullopt;
  return way;
}

SmallVector<Way> OpWays::withSummands(Operation *op) const {
  SmallVector<Way> ways;
  const std::optional<FactorRule> &rule = letters.ruleOf(op);
  if (!rule)
    return ways;
  for (const auto &group : rule->linearIn) {
    Way way = all(op, LayoutAttr::copied(context));
    for (unsigned operand : group)
      way.reads[operand] = LayoutAttr::partial(context);
    for (LayoutAttr &layout : way.layouts)
      layout = LayoutAttr::partial(context);
    if (isLegal(op, way))
      ways.push_back(std::move(way));
  }
  return ways;
}

SmallVector<Way> OpWays::list(Operation *op) const {
  SmallVector<Way> ways{all(op, LayoutAttr::whole(context)), all(op, LayoutAttr::copied(context))};
  auto add = [&](std::optional<Way> way) {
    if (way && !llvm::is_contained(ways, *way))
      ways.push_back(std::move(*way));
  };
  for (const DimLetters &run : runs)
    add(along(op, run));
  for (Way &way : withSummands(op))
    add(std::move(way));
  return ways;
}

} // namespace omnibal::shard
