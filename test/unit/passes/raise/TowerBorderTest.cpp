//===- TowerBorderTest.cpp - Where towers of known forms end -----------------------------===//
//
// Small graphs in form R, built by hand after the architectures that people use: which parameters
// belong to vision, which to the projector. Names of parameters say nothing but what a test expects
// of them: those with "tower" are vision, those with "bridge" projector.
//
//===-------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/ir/Builders.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "passes/layers/Passes.h"
#include "passes/raise/Passes.h"
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace omnibal;

namespace {

constexpr int64_t width = 8, textWidth = 12, rows = 17, vocabulary = 32;
const SymbolicDim V = SymbolicDim::tiles(), N = SymbolicDim::tokens();

/// Builds form R op by op. Every parameter has its own name.
class FormR {
public:
  FormR() : builder(&context), loc(builder.getUnknownLoc()) {
    context.loadDialect<OmnibalDialect, func::FuncDialect>();
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    SymbolicShape logits{1, N, vocabulary};
    main = func::FuncOp::create(builder, loc, "main", builder.getFunctionType({}, typeOf(logits)));
    builder.setInsertionPointToStart(main.addEntryBlock());
  }

  Value batch(StringRef name, ArrayRef<SymbolicDim> shape, bool isFloat = false) {
    return BatchValueOp::create(builder, loc, typeOf(shape, isFloat), builder.getStringAttr(name));
  }
  Value parameter(const std::string &name, ArrayRef<int64_t> shape) {
    auto type = RankedTensorType::get(shape, builder.getF32Type());
    OpBuilder outside = OpBuilder::atBlockBegin(module->getBody());
    OperationState state(loc, ParameterOp::getOperationName());
    state.addAttribute("sym_name", builder.getStringAttr(name));
    state.addAttribute("type", TypeAttr::get(type));
    outside.create(state);
    return GetParameterOp::create(builder, loc, type, FlatSymbolRefAttr::get(&context, name));
  }
  Value linear(Value x, const std::string &name, int64_t out) {
    Value weight = parameter(name, {out, cast<RankedTensorType>(x.getType()).getShape().back()});
    return createOp<LinearOp>(builder, loc, x, weight, Value(), false);
  }
  Value norm(Value x, const std::string &name) {
    auto type = cast<RankedTensorType>(x.getType());
    Value scale = parameter(name, {type.getShape().back()});
    return createOp<RMSNormOp>(builder, loc, x, scale,
                               builder.getI64IntegerAttr(type.getRank() - 1),
                               builder.getF64FloatAttr(1e-6));
  }
  Value reshape(Value x, ArrayRef<SymbolicDim> shape) {
    return ReshapeOp::create(builder, loc, typeOf(shape, true), x, Value(), false);
  }
  Value transpose(Value x, ArrayRef<int64_t> permutation) {
    return createOp<TransposeOp>(builder, loc, x, builder.getDenseI64ArrayAttr(permutation));
  }
  Value add(Value a, Value b) { return createOp<AddOp>(builder, loc, a, b); }
  Value gelu(Value x) { return createOp<GeluOp>(builder, loc, x, UnitAttr()); }
  Value concat(ArrayRef<Value> inputs) {
    return createOp<ConcatOp>(builder, loc, inputs, builder.getI64IntegerAttr(2));
  }
  /// Everything but the first row of each tile: no class token.
  Value withoutFirstRow(Value x) {
    SymbolicShape shape = *getSymbolicShape(cast<RankedTensorType>(x.getType()));
    shape[1] = shape[1] - 1;
    return SliceOp::create(builder, loc, typeOf(shape, true), x, Value(), Value(), Value(), Value(),
                           builder.getDenseI64ArrayAttr({0, 1, 0}),
                           builder.getDenseI64ArrayAttr({1, 1, 1}));
  }

  /// Attention and a linear layer, both added to what comes in (pre-norm).
  Value block(Value x, const std::string &name, MaskKind mask = MaskKind::Full) {
    SymbolicShape shape = *getSymbolicShape(cast<RankedTensorType>(x.getType()));
    int64_t channels = shape[2].constant;
    Value heads = reshape(norm(x, name + ".norm"), {shape[0], shape[1], 2, channels / 2});
    heads = transpose(heads, {0, 2, 1, 3});
    Value borders = mask == MaskKind::Causal ? batch("cu_seqlens", {N + 1}) : Value();
    auto attention =
        createOp<AttentionOp>(builder, loc, heads, heads, heads, Value(), borders, Value(), Value(),
                              builder.getF64FloatAttr(0.5), MaskKindAttr::get(&context, mask),
                              IntegerAttr(), DenseI64ArrayAttr(), FloatAttr());
    Value joined = reshape(transpose(attention.getResult(), {0, 2, 1, 3}), shape);
    x = add(x, linear(joined, name + ".attention", channels));
    return add(x, linear(gelu(linear(x, name + ".up", channels)), name + ".down", channels));
  }
  /// Patch rows with a class token in front would need a concat; rows are given as they are.
  Value towerEmbedding() {
    return linear(batch("pixel_values", {V, rows, 6}, true), "tower.patches", width);
  }
  /// [V, 16, C] to [V, 4, 4C], two by two rows of a 4 x 4 grid.
  Value pixelShuffle(Value x) {
    x = reshape(x, {V, 2, 2, 2, 2 * width});
    return reshape(transpose(x, {0, 1, 3, 2, 4}), {V, 4, 4 * width});
  }

  /// Features added to the text's rows of pictures.
  Value addFeatures(Value x, Value features) {
    auto type = cast<RankedTensorType>(x.getType());
    auto number = RankedTensorType::get({}, type.getElementType());
    Value zero = ConstantOp::create(builder, loc, number,
                                    cast<ElementsAttr>(DenseElementsAttr::get(number, 0.0f)));
    Value zeros = ExpandOp::create(builder, loc, type, zero, Value());
    return add(x,
               ImageMergeOp::create(builder, loc, type, zeros, features, batch("image_rows", {N})));
  }

  /// Merge with text, language blocks (two, or one more than what is added behind them), head.
  /// Runs the pass.
  void finish(Value features, ArrayRef<Value> added = {}) {
    Value table = parameter("text.table", {vocabulary, textWidth});
    Value ids = ReshapeOp::create(builder, loc, typeOf({1, N}, false), batch("input_ids", {N}),
                                  Value(), false);
    Value text = createOp<EmbeddingOp>(builder, loc, table, ids, IntegerAttr());
    Value x = ImageMergeOp::create(builder, loc, text.getType(), text, features,
                                   batch("image_rows", {N}));
    for (size_t i = 0; i < std::max<size_t>(2, added.size() + 1); ++i) {
      x = block(x, "text." + std::to_string(i), MaskKind::Causal);
      if (i < added.size())
        x = addFeatures(x, added[i]);
    }
    func::ReturnOp::create(builder, loc, linear(norm(x, "text.norm"), "text.head", vocabulary));
    ASSERT_TRUE(succeeded(verify(*module)));
    PassManager manager(&context);
    manager.addPass(createFormLayersPass());
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }

  /// Names of the parameters of a kind of layer.
  std::set<std::string> parametersOf(LayerKind kind) {
    std::set<std::string> names;
    for (auto layer : main.getOps<LayerOp>())
      if (layer.getKind() == kind)
        for (Value value : layer.getParameters())
          names.insert(value.getDefiningOp<GetParameterOp>().getParameter().str());
    return names;
  }
  int countLayers(StringRef prefix) {
    return llvm::count_if(main.getOps<LayerOp>(),
                          [&](LayerOp layer) { return layer.getName().starts_with(prefix); });
  }
  /// The parameters' names say where they belong.
  void expectNamedParts() {
    for (auto [kind, word] :
         {std::pair(LayerKind::Vision, "tower"), std::pair(LayerKind::Projector, "bridge")}) {
      std::set<std::string> expected;
      for (auto parameter : module->getOps<ParameterOp>())
        if (parameter.getSymName().starts_with(word))
          expected.insert(parameter.getSymName().str());
      EXPECT_EQ(parametersOf(kind), expected) << word;
    }
  }

  MLIRContext context;
  OpBuilder builder;
  Location loc;
  OwningOpRef<ModuleOp> module;
  func::FuncOp main;

private:
  RankedTensorType typeOf(ArrayRef<SymbolicDim> shape, bool isFloat = true) {
    return makeTensorType(&context, shape,
                          isFloat ? Type(builder.getF32Type()) : Type(builder.getI32Type()));
  }
};

class TowerBorder : public testing::Test {
protected:
  /// Embedding and blocks; outputs of all blocks.
  std::vector<Value> tower(int blocks) {
    std::vector<Value> outputs;
    Value x = graph.towerEmbedding();
    for (int i = 0; i < blocks; ++i)
      outputs.push_back(x = graph.block(x, "tower." + std::to_string(i)));
    return outputs;
  }
  Value mlp(Value x) {
    x = graph.gelu(graph.linear(x, "bridge.linear1", textWidth));
    return graph.linear(x, "bridge.linear2", textWidth);
  }
  void finish(Value features) {
    graph.finish(features);
    graph.expectNamedParts();
  }
  FormR graph;
};

TEST_F(TowerBorder, NoNormThenMlp) {
  finish(mlp(graph.withoutFirstRow(tower(3).back())));
  EXPECT_EQ(graph.countLayers("vision.layers."), 3);
  EXPECT_EQ(graph.countLayers("vision.output"), 0);
}

TEST_F(TowerBorder, NoNormThenPixelShuffleAndItsNorm) {
  Value x = graph.pixelShuffle(graph.withoutFirstRow(tower(3).back()));
  finish(mlp(graph.norm(x, "bridge.norm")));
}

TEST_F(TowerBorder, LastNormThenMlp) {
  finish(mlp(graph.norm(tower(3).back(), "tower.norm")));
  EXPECT_EQ(graph.countLayers("vision.output"), 1);
}

TEST_F(TowerBorder, ClassTokenGoesBeforeTheLastNorm) {
  finish(mlp(graph.norm(graph.withoutFirstRow(tower(3).back()), "tower.norm")));
}

TEST_F(TowerBorder, LastNormThenPixelShuffle) {
  Value x = graph.withoutFirstRow(graph.norm(tower(3).back(), "tower.norm"));
  finish(graph.linear(graph.pixelShuffle(x), "bridge.linear", textWidth));
}

TEST_F(TowerBorder, LastNormThenPixelShuffleAndItsNorm) {
  Value x = graph.withoutFirstRow(graph.norm(tower(3).back(), "tower.norm"));
  finish(mlp(graph.norm(graph.pixelShuffle(x), "bridge.norm")));
}

TEST_F(TowerBorder, SecondNormOfTheWidthIsTheProjectors) {
  finish(mlp(graph.norm(graph.norm(tower(3).back(), "tower.norm"), "bridge.norm")));
}

/// Rows averaged two by two between the tower's norm and another of the same width.
TEST_F(TowerBorder, PoolingThenNormOfTheWidth) {
  Value x = graph.withoutFirstRow(graph.norm(tower(3).back(), "tower.norm"));
  Value pairs = graph.reshape(x, {V, 8, 2, width});
  OpBuilder &builder = graph.builder;
  x = createOp<ReduceOp>(builder, graph.loc, pairs, Value(), ReduceKind::Mean,
                         builder.getDenseI64ArrayAttr({2}), false, false);
  finish(graph.linear(graph.norm(x, "bridge.norm"), "bridge.linear", textWidth));
}

/// Patch mergers normalize rows and join them as they lie: their norm has the tower's width.
TEST_F(TowerBorder, NormOfJoinedRowsIsTheProjectors) {
  Value x = graph.norm(graph.withoutFirstRow(tower(3).back()), "bridge.norm");
  finish(mlp(graph.reshape(x, {V, 4, 4 * width})));
  EXPECT_EQ(graph.countLayers("vision.output"), 0);
}

TEST_F(TowerBorder, LastNormThenNormOfJoinedRows) {
  Value x = graph.norm(graph.withoutFirstRow(tower(3).back()), "tower.norm");
  finish(mlp(graph.reshape(graph.norm(x, "bridge.norm"), {V, 4, 4 * width})));
}

/// Features of several layers, without their class tokens, side by side.
TEST_F(TowerBorder, SeveralLayersConcatenated) {
  std::vector<Value> outputs = tower(5);
  std::vector<Value> chosen;
  for (int i : {1, 3, 4})
    chosen.push_back(graph.withoutFirstRow(outputs[i]));
  finish(mlp(graph.norm(graph.concat(chosen), "bridge.norm")));
  EXPECT_EQ(graph.countLayers("vision.layers."), 5);
}

TEST_F(TowerBorder, SeveralWholeLayersConcatenated) {
  std::vector<Value> outputs = tower(5);
  finish(mlp(graph.concat({outputs[0], outputs[3], outputs[4]})));
  EXPECT_EQ(graph.countLayers("vision.layers."), 5);
}

/// Features of an inner layer have a merger of their own.
TEST_F(TowerBorder, MergerOfAnInnerLayer) {
  Value x = graph.towerEmbedding(), inner;
  for (int i = 0; i < 4; ++i) {
    x = graph.block(x, "tower." + std::to_string(i));
    if (i == 1)
      inner = graph.linear(graph.norm(x, "bridge.inner.norm"), "bridge.inner", textWidth);
  }
  finish(graph.add(graph.linear(x, "bridge.outer", textWidth), inner));
  EXPECT_EQ(graph.countLayers("vision.layers."), 4);
}

/// A resampler: latents attend to the features, twice; another width than the tower's.
TEST_F(TowerBorder, ResamplerIsTheProjector) {
  Value context = graph.linear(graph.norm(tower(3).back(), "tower.norm"), "bridge.in", textWidth);
  auto split = [&](Value x, int64_t count) {
    return graph.transpose(graph.reshape(x, {V, count, 2, textWidth / 2}), {0, 2, 1, 3});
  };
  OpBuilder &builder = graph.builder;
  Value latents = ExpandOp::create(
      builder, graph.loc, makeTensorType(&graph.context, {V, 4, textWidth}, builder.getF32Type()),
      graph.parameter("bridge.latents", {1, 4, textWidth}), Value());
  for (int i = 0; i < 2; ++i) {
    std::string name = "bridge." + std::to_string(i);
    Value q = split(graph.linear(graph.norm(latents, name + ".norm"), name + ".q", textWidth), 4);
    Value k = split(graph.linear(context, name + ".k", textWidth), rows);
    auto attention = createOp<AttentionOp>(builder, graph.loc, q, k, k, Value(), Value(), Value(),
                                           Value(), builder.getF64FloatAttr(0.5),
                                           MaskKindAttr::get(&graph.context, MaskKind::Full),
                                           IntegerAttr(), DenseI64ArrayAttr(), FloatAttr());
    Value joined =
        graph.reshape(graph.transpose(attention.getResult(), {0, 2, 1, 3}), {V, 4, textWidth});
    latents = graph.add(latents, graph.linear(joined, name + ".out", textWidth));
  }
  finish(graph.norm(latents, "bridge.norm"));
}

/// Blocks of another structure after the repeated ones (gated, say) still belong to the tower.
TEST_F(TowerBorder, OtherBlocksOfTheSameWidth) {
  Value x = graph.towerEmbedding();
  for (int i = 0; i < 3; ++i)
    x = graph.block(x, "tower." + std::to_string(i));
  x = graph.block(graph.add(x, graph.gelu(x)), "tower.other");
  finish(mlp(x));
}

TEST_F(TowerBorder, OneBlock) { finish(mlp(graph.norm(tower(1).back(), "tower.norm"))); }

TEST_F(TowerBorder, NoBlock) {
  Value x = graph.add(graph.towerEmbedding(), graph.parameter("tower.positions", {rows, width}));
  finish(mlp(graph.norm(x, "tower.norm")));
}

TEST_F(TowerBorder, FeaturesOfInnerBlocksAddedToTheFirstLanguageBlocks) {
  std::vector<Value> outputs = tower(4);
  std::vector<Value> added;
  for (int i : {0, 2}) {
    Value x = graph.gelu(graph.linear(outputs[i], "bridge.up" + std::to_string(i), textWidth));
    added.push_back(graph.linear(x, "bridge.down" + std::to_string(i), textWidth));
  }
  graph.finish(mlp(outputs.back()), added);
  graph.expectNamedParts();
  EXPECT_EQ(graph.countLayers("vision.layers"), 4);
  EXPECT_EQ(graph.countLayers("language.layers"), 3);
  // What is added comes from the projector, and belongs to the block that it is added behind.
  std::vector<unsigned> inputs;
  for (auto layer : graph.main.getOps<LayerOp>())
    if (layer.getName().starts_with("language.layers"))
      inputs.push_back(layer.getInputs().size());
  EXPECT_EQ(inputs, (std::vector<unsigned>{2, 2, 1}));
}

} // namespace
