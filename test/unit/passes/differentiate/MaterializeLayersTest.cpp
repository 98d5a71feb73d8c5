//===- MaterializeLayersTest.cpp - Losses and gradients of form C ------------------------===//
//
// A hand-written model (two equal vision blocks, projector, merge, two equal language blocks, head)
// becomes form C and runs in the interpreter in float64. Gradients are compared with central
// differences of the losses that `inference`'s logits give, computed here.
//
//===-------------------------------------------------------------------------------------------===//
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/differentiate/Passes.h"
#include "passes/layers/Passes.h"
#include "test/lib/TestPasses.h"
#include "test/unit/passes/differentiate/FormC.h"
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::test;

namespace {
struct Case {
  std::string name, remat = "keep";
  std::vector<std::string> freeze = {};
  std::string freezeMatch = "";
  int64_t tiles = 3;
};

void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

class FormCGradients : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    DialectRegistry registry;
    registry.insert<OmnibalDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    module = parseSourceFile<ModuleOp>(OMNIBAL_TEST_DATA "/../lit/Inputs/form-l.mlir", &context);
    ASSERT_TRUE(module);
    PassManager passes(&context);
    if (!GetParam().freeze.empty() || !GetParam().freezeMatch.empty()) {
      FreezeOptions freeze;
      freeze.components.assign(GetParam().freeze.begin(), GetParam().freeze.end());
      freeze.match = GetParam().freezeMatch;
      passes.addPass(createFreeze(freeze));
    }
    passes.addPass(createAttachLoss());
    if (StringRef(GetParam().remat).starts_with("selective"))
      selectWhereKnown();
    passes.addPass(test::createSelectRemat(GetParam().remat == "full" ? "full" : "keep"));
    passes.addPass(createMaterializeLayers({/*splitBackward=*/true}));
    passes.addPass(createVerifyFunctions());
    ASSERT_TRUE(succeeded(passes.run(*module)));

    tokens = 14;
    interpreter = std::make_unique<Interpreter>(
        InterpreterOptions{GetParam().tiles, tokens, /*float64=*/true});
    std::mt19937 generator(7);
    std::normal_distribution<double> normal;
    for (auto parameter : module->getOps<ParameterOp>()) {
      auto type = cast<RankedTensorType>(parameter.getType());
      HostTensor value(type.getElementType(), type.getShape());
      for (double &element : value.floats)
        element = (type.getRank() == 1 ? 1.0 : 0.0) + 0.4 * normal(generator);
      interpreter->parameters[parameter.getSymName()] = value;
    }
    Type f32 = Float32Type::get(&context);
    HostTensor pixels(f32, {GetParam().tiles, 4, 6});
    for (double &element : pixels.floats)
      element = normal(generator);
    interpreter->batchValues["pixel_values"] = pixels;
    // Two samples of 6 and 8 tokens; each tile gives two rows, placed at tokens 1.. and 8...
    bindIntegers("input_ids", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3});
    bindIntegers("positions", {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6, 7});
    bindIntegers("cu_seqlens", {0, 6, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14});
    bindIntegers("targets", {-1, 3, 9, 1, 10, -1, 2, 4, 6, 8, 10, 0, 5, -1});
    std::vector<int64_t> rows(tokens, -1);
    const int64_t places[] = {1, 2, 8, 9, 11, 12};
    for (int64_t row = 0; row < 2 * GetParam().tiles; ++row)
      rows[places[row]] = row;
    bindIntegers("image_rows", rows);
  }

  /// Every layer that has the option gets it; at least one has.
  void selectWhereKnown() {
    OwningOpRef<ModuleOp> copy(module->clone());
    PassManager passes(&context);
    passes.addPass(createAttachLoss());
    passes.addPass(createMaterializeLayers());
    ASSERT_TRUE(succeeded(passes.run(*copy)));
    std::set<std::string> known;
    copy->walk([&](CallLayerOp call) {
      auto layer = copy->lookupSymbol<LayerFnOp>(call.getCallee());
      for (Attribute name : layer->getAttrOfType<ArrayAttr>("omnibal.remat_options"))
        if (cast<StringAttr>(name) == GetParam().remat)
          known.insert(call.getName().str());
    });
    EXPECT_FALSE(known.empty());
    module->walk([&](LayerOp layer) {
      if (known.count(layer.getName().str()))
        layer->setAttr("omnibal.remat", StringAttr::get(&context, GetParam().remat));
    });
  }

  void bindIntegers(StringRef name, std::vector<int64_t> elements) {
    HostTensor value(IntegerType::get(&context, 32), {static_cast<int64_t>(elements.size())});
    value.ints = std::move(elements);
    interpreter->batchValues[name] = value;
  }

  /// Per-token losses from the logits that `inference` yields.
  std::vector<double> lossesOfLogits() {
    HostTensor logits = FormC(*module, *interpreter).inference();
    const std::vector<int64_t> &targets = interpreter->batchValues["targets"].ints;
    std::vector<double> losses(tokens);
    for (int64_t t = 0; t < tokens; ++t) {
      if (targets[t] < 0)
        continue;
      double sum = 0;
      for (int64_t c = 0; c < 11; ++c)
        sum += std::exp(logits.floats[t * 11 + c]);
      losses[t] = std::log(sum) - logits.floats[t * 11 + targets[t]];
    }
    return losses;
  }
  double totalLoss() {
    double total = 0;
    for (double loss : lossesOfLogits())
      total += loss;
    return total;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<Interpreter> interpreter;
  int64_t tokens = 0;
};

TEST_P(FormCGradients, matchCentralDifferences) {
  StepResult step = FormC(*module, *interpreter).train();
  std::vector<double> losses = lossesOfLogits();
  ASSERT_EQ(step.loss.floats.size(), losses.size());
  for (int64_t t = 0; t < tokens; ++t)
    EXPECT_NEAR(step.loss.floats[t], losses[t], 1e-10) << "token " << t;

  std::mt19937 generator(11);
  std::normal_distribution<double> normal;
  int64_t withGradient = 0;
  for (auto parameter : module->getOps<ParameterOp>()) {
    std::string name = parameter.getSymName().str();
    auto found = step.gradients.find(name);
    EXPECT_EQ(found == step.gradients.end(), parameter.getFrozen()) << name;
    if (found == step.gradients.end())
      continue;
    ++withGradient;
    // Along a random direction, so that every element counts.
    HostTensor &value = interpreter->parameters[name];
    const std::vector<double> before = value.floats;
    ASSERT_EQ(found->second.floats.size(), before.size()) << name;
    double expected = 0, norm = 0, step = 1e-5;
    std::vector<double> direction(before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      direction[i] = normal(generator);
      expected += direction[i] * found->second.floats[i];
      norm += found->second.floats[i] * found->second.floats[i];
    }
    double difference[2];
    for (int side : {0, 1}) {
      for (size_t i = 0; i < before.size(); ++i)
        value.floats[i] = before[i] + (side ? step : -step) * direction[i];
      difference[side] = totalLoss();
    }
    value.floats = before;
    double measured = (difference[1] - difference[0]) / (2 * step);
    EXPECT_NEAR(measured, expected, 1e-6 * (1 + std::sqrt(norm))) << name;
    if (GetParam().tiles != 0)
      EXPECT_GT(norm, 1e-12) << name;
  }
  EXPECT_GT(withGradient, 0);
}

TEST_P(FormCGradients, evaluationAgreesWithLogits) {
  Evaluation evaluation = FormC(*module, *interpreter).evaluate();
  std::vector<double> losses = lossesOfLogits();
  HostTensor logits = FormC(*module, *interpreter).inference();
  const std::vector<int64_t> &targets = interpreter->batchValues["targets"].ints;
  for (int64_t t = 0; t < tokens; ++t) {
    EXPECT_NEAR(evaluation.loss.floats[t], losses[t], 1e-10) << "token " << t;
    auto row = logits.floats.begin() + t * 11;
    int64_t best = targets[t] < 0 ? -1 : std::max_element(row, row + 11) - row;
    EXPECT_EQ(evaluation.prediction.ints[t], best) << "token " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FormCGradients,
    testing::Values(Case{"keep"}, Case{"full", "full"}, Case{"selective1", "selective-1"},
                    Case{"selective2", "selective-2"}, Case{"selective3", "selective-3"},
                    Case{"frozenVision", "keep", {"vision"}},
                    Case{"frozenVisionFull", "full", {"vision"}},
                    Case{"frozenLanguage", "keep", {"vision", "language"}},
                    Case{"frozenLanguageFull", "full", {"language"}},
                    Case{"onlyVisionTrains", "keep", {"projector", "language"}},
                    Case{"onlyEmbeddingFrozen", "keep", {}, "^text.embedding$"},
                    Case{"onlyHeadTrains", "keep", {}, "^(vision|projector|text.[^h])"},
                    Case{"someNormsFrozen", "keep", {}, "norm1"},
                    Case{"withoutImages", "keep", {}, "", 0}),
    [](const testing::TestParamInfo<Case> &info) { return info.param.name; });
} // namespace
