//===- LayerTest.cpp - Layouts of whole layers, random and by hand ---------------------------===//
#include "dialects/omnibal/ir/FactorRule.h"
#include "passes/shard/FollowLayouts.h"
#include "passes/shard/Ways.h"
#include "test/unit/passes/shard/LayerFixture.h"
#include "test/unit/passes/shard/LayoutWriter.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace omnibal;
using omnibal::test::LayoutWriter;
using omnibal::test::PartsCheck;
using omnibal::test::RandomLayouts;

namespace {

class LayerTest : public omnibal::test::LayerFixture {
protected:
  /// Writes the layouts of the schemes by hand: the ops whose numbers `letterOf` maps to a letter
  /// are split along it, the others whole or copied.
  void write(LayerOp layer, LayoutAttr border,
             llvm::function_ref<std::optional<unsigned>(Operation *, LayoutWriter &)> letterOf);
};

void LayerTest::write(
    LayerOp layer, LayoutAttr border,
    llvm::function_ref<std::optional<unsigned>(Operation *, LayoutWriter &)> letterOf) {
  clear();
  LayoutWriter writer(layer);
  for (Operation &op : layer.getBody().front().without_terminator()) {
    std::optional<unsigned> letter = letterOf(&op, writer);
    if (letter && writer.split(&op, *letter))
      continue;
    const bool isGiven = isa<ConstantOp, BatchValueOp, ConcatOp>(op);
    LayoutAttr all = isGiven ? LayoutAttr::copied(&context) : LayoutAttr::whole(&context);
    writer.fill(&op, all, all);
  }
  writer.set(layer, shard::bordersAttrName,
             SmallVector<LayoutAttr>(layer.getInputs().size() + layer.getOutputs().size(), border));
  for (unsigned i = 0; i < layer.getParameters().size(); ++i)
    EXPECT_TRUE(writer.hold(i)) << "parameter " << i;
}

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

/// Words of a head that is held by shares: the loss, of tokens or of pairs, is whole on all parts.
TEST_F(LayerTest, WordsOfALossFollowTheirWeight) {
  for (StringRef name : {"ends", "pairs"}) {
    SCOPED_TRACE(name.str());
    clear();
    LayerOp layer = layerOf(name);
    for (Value parameter : layer.getParameters()) {
      auto type = cast<RankedTensorType>(parameter.getType());
      if (type.getDimSize(0) == 11)
        SymbolTable::lookupNearestSymbolFrom(
            layer, parameter.getDefiningOp<GetParameterOp>().getParameterAttr())
            ->setAttr(shard::heldAttrName, LayoutAttr::split(&context, 0, 11));
    }
    shard::followLayouts(layer);
    layer.walk([&](LinearCrossEntropyOp loss) {
      const auto reads = *shard::findLayouts(loss, shard::readsAttrName, loss.getNumOperands()),
                 made = *shard::findLayouts(loss, shard::layoutsAttrName, 2);
      EXPECT_TRUE(reads[0].isCopied() && reads[1].isSplit() && made[0].isWhole());
    });
    const int64_t tokens = 7, features = 8;
    for (int64_t parts : {2, 3, 4, 8}) {
      const int64_t sent = sentBy(layer, parts, tokens);
      if (name != "pairs")
        continue;
      // The gradient of what goes in is added; four numbers of a row, of which one is the mean's,
      // and its prediction go to all.
      EXPECT_EQ(sent, 2 * (parts - 1) * tokens * features + parts * (parts - 1) * tokens * (4 + 1));
    }
  }
}

TEST_F(LayerTest, LettersAreThoseThatAllOpsOfADimensionAgreeOn) {
  LayerOp layer = layerOf("block");
  shard::LayerLetters letters(layer);
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
  shard::LayerLetters ofTower(tower);
  SmallVector<int64_t> found;
  const ValueLetters dims = ofTower.of(tower.getBody().front().getArgument(3));
  for (unsigned letter : dims[0])
    found.push_back(ofTower.sizeOf(letter).constant);
  EXPECT_EQ(found, (SmallVector<int64_t>{3, 3, 2}));
}

/// The schemes that people use are layouts, and send what their authors counted: N tokens, C = 8
/// columns, 6 query and 3 key heads of 2 features, forward and backward.
class SchemeTest : public LayerTest {
protected:
  SchemeTest() : block(layerOf("block")) {
    LayoutWriter writer(block);
    Block &body = block.getBody().front();
    token = writer.letters.of(body.getArgument(0))[1][0];
    head = writer.letters.of(body.getArgument(2))[0][0];
    ffn = writer.letters.of(body.getArgument(8))[0][0];
  }
  static bool isRowWork(Operation *op) { return isa<RMSNormOp, AddOp>(op); }
  std::optional<unsigned> inside(Operation *op) const {
    const bool isFfn = isa<SiluOp, MulOp>(op) || isFfnProduct(op);
    return isFfn ? ffn : head;
  }
  static bool isFfnProduct(Operation *op) {
    auto type = [](Value value) { return cast<RankedTensorType>(value.getType()); };
    return isa<LinearOp>(op) && llvm::is_contained(type(op->getOperand(1)).getShape(), 9);
  }

  LayerOp block;
  unsigned token, head, ffn;
};

TEST_F(SchemeTest, MegatronTensor) {
  write(block, LayoutAttr::whole(&context),
        [&](Operation *op, LayoutWriter &) { return isRowWork(op) ? std::nullopt : inside(op); });
  for (int64_t parts : {2, 3, 4})
    EXPECT_EQ(sentBy(block, parts, 7), 4 * 2 * (parts - 1) * 7 * 8); // four all_reduces
}

TEST_F(SchemeTest, MegatronSequence) {
  write(block, LayoutAttr::split(&context, 1, UnitsOf::Tokens), [&](Operation *op, LayoutWriter &) {
    return isRowWork(op) ? std::optional(token) : inside(op);
  });
  for (int64_t parts : {2, 3, 4}) // four all_gathers, four reduce_scatters
    EXPECT_EQ(sentBy(block, parts, 7), (4 + 4) * (parts - 1) * 7 * 8);
}

TEST_F(SchemeTest, Ulysses) {
  write(block, LayoutAttr::split(&context, 1, UnitsOf::Tokens),
        [&](Operation *op, LayoutWriter &) { return isa<AttentionOp>(op) ? head : token; });
  // Query, key, value, result, and their gradients: (k - 1) / k of each is sent.
  EXPECT_EQ(sentBy(block, 3, 9), 2 * 2 * 9 * (6 + 3) * 2 * (3 - 1) / 3);
  sentBy(block, 4, 7);
}

TEST_F(SchemeTest, Tiles) {
  LayerOp tower = layerOf("tower");
  write(tower, LayoutAttr::split(&context, 0, UnitsOf::Tiles), [&](Operation *, LayoutWriter &w) {
    return w.letters.of(tower.getBody().front().getArgument(0))[0][0];
  });
  for (int64_t parts : {2, 3, 4})
    EXPECT_EQ(sentBy(tower, parts, 7), 0);
}

} // namespace
