//===- ModelsTest.cpp - Real exports: every form gives PyTorch's logits ------------------===//
#include "passes/layers/LayerSearch.h"
#include "test/unit/passes/raise/ModelRun.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::test;

namespace {

constexpr double tolerance = 1e-5;

struct Case {
  const char *model, *graph;
  int visionLayers, languageLayers;
};

class Models : public testing::TestWithParam<Case> {
protected:
  std::string folder() const { return std::string(OMNIBAL_TEST_DATA "/") + GetParam().model; }
};

/// The layers as text, without locations and with parameters numbered.
std::string layersOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(16);
  for (auto function : module.getOps<func::FuncOp>())
    function.walk([&](LayerOp layer) {
      layer->print(out, flags);
      out << '\n';
    });
  // The operands of a layer are numbered over the whole function; only the bodies matter here.
  return text;
}

TEST_P(Models, EveryFormGivesTheLogits) {
  Model model(folder(), GetParam().graph);
  ASSERT_TRUE(model.module);
  ASSERT_TRUE(model.specialize());
  EXPECT_LT(model.worstOnInputs(), tolerance) << "form S";
  ASSERT_TRUE(model.raise());
  EXPECT_LT(model.worstOnBatchValues(), tolerance) << "form R";
  ASSERT_TRUE(model.formLayers());
  EXPECT_LT(model.worstOnBatchValues(), tolerance) << "form L";
}

/// Two samples as one row: restarting positions, pictures one after the other.
Sample packed(const Sample &a, const Sample &b) {
  Sample both = a;
  auto append = [](HostTensor &to, const HostTensor &from, size_t dim) {
    to.ints.insert(to.ints.end(), from.ints.begin(), from.ints.end());
    to.floats.insert(to.floats.end(), from.floats.begin(), from.floats.end());
    to.shape[dim] += from.shape[dim];
  };
  append(both.ids, b.ids, 1);
  append(both.pixels, b.pixels, 0);
  append(both.logits, b.logits, 1);
  both.tokens += b.tokens;
  both.tiles += b.tiles;
  return both;
}

TEST_P(Models, PackingIsInvisible) {
  Model model(folder(), GetParam().graph);
  ASSERT_TRUE(model.module && model.specialize() && model.raise() && model.formLayers());
  int64_t first = model.samples[1].tokens;
  model.samples = {packed(model.samples[1], model.samples[3])};
  EXPECT_LT(model.worstOnBatchValues({first}), tolerance);
  // The same row without the border is another row: the test can fail.
  EXPECT_GT(model.worstOnBatchValues(), 1e-3);
}

TEST_P(Models, Layers) {
  Model model(folder(), GetParam().graph);
  ASSERT_TRUE(model.module && model.specialize() && model.raise() && model.formLayers());
  std::vector<std::string> expected{"vision.embedding"}, found;
  for (int i = 0; i < GetParam().visionLayers; ++i)
    expected.push_back("vision.layers." + std::to_string(i));
  expected.insert(expected.end(), {"projector", "language.embedding"});
  for (int i = 0; i < GetParam().languageLayers; ++i)
    expected.push_back("language.layers." + std::to_string(i));
  expected.push_back("head");
  int attentions = 0, ropes = 0, norms = 0, others = 0;
  for (auto layer : model.main().getOps<LayerOp>()) {
    found.push_back(layer.getName().str());
    // One residual stream: a layer hands on one value.
    EXPECT_EQ(layer.getOutputs().size(), 1u) << found.back();
    layer.walk([&](Operation *op) {
      attentions += isa<AttentionOp>(op);
      ropes += isa<RopeOp>(op);
      norms += isa<RMSNormOp, LayerNormOp>(op);
      others += isa<SoftmaxOp, ErfOp, SigmoidOp, MatMulOp, ConvOp, CosOp, PowOp>(op);
    });
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(attentions, GetParam().visionLayers + GetParam().languageLayers);
  EXPECT_EQ(ropes, 2 * GetParam().languageLayers);
  EXPECT_GE(norms, attentions);
  EXPECT_EQ(others, 0) << "left in decomposed form";
}

/// Strips every name and location, renames parameters and inputs, and permutes the order of ops at
/// random as far as their operands allow.
void scramble(ModuleOp module, unsigned seed) {
  std::mt19937 random(seed);
  auto function = *module.getOps<func::FuncOp>().begin();
  Location unknown = UnknownLoc::get(module.getContext());
  module.walk([&](Operation *op) { op->setLoc(unknown); });
  Block &block = function.getBody().front();
  std::vector<Operation *> waiting, placed;
  for (Operation &op : block.without_terminator())
    waiting.push_back(&op);
  llvm::DenseSet<Operation *> done;
  while (!waiting.empty()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < waiting.size() && ready.size() < 64; ++i)
      if (llvm::all_of(waiting[i]->getOperands(), [&](Value v) {
            return !v.getDefiningOp() || done.contains(v.getDefiningOp());
          }))
        ready.push_back(i);
    size_t pick = ready[random() % ready.size()];
    placed.push_back(waiting[pick]);
    done.insert(waiting[pick]);
    waiting.erase(waiting.begin() + pick);
  }
  for (Operation *op : placed)
    op->moveBefore(block.getTerminator());
  SymbolTable symbols(module);
  int number = 0;
  std::vector<Operation *> parameters;
  for (auto parameter : module.getOps<ParameterOp>())
    parameters.push_back(parameter);
  std::shuffle(parameters.begin(), parameters.end(), random);
  for (Operation *parameter : parameters)
    ASSERT_TRUE(succeeded(symbols.rename(parameter, "w" + std::to_string(number++))));
  Builder builder(module.getContext());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttr(i, "omnibal.input", builder.getStringAttr("x" + std::to_string(i)));
}

TEST_P(Models, NamesAndOrderDoNotMatter) {
  Model plain(folder(), GetParam().graph);
  ASSERT_TRUE(plain.module && plain.specialize() && plain.raise() && plain.formLayers());
  for (unsigned seed : {1u, 2u}) {
    Model scrambled(folder(), GetParam().graph);
    ASSERT_TRUE(scrambled.module);
    scramble(*scrambled.module, seed);
    ASSERT_TRUE(scrambled.specialize() && scrambled.raise() && scrambled.formLayers());
    EXPECT_EQ(layersOf(*scrambled.module), layersOf(*plain.module));
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, Models,
                         testing::Values(Case{"tiny-internvl", "model.onnx", 4, 6},
                                         Case{"tiny-internvl", "model-opset23.onnx", 4, 6},
                                         Case{"tiny-llava", "model.onnx", 4, 6},
                                         Case{"tiny-llava", "model-opset23.onnx", 4, 6}),
                         [](const auto &info) {
                           std::string name = std::string(info.param.model) + info.param.graph;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });
} // namespace
