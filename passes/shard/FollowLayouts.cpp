//===- FollowLayouts.cpp ---------------------------------------------------------------------===//
//
// Ops are visited in order. The ways in which an op could be run are tried one after the other, and
// the first one that its rule allows is taken: divided as a parameter that it reads is, divided as
// another operand is, with summands where it passes them on, divided along another letter where
// what comes in is divided along one that it does not divide, along tokens or tiles where rows are
// to be divided, and in full.
//
//===-----------------------------------------------------------------------------------------===//
#include "passes/shard/FollowLayouts.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/OpWays.h"
#include "passes/shard/RowBorders.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

class LayerFollower {
public:
  LayerFollower(LayerOp layer, bool dividesRows)
      : layer(layer), dividesRows(dividesRows), possible(layer), context(layer.getContext()) {}

  void run() {
    const SmallVector<LayoutAttr> borders = RowBorders{dividesRows, dividesRows}.of(layer);
    bool isDivided = llvm::any_of(borders, [](LayoutAttr each) { return each.isSplit(); });
    const size_t inputs = layer.getInputs().size();
    for (auto [i, argument] : llvm::enumerate(layer.getBody().front().getArguments())) {
      LayoutAttr layout =
          i < inputs
              ? borders[i]
              : findHeld(layer.getParameters()[i - inputs]).value_or(LayoutAttr::whole(context));
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
      write(borders);
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
          if (auto way = legal(op, possible.along(op, possible.runOf(operand, native[operand]))))
            return *way;
    if (auto way = passingSummands(op))
      return *way;
    if (llvm::any_of(op->getOperands(), [&](Value each) { return native[each].isSplit(); }))
      if (auto way = alongFree(op))
        return *way;
    const bool mayHaveRows =
        dividesRows && op->getNumResults() > 0 && isFloat(op->getResult(0)) &&
        llvm::none_of(op->getResults(), [&](Value each) { return leavesAsResult(layer, each); });
    if (mayHaveRows)
      if (auto way = alongFree(op, /*rowsOnly=*/true))
        return *way;
    return possible.all(op, LayoutAttr::whole(context));
  }

  /// Summands stay summands where the op reads nothing else.
  std::optional<Way> passingSummands(Operation *op) {
    const bool all = op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value each) {
                       return native[each].isPartial();
                     });
    if (!all)
      return std::nullopt;
    Way way = possible.all(op, LayoutAttr::partial(context));
    if (!llvm::is_contained(possible.withSummands(op), way))
      return std::nullopt;
    return legal(op, std::move(way));
  }

  /// Along the first letter that the op passes on; `rowsOnly`: of tokens or tiles.
  std::optional<Way> alongFree(Operation *op, bool rowsOnly = false) {
    const std::optional<FactorRule> &rule = possible.letters.ruleOf(op);
    if (!rule || op->getNumResults() == 0)
      return std::nullopt;
    for (const DimLetters &dim : rule->results[0])
      for (unsigned letter : dim)
        if (rule->kinds[letter] == LetterKind::Free &&
            !(rowsOnly && rule->sizes[letter].isStatic()))
          if (auto way = legal(op, possible.along(op, possible.letters.ofOp(op, letter))))
            return way;
    return std::nullopt;
  }

  /// The way, if it moves no parameter.
  std::optional<Way> legal(Operation *op, std::optional<Way> way) {
    if (!way)
      return std::nullopt;
    for (auto [operand, read] : llvm::zip_equal(op->getOperands(), way->reads)) {
      LayoutAttr held = native[operand];
      if (isParameter(operand) && !readsFree(held, read) &&
          !(held.isWhole() && (isFree(operand, read) || takesConstant(op, read))))
        return std::nullopt;
    }
    return way;
  }
  static bool isFree(Value value, LayoutAttr read) { return !isFloat(value) && read.isCopied(); }
  /// Whether a part takes its share of what all have, and sends nothing back.
  static bool takesConstant(Operation *op, LayoutAttr read) {
    return op->hasTrait<HasZeroGradient>() && (read.isCopied() || read.isSplit());
  }

  void write(ArrayRef<LayoutAttr> borders) {
    for (auto [op, way] : llvm::zip_equal(layer.getBody().front().without_terminator(), ways)) {
      writeLayouts(&op, readsAttrName, way.reads);
      writeLayouts(&op, layoutsAttrName, way.layouts);
    }
    writeLayouts(layer, bordersAttrName, borders);
  }

  LayerOp layer;
  bool dividesRows;
  OpWays possible;
  MLIRContext *context;
  llvm::DenseMap<Value, LayoutAttr> native;
  std::vector<Way> ways; ///< by op
};

} // namespace

void followLayouts(LayerOp layer, bool dividesRows) { LayerFollower(layer, dividesRows).run(); }

} // namespace omnibal::shard
