//===- LayerTest.cpp - Layouts of whole layers, random and by hand ---------------------------===//
#include "dialects/omnibal/ir/FactorRule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/LayerLetters.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Ways.h"
#include "test/unit/passes/shard/PartsCheck.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace omnibal;
using omnibal::shard::LayerLetters;
using omnibal::test::PartsCheck;

namespace {

constexpr int64_t tiles = 3, tokens = 7;

/// Draws legal layouts for a layer: for each op a way, for parameters what all readers agree on.
class RandomLayouts {
public:
  RandomLayouts(LayerOp layer, std::mt19937 &random)
      : layer(layer), letters(layer), random(random), context(layer.getContext()) {}

  /// Writes the attributes; false where parameters found no layout for all their readers.
  bool draw();

private:
  struct Place {
    unsigned ofOp, ofLayer; ///< a letter of the op's rule, and one of the layer's that it has
    bool operator==(const Place &) const = default;
  };
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }
  LayoutAttr whole() { return LayoutAttr::whole(context); }
  LayoutAttr copied() { return LayoutAttr::copied(context); }
  LayoutAttr partial() { return LayoutAttr::partial(context); }

  SmallVector<Place> placesOf(Operation *op, const DimLetters &dim);
  LayoutAttr splitOf(int64_t dim, ArrayRef<Place> all, size_t begin, size_t count);
  /// The split of a value along these letters; null without any of them, none if not side by side.
  std::optional<LayoutAttr> along(Operation *op, const ValueLetters &dims, ArrayRef<Place> run);
  void drawWay(Operation *op);
  bool drawSplit(Operation *op, const FactorRule &rule);
  void fill(Operation *op, LayoutAttr reads, LayoutAttr layouts);
  void set(Operation *op, StringRef name, ArrayRef<LayoutAttr> list) {
    SmallVector<Attribute> attributes(list.begin(), list.end());
    op->setAttr(name, ArrayAttr::get(context, attributes));
  }
  bool hold(unsigned parameter);
  LayoutAttr border(Value value);

  LayerOp layer;
  LayerLetters letters;
  std::mt19937 &random;
  MLIRContext *context;
};

SmallVector<RandomLayouts::Place> RandomLayouts::placesOf(Operation *op, const DimLetters &dim) {
  SmallVector<Place> places;
  for (unsigned letter : dim)
    for (unsigned leaf : letters.ofOp(op, letter))
      places.push_back({letter, leaf});
  return places;
}

LayoutAttr RandomLayouts::splitOf(int64_t dim, ArrayRef<Place> all, size_t begin, size_t count) {
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

std::optional<LayoutAttr> RandomLayouts::along(Operation *op, const ValueLetters &dims,
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

void RandomLayouts::fill(Operation *op, LayoutAttr reads, LayoutAttr layouts) {
  set(op, shard::readsAttrName, SmallVector<LayoutAttr>(op->getNumOperands(), reads));
  set(op, shard::layoutsAttrName, SmallVector<LayoutAttr>(op->getNumResults(), layouts));
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
  ArrayRef<Place> run = ArrayRef(places).slice(begin, count);
  bool sums = true;
  for (const Place &place : run) {
    if (rule.kinds[place.ofOp] == LetterKind::Closed)
      return false;
    sums &= rule.kinds[place.ofOp] == LetterKind::Sum;
  }
  SmallVector<LayoutAttr> reads, layouts;
  bool gives = false;
  for (auto [i, dims] : llvm::enumerate(rule.results)) {
    auto split = along(op, dims, run);
    if (!split || (!*split && !sums))
      return false;
    gives |= !*split;
    layouts.push_back(*split ? *split : partial());
  }
  for (auto [i, dims] : llvm::enumerate(rule.operands)) {
    auto split = along(op, dims, run);
    if (!split)
      return false;
    const bool isAdded = gives && llvm::is_contained(rule.added, i);
    reads.push_back(*split ? *split : (isAdded ? partial() : copied()));
  }
  set(op, shard::readsAttrName, reads);
  set(op, shard::layoutsAttrName, layouts);
  return true;
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

/// Chooses how a parameter is held from how it is read.
bool RandomLayouts::hold(unsigned parameter) {
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

class LayerTest : public ::testing::Test {
protected:
  LayerTest() {
    context.loadDialect<OmnibalDialect, func::FuncDialect, PlanDialect>();
    module = parseSourceFile<ModuleOp>(LAYER_CASES, &context);
  }

  LayerOp layerOf(StringRef name) {
    return *module->lookupSymbol<func::FuncOp>(name).getOps<LayerOp>().begin();
  }
  HostTensor integers(ArrayRef<int64_t> values, bool asRow) {
    SmallVector<int64_t> shape{static_cast<int64_t>(values.size())};
    if (asRow)
      shape.insert(shape.begin(), 1);
    HostTensor tensor(IntegerType::get(&context, 32), shape);
    tensor.ints.assign(values.begin(), values.end());
    return tensor;
  }
  PartsCheck checkOf(LayerOp layer) {
    SmallVector<HostTensor> arguments;
    for (BlockArgument argument : layer.getBody().front().getArguments()) {
      SmallVector<int64_t> shape;
      auto type = cast<RankedTensorType>(argument.getType());
      SymbolicShape symbolic = *getSymbolicShape(type);
      for (const SymbolicDim &dim : symbolic)
        shape.push_back(dim.evaluate(tiles, tokens));
      HostTensor &value = arguments.emplace_back(type.getElementType(), shape);
      for (double &each : value.floats)
        each = std::uniform_real_distribution<double>(-1, 1)(random);
    }
    PartsCheck check(layer, arguments, tiles, tokens);
    check.batchValues["cu_seqlens"] = integers({0, 3, 7, 7, 7, 7, 7, 7}, false);
    check.batchValues["positions"] = integers({0, 1, 2, 0, 1, 2, 3}, false);
    check.batchValues["input_ids"] = integers({4, 0, 10, 9, 9, 3, 1}, true);
    check.batchValues["image_rows"] = integers({-1, 11, 0, 5, -1, -1, 2}, false);
    check.batchValues["targets"] = integers({0, -1, -1, 9, 3, 1, -1}, true);
    return check;
  }
  bool verifies() {
    PassManager passes(&context);
    passes.addPass(createVerifyLayouts());
    return succeeded(passes.run(*module));
  }
  void clear() {
    module->walk([](Operation *op) {
      for (StringRef name : {StringRef(shard::readsAttrName), StringRef(shard::layoutsAttrName),
                             StringRef(shard::bordersAttrName), StringRef(shard::heldAttrName)})
        op->removeAttr(name);
    });
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::mt19937 random{17};
};

TEST_F(LayerTest, RandomLegalLayoutsGiveWhatTheLayerGives) {
  for (StringRef name : {"block", "tower", "ends"}) {
    SCOPED_TRACE(name.str());
    LayerOp layer = layerOf(name);
    int64_t drawn = 0, splits = 0;
    for (int round = 0; round < 40; ++round) {
      clear();
      RandomLayouts layouts(layer, random);
      if (!layouts.draw())
        continue;
      ++drawn;
      layer.walk([&](Operation *op) {
        if (auto list = op->getAttrOfType<ArrayAttr>(shard::layoutsAttrName))
          for (auto layout : list.getAsRange<LayoutAttr>())
            splits += layout.isSplit();
      });
      ASSERT_TRUE(verifies()); // the letters of the layer and the judge of single ops agree
      PartsCheck check = checkOf(layer);
      ASSERT_EQ(check.prepare(), "");
      for (int64_t parts : {2, 3, 4, 8})
        ASSERT_EQ(check.run(parts), "") << parts << " parts, round " << round;
    }
    EXPECT_GE(drawn, 8);
    EXPECT_GE(splits, drawn * 3);
  }
}

TEST_F(LayerTest, LettersAreThoseThatAllOpsOfADimensionAgreeOn) {
  LayerOp layer = layerOf("block");
  LayerLetters letters(layer);
  auto sizes = [&](Value value, unsigned dim) {
    SmallVector<int64_t> found;
    const ValueLetters dims = letters.of(value);
    for (unsigned letter : dims[dim])
      found.push_back(letters.sizeOf(letter).constant);
    return found;
  };
  Block &body = layer.getBody().front();
  // Query columns are key heads, queries of each, features; so are rows of the weight.
  EXPECT_EQ(sizes(body.getArgument(2), 0), (SmallVector<int64_t>{3, 2, 2}));
  EXPECT_EQ(sizes(body.getArgument(3), 0), (SmallVector<int64_t>{3, 2}));
  EXPECT_EQ(sizes(body.getArgument(5), 1), (SmallVector<int64_t>{3, 2, 2})); // wo reads them
  EXPECT_EQ(letters.of(body.getArgument(2))[0][0], letters.of(body.getArgument(3))[0][0]);
  EXPECT_EQ(sizes(body.getArgument(10), 1), (SmallVector<int64_t>{9})); // ffn
  // Three projections in one: 3 x heads x features.
  LayerOp tower = layerOf("tower");
  LayerLetters ofTower(tower);
  SmallVector<int64_t> found;
  const ValueLetters dims = ofTower.of(tower.getBody().front().getArgument(3));
  for (unsigned letter : dims[0])
    found.push_back(ofTower.sizeOf(letter).constant);
  EXPECT_EQ(found, (SmallVector<int64_t>{3, 3, 2}));
}

} // namespace
