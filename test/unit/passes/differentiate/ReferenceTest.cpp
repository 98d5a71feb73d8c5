//===- ReferenceTest.cpp - Exported models against PyTorch -------------------------------===//
//
// The first step of reference.json: the exported model becomes form C, runs in the interpreter in
// float64 on the step's packed groups, and gives PyTorch's loss (every sample run alone, float64)
// and the norm of every parameter's gradient. Exactly PyTorch's parameters have a gradient.
//
//===-------------------------------------------------------------------------------------------===//
#include "importers/onnx/OnnxImporter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/differentiate/Passes.h"
#include "passes/driver/Pipelines.h"
#include "passes/layers/Passes.h"
#include "runtime/data/Dataset.h"
#include "test/lib/TestPasses.h"
#include "test/unit/passes/differentiate/FormC.h"
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace omnibal;
using namespace omnibal::test;

namespace {
struct Case {
  std::string model, graph, variant, remat;
  std::vector<std::string> freeze = {};
};
void PrintTo(const Case &c, std::ostream *os) { *os << c.model << " " << c.variant; }

nlohmann::json readJson(const std::string &path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

class Reference : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    folder = std::string(OMNIBAL_TEST_DATA "/") + GetParam().model + "/";
    reference = readJson(folder + "reference.json")["variants"][GetParam().variant];
    fixture = readJson(folder + "fixture.json");

    DialectRegistry registry;
    registry.insert<OmnibalDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto imported = importOnnx(folder + GetParam().graph, {}, context);
    ASSERT_TRUE(succeeded(imported));
    module = std::move(*imported);
    PassManager passes(&context);
    FindLayersOptions layers;
    layers.tokens = 512;
    layers.freeze = ArrayRef<std::string>(GetParam().freeze);
    buildFindLayersPipeline(passes, layers, layers);
    passes.addPass(test::createSelectRemat(GetParam().remat));
    passes.addPass(createMaterializeLayers({/*splitBackward=*/true}));
    passes.addPass(createVerifyFunctions());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    readParameters();
    auto opened = rt::Dataset::open({folder + "data-000000.tar"});
    ASSERT_TRUE(opened) << opened.status().message();
    dataset = *opened;
    auto read = rt::Preprocess::read(folder + "preprocessor_config.json");
    ASSERT_TRUE(read) << read.status().message();
    preprocess = *read;
  }

  void readParameters() {
    for (auto parameter : module->getOps<ParameterOp>()) {
      auto type = cast<RankedTensorType>(parameter.getType());
      HostTensor value(type.getElementType(), type.getShape());
      ASSERT_TRUE(parameter.getFile()) << parameter.getSymName().str();
      ASSERT_FALSE(parameter.getTransposed()) << parameter.getSymName().str();
      std::ifstream stream(folder + parameter.getFile()->str(), std::ios::binary);
      stream.seekg(parameter.getOffset().value_or(0));
      std::vector<float> elements(value.size());
      stream.read(reinterpret_cast<char *>(elements.data()), elements.size() * sizeof(float));
      ASSERT_TRUE(stream) << parameter.getSymName().str();
      value.floats.assign(elements.begin(), elements.end());
      parameters[parameter.getSymName().str()] = std::move(value);
    }
  }

  HostTensor integers(std::vector<int64_t> elements) {
    HostTensor value(IntegerType::get(&context, 32), {static_cast<int64_t>(elements.size())});
    value.ints = std::move(elements);
    return value;
  }

  /// Packs samples as the runtime does and runs the group forward and backward.
  StepResult runGroup(const std::vector<std::string> &keys) {
    std::vector<int64_t> ids, positions, targets, rows, borders = {0};
    HostTensor pixels(Float32Type::get(&context), {0, 3, tile(), tile()});
    for (const std::string &key : keys) {
      int64_t index = dataset->find(key);
      rt::Sample sample = *dataset->sample(index);
      for (int64_t t = 0; t < sample.tokens(); ++t) {
        ids.push_back(sample.inputIds[t]);
        positions.push_back(t);
        int32_t label = t + 1 < sample.tokens() ? sample.labels[t + 1] : rt::ignoredLabel;
        targets.push_back(label == rt::ignoredLabel ? -1 : label);
      }
      borders.push_back(static_cast<int64_t>(ids.size()));
      std::vector<float> decoded(sample.tiles * 3 * tile() * tile());
      EXPECT_TRUE(dataset->decodeTiles(index, preprocess, tile(), tile(), decoded.data()));
      pixels.floats.insert(pixels.floats.end(), decoded.begin(), decoded.end());
      pixels.shape[0] += sample.tiles;
    }
    int64_t imageRows = 0;
    for (int64_t id : ids)
      rows.push_back(id == fixture["image_token_id"] ? imageRows++ : -1);
    int64_t tokens = static_cast<int64_t>(ids.size());
    borders.resize(tokens + 1, tokens);

    Interpreter interpreter(InterpreterOptions{pixels.shape[0], tokens, /*float64=*/true});
    for (const auto &[name, value] : parameters)
      interpreter.parameters[name] = value;
    interpreter.batchValues["pixel_values"] = pixels;
    interpreter.batchValues["input_ids"] = integers(ids);
    interpreter.batchValues["positions"] = integers(positions);
    interpreter.batchValues["targets"] = integers(targets);
    interpreter.batchValues["image_rows"] = integers(rows);
    interpreter.batchValues["cu_seqlens"] = integers(borders);
    return FormC(*module, interpreter).train();
  }
  int64_t tile() { return fixture["tile_size"]; }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string folder;
  nlohmann::json reference, fixture;
  std::map<std::string, HostTensor> parameters;
  std::shared_ptr<const rt::Dataset> dataset;
  rt::Preprocess preprocess;
};

TEST_P(Reference, firstStepAgrees) {
  const nlohmann::json &step = reference["steps"][0];
  double loss = 0, labels = step["label_tokens"];
  std::map<std::string, std::vector<double>> gradients;
  for (const auto &group : step["groups"]) {
    StepResult result = runGroup(group);
    for (double token : result.loss.floats)
      loss += token / labels;
    for (const auto &[name, gradient] : result.gradients) {
      std::vector<double> &sum = gradients[name];
      sum.resize(gradient.floats.size());
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += gradient.floats[i] / labels;
    }
  }
  auto number = [](const nlohmann::json &text) { return std::stod(text.get<std::string>()); };
  double expectedLoss = number(step["loss_float64"]), global = number(step["grad_norm_float64"]);
  EXPECT_NEAR(loss, expectedLoss, 1e-6 * expectedLoss);

  double squares = 0, worst = 0;
  const auto &norms = reference["gradient_norms_step0_float64"];
  for (const auto &[name, gradient] : gradients) {
    ASSERT_TRUE(norms.contains(name)) << name << " has a gradient here only";
    double sum = 0, expected = number(norms[name]);
    for (double element : gradient)
      sum += element * element;
    squares += sum;
    double error = std::abs(std::sqrt(sum) - expected), allowed = 2e-5 * expected + 1e-6 * global;
    EXPECT_LE(error, allowed) << name << ": " << std::sqrt(sum) << " instead of " << expected;
    worst = std::max(worst, error / allowed);
  }
  EXPECT_EQ(gradients.size(), norms.size()) << "some parameters have no gradient here";
  EXPECT_NEAR(std::sqrt(squares), global, 1e-6 * global);
  RecordProperty("share_of_tolerance", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(
    Models, Reference,
    testing::Values(
        Case{"tiny-internvl", "model.onnx", "train_all", "keep"},
        Case{"tiny-internvl", "model-opset23.onnx", "train_all", "full"},
        Case{"tiny-internvl", "model.onnx", "freeze_vision", "full", {"vision"}},
        Case{"tiny-internvl", "model.onnx", "freeze_llm", "keep", {"vision", "language"}},
        Case{"tiny-llava", "model.onnx", "train_all", "full"},
        Case{"tiny-llava", "model-opset23.onnx", "freeze_vision", "keep", {"vision"}},
        Case{"tiny-llava", "model-opset23.onnx", "freeze_llm", "full", {"vision", "language"}}),
    [](const testing::TestParamInfo<Case> &info) {
      std::string name =
          info.param.model + info.param.variant + info.param.remat + std::to_string(info.index);
      std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
      return name;
    });
} // namespace
