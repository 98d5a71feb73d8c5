//===- FollowLayouts.cpp
//-----------------------------------------------------------------------===//
//
// Ops are visited in order. The ways in which an op could be run are tried one after the other, and
// the first one that its rule allows is taken: divided as a parameter that it reads is, divided as
// another operand is, with summands where it passes them on, divided along another letter where
// what comes in is divided along one that it does not divide, and in full.
//
//===-----------------------------------------------------------------------------------------===//
#include "passes/shard/FollowLayouts.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/LayerLetters.h"
#include "passes/shard/Ways.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

struct Way {
  SmallVector<LayoutAttr> reads, layouts;
};

class LayerFollower {
public:
  explicit LayerFollower(LayerOp layer)
      : layer(layer), letters(layer), context(layer.getContext()) {}

  void run() {
    bool isDivided = false;
    for (auto [i, argument] : llvm::enumerate(layer.getBody().front().getArguments())) {
      LayoutAttr layout = LayoutAttr::whole(context);
      if (i >= layer.getInputs().size())
        layout = findHeld(layer.getParameters()[i - layer.getInputs().size()]).value_or(layout);
      native[argument] = layout;
      isDivided |= !layout.isWhole();
    }
    for (Operation &op : layer.getBody().front().without_terminator()) {
      Way way = wayOf(&op);
      for (auto [result, layout] : llvm::zip_equal(op.getResults(), way.layouts))
        native[result] = layout;
      isDivided |= llvm::any_of(way.layouts, [](LayoutAttr each) { return !each.isWhole(); }) ||
                   llvm::any_of(way.reads, [](LayoutAttr each) { return !each.isWhole(); });
      ways.push_back(std::move(way));
    }
    if (isDivided)
      write();
  }

private:
  bool isParameter(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getArgNumber() >= layer.getInputs().size();
  }
  static bool isFloat(Value value) {
    return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
  }

  Way wayOf(Operation *op) {
    for (bool ofParameters : {true, false})
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        if (native[operand].isSplit() && isParameter(operand) == ofParameters)
          if (auto way = along(op, span(op, operand, native[operand])))
            return *way;
    if (auto way = passingSummands(op))
      return *way;
    if (llvm::any_of(op->getOperands(), [&](Value each) { return native[each].isSplit(); }))
      if (auto way = alongAnother(op))
        return *way;
    return {SmallVector<LayoutAttr>(op->getNumOperands(), LayoutAttr::whole(context)),
            SmallVector<LayoutAttr>(op->getNumResults(), LayoutAttr::whole(context))};
  }

  /// The layer's letters along which an operand is split.
  DimLetters span(Operation *op, Value operand, LayoutAttr split) {
    const ValueLetters all = letters.of(operand);
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

  /// Where a value, as the op says it, has these letters side by side; null: it has none of them.
  LayoutAttr splitOf(Operation *op, const ValueLetters &said, const DimLetters &wanted) {
    for (auto [dim, own] : llvm::enumerate(said)) {
      DimLetters all;
      for (unsigned letter : own)
        llvm::append_range(all, letters.ofOp(op, letter));
      auto at = std::search(all.begin(), all.end(), wanted.begin(), wanted.end());
      if (at == all.end())
        continue;
      SymbolicDim units(1), inner(1);
      for (unsigned letter : wanted)
        units = multiply(units, letters.sizeOf(letter)).value_or(SymbolicDim(0));
      for (auto behind = at + wanted.size(); behind != all.end(); ++behind)
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

  std::optional<Way> along(Operation *op, const DimLetters &wanted) {
    const std::optional<FactorRule> &rule = letters.ruleOf(op);
    if (!rule || wanted.empty())
      return std::nullopt;
    Way way;
    bool givesPartial = false;
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      LayoutAttr split = splitOf(op, rule->results[i], wanted);
      givesPartial |= !split;
      way.layouts.push_back(split ? split : LayoutAttr::partial(context));
    }
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      LayoutAttr split = splitOf(op, rule->operands[i], wanted);
      const bool isAdded = givesPartial && llvm::is_contained(rule->added, i);
      way.reads.push_back(split     ? split
                          : isAdded ? LayoutAttr::partial(context)
                                    : LayoutAttr::copied(context));
    }
    return legal(op, std::move(way));
  }

  /// Summands stay summands where the op reads nothing else.
  std::optional<Way> passingSummands(Operation *op) {
    const bool all = op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value each) {
                       return native[each].isPartial();
                     });
    if (!all)
      return std::nullopt;
    LayoutAttr partial = LayoutAttr::partial(context);
    return legal(op, {SmallVector<LayoutAttr>(op->getNumOperands(), partial),
                      SmallVector<LayoutAttr>(op->getNumResults(), partial)});
  }

  std::optional<Way> alongAnother(Operation *op) {
    const std::optional<FactorRule> &rule = letters.ruleOf(op);
    if (!rule || op->getNumResults() == 0)
      return std::nullopt;
    for (const DimLetters &dim : rule->results[0])
      for (unsigned letter : dim)
        if (rule->kinds[letter] == LetterKind::Free)
          if (auto way = along(op, letters.ofOp(op, letter)))
            return way;
    return std::nullopt;
  }

  /// The way, if the op's rule allows it and it moves no parameter.
  std::optional<Way> legal(Operation *op, Way way) {
    for (auto [operand, read] : llvm::zip_equal(op->getOperands(), way.reads)) {
      LayoutAttr held = native[operand];
      if (isParameter(operand) && read != held && !(held.isCopied() && read.isWhole()) &&
          !(held.isWhole() && read.isPartial()) && !(held.isWhole() && isFree(operand, read)))
        return std::nullopt;
    }
    if (!findFault(op, letters.ruleOf(op), way.reads, way.layouts).empty())
      return std::nullopt;
    return way;
  }
  static bool isFree(Value value, LayoutAttr read) { return !isFloat(value) && read.isCopied(); }

  void write() {
    auto list = [&](ArrayRef<LayoutAttr> layouts) {
      return ArrayAttr::get(context, SmallVector<Attribute>(layouts.begin(), layouts.end()));
    };
    for (auto [op, way] : llvm::zip_equal(layer.getBody().front().without_terminator(), ways)) {
      op.setAttr(readsAttrName, list(way.reads));
      op.setAttr(layoutsAttrName, list(way.layouts));
    }
    SmallVector<LayoutAttr> borders(layer.getInputs().size() + layer.getOutputs().size(),
                                    LayoutAttr::whole(context));
    layer->setAttr(bordersAttrName, list(borders));
  }

  LayerOp layer;
  LayerLetters letters;
  MLIRContext *context;
  llvm::DenseMap<Value, LayoutAttr> native;
  std::vector<Way> ways; ///< by op
};

} // namespace

void followLayouts(LayerOp layer) { LayerFollower(layer).run(); }

} // namespace omnibal::shard
