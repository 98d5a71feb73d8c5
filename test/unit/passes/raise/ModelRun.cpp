//===- ModelRun.cpp ----------------------------------------------------------------------===//
#include "test/unit/passes/raise/ModelRun.h"
#include "importers/onnx/OnnxImporter.h"
#include "passes/layers/Passes.h"
#include "passes/raise/Passes.h"
#include "passes/specialize/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>

using namespace mlir;

namespace omnibal::test {

Model::Model(const std::string &folder, const std::string &graph) : folder(folder) {
  context.loadDialect<OmnibalDialect, func::FuncDialect>();
  auto imported = importOnnx(folder + "/" + graph, ImportOptions(), context);
  if (failed(imported)) {
    ADD_FAILURE() << "import of " << folder << "/" << graph << " failed";
    return;
  }
  module = std::move(*imported);
  readSamples(folder + "/forward.safetensors");
  readParameters();
}

func::FuncOp Model::main() { return *module->getOps<func::FuncOp>().begin(); }

bool Model::run(const std::function<void(OpPassManager &)> &addPasses) {
  PassManager manager(&context);
  addPasses(manager);
  return succeeded(manager.run(*module));
}

bool Model::specialize() {
  return run([](OpPassManager &manager) { manager.addPass(createSpecializePass()); });
}
bool Model::raise() {
  return run([](OpPassManager &manager) { buildRaisePipeline(manager, 128); });
}
bool Model::formLayers() {
  return run([](OpPassManager &manager) { manager.addPass(createFormLayersPass()); });
}

void Model::readSamples(const std::string &path) {
  auto file = rt::SafetensorsFile::open(path);
  ASSERT_TRUE(static_cast<bool>(file));
  auto read = [&](const std::string &name, Type element) {
    HostTensor tensor;
    const rt::StoredTensor *stored = (*file)->find(name);
    if (!stored)
      return tensor;
    tensor = HostTensor(element, stored->shape);
    if (tensor.isFloat()) {
      EXPECT_TRUE(rt::convertTensor(*stored, rt::DType::F64, tensor.floats.data()).isOk());
    } else {
      EXPECT_TRUE(rt::convertTensor(*stored, rt::DType::I64, tensor.ints.data()).isOk());
    }
    return tensor;
  };
  Builder builder(&context);
  for (int i = 0;; ++i) {
    std::string prefix = "sample-000" + std::to_string(i) + ".";
    if (!(*file)->find(prefix + "input_ids"))
      break;
    Sample sample;
    sample.ids = read(prefix + "input_ids", builder.getI64Type());
    sample.attentionMask = read(prefix + "attention_mask", builder.getI64Type());
    sample.pixels = read(prefix + "pixel_values", builder.getF32Type());
    sample.logits = read(prefix + "logits", builder.getF32Type());
    if (sample.pixels.shape.empty()) // a sample without pictures
      sample.pixels = HostTensor(builder.getF32Type(), {0, 3, 28, 28});
    sample.tokens = sample.ids.shape.back();
    sample.tiles = sample.pixels.shape.front();
    samples.push_back(std::move(sample));
  }
  ASSERT_EQ(samples.size(), 4u);
}

void Model::readParameters() {
  for (auto parameter : module->getOps<ParameterOp>()) {
    if (!parameter.getFile())
      continue;
    auto type = cast<RankedTensorType>(parameter.getType());
    HostTensor tensor(type.getElementType(), type.getShape());
    std::vector<float> values(tensor.size());
    std::ifstream in(folder + "/" + parameter.getFile()->str(), std::ios::binary);
    in.seekg(*parameter.getOffset());
    in.read(reinterpret_cast<char *>(values.data()), values.size() * sizeof(float));
    ASSERT_TRUE(in.good()) << parameter.getSymName().str();
    std::copy(values.begin(), values.end(), tensor.floats.begin());
    parameters[parameter.getSymName()] = std::move(tensor);
  }
}

double
Model::worst(const std::function<FailureOr<HostTensor>(Interpreter &, const Sample &)> &run) {
  double worst = 0;
  for (const Sample &sample : samples) {
    InterpreterOptions options;
    options.tiles = sample.tiles;
    options.tokens = sample.tokens;
    Interpreter interpreter(options);
    interpreter.parameters = parameters;
    auto logits = run(interpreter, sample);
    if (failed(logits) || logits->size() != sample.logits.size())
      return INFINITY;
    for (int64_t i = 0; i < logits->size(); ++i) {
      double difference = std::abs(logits->at(i) - sample.logits.at(i));
      worst = difference <= worst ? worst : difference; // NaN counts
    }
  }
  return worst;
}

double Model::worstOnInputs() {
  return worst([&](Interpreter &interpreter, const Sample &sample) -> FailureOr<HostTensor> {
    SmallVector<HostTensor> inputs;
    for (unsigned i = 0; i < main().getNumArguments(); ++i) {
      auto name = main().getArgAttrOfType<StringAttr>(i, "omnibal.input").getValue();
      inputs.push_back(name == "input_ids"        ? sample.ids
                       : name == "attention_mask" ? sample.attentionMask
                                                  : sample.pixels);
    }
    auto results = interpreter.run(main(), inputs);
    if (failed(results))
      return failure();
    return results->front();
  });
}

void bindBatchValues(Interpreter &interpreter, const Sample &sample, int64_t imageToken,
                     int64_t tokensPerTile, ArrayRef<int64_t> starts) {
  Builder builder(sample.ids.elementType.getContext());
  HostTensor ids(builder.getI32Type(), {sample.tokens}), positions = ids, rows = ids;
  HostTensor borders(builder.getI32Type(), {sample.tokens + 1});
  int64_t next = 0, position = 0;
  for (int64_t i = 0; i < sample.tokens; ++i) {
    ids.ints[i] = sample.ids.ints[i];
    if (llvm::is_contained(starts, i))
      position = 0;
    positions.ints[i] = position++;
    rows.ints[i] = ids.ints[i] == imageToken ? next++ : -1;
    // Ends of samples; entries past the last repeat N.
    borders.ints[i + 1] = i < static_cast<int64_t>(starts.size()) ? starts[i] : sample.tokens;
  }
  ASSERT_EQ(next, sample.tiles * tokensPerTile);
  interpreter.batchValues["input_ids"] = ids;
  interpreter.batchValues["positions"] = positions;
  interpreter.batchValues["image_rows"] = rows;
  interpreter.batchValues["cu_seqlens"] = borders;
  interpreter.batchValues["pixel_values"] = sample.pixels;
}

double Model::worstOnBatchValues(ArrayRef<int64_t> borders) {
  int64_t token = (*module)->getAttrOfType<IntegerAttr>("omnibal.image_token_id").getInt();
  int64_t perTile = (*module)->getAttrOfType<IntegerAttr>("omnibal.tokens_per_tile").getInt();
  return worst([&](Interpreter &interpreter, const Sample &sample) -> FailureOr<HostTensor> {
    bindBatchValues(interpreter, sample, token, perTile, borders);
    auto results = interpreter.run(main(), {});
    if (failed(results))
      return failure();
    return results->front();
  });
}

} // namespace omnibal::test
