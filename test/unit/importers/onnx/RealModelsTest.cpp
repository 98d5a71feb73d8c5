//===- RealModelsTest.cpp - Imported exports compute PyTorch's logits --------------------===//
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/importers/onnx/TestModel.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::test;

namespace {

HostTensor readTensor(const rt::StoredTensor &stored, mlir::MLIRContext &context) {
  bool isFloat = stored.dtype == rt::StoredType::F32;
  mlir::Type element = isFloat ? mlir::Type(mlir::Float32Type::get(&context))
                               : mlir::Type(mlir::IntegerType::get(&context, 64));
  HostTensor tensor(element, stored.shape);
  rt::Status status = rt::convertTensor(stored, isFloat ? rt::DType::F64 : rt::DType::I64,
                                        isFloat ? static_cast<void *>(tensor.floats.data())
                                                : static_cast<void *>(tensor.ints.data()));
  EXPECT_TRUE(status.isOk()) << status.message();
  return tensor;
}

class RealModels : public testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(RealModels, LogitsAreThoseOfPyTorch) {
  auto [model, graph] = GetParam();
  std::string folder = std::string(OMNIBAL_TEST_DATA) + "/" + model;
  Importing importing;
  Imported imported = importing.file(folder + "/" + graph);
  ASSERT_TRUE(imported.module) << imported.errors[0];
  EXPECT_TRUE(imported.warnings.empty());

  auto weights = rt::SafetensorsFile::open(folder + "/model.safetensors");
  auto expected = rt::SafetensorsFile::open(folder + "/forward.safetensors");
  ASSERT_TRUE(weights.isOk() && expected.isOk());
  Interpreter interpreter(InterpreterOptions{});
  // Parameter names are the checkpoint's: every one is found there, with its shape.
  for (auto parameter : imported.module->getOps<ParameterOp>()) {
    const rt::StoredTensor *stored = (*weights)->find(parameter.getSymName());
    ASSERT_TRUE(stored) << parameter.getSymName().str();
    interpreter.parameters[parameter.getSymName()] = readTensor(*stored, importing.context);
  }
  auto main = imported.module->lookupSymbol<mlir::func::FuncOp>("main");
  ASSERT_EQ(main.getNumResults(), 1u);

  for (const char *sample : {"sample-0000", "sample-0001"}) {
    std::vector<HostTensor> arguments;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      std::string name = main.getArgAttrOfType<mlir::StringAttr>(i, "omnibal.input").str();
      const rt::StoredTensor *stored = (*expected)->find(std::string(sample) + "." + name);
      ASSERT_TRUE(stored) << name;
      arguments.push_back(readTensor(*stored, importing.context));
    }
    auto results = interpreter.run(main, arguments);
    ASSERT_TRUE(succeeded(results));
    HostTensor logits =
        readTensor(*(*expected)->find(std::string(sample) + ".logits"), importing.context);
    const HostTensor &got = (*results)[0];
    ASSERT_EQ(got.shape, logits.shape);
    double worst = 0;
    for (int64_t i = 0; i < logits.size(); ++i)
      worst = std::max(worst, std::abs(got.at(i) - logits.at(i)));
    EXPECT_LT(worst, 2e-5) << sample;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, RealModels,
                         testing::Values(std::pair{"tiny-internvl", "model.onnx"},
                                         std::pair{"tiny-internvl", "model-opset23.onnx"},
                                         std::pair{"tiny-llava", "model.onnx"},
                                         std::pair{"tiny-llava", "model-opset23.onnx"}));

} // namespace
