//===- CheckpointTest.cpp - Parameters, their names and the checkpoint -------------------===//
#include "runtime/core/Safetensors.h"
#include "test/unit/importer/TestModel.h"
#include <cstring>
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::test;

namespace {

struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

class Checkpoint : public testing::Test {
protected:
  /// Writes model.safetensors; returns the offset of each tensor's data.
  std::vector<int64_t> write(const std::vector<Stored> &tensors) {
    std::vector<rt::TensorHeader> headers;
    for (const Stored &tensor : tensors)
      headers.push_back({tensor.name, rt::StoredType::F32, tensor.shape});
    auto writer = rt::SafetensorsWriter::create(folder / "model.safetensors", headers);
    EXPECT_TRUE(writer.isOk());
    for (const Stored &tensor : tensors)
      EXPECT_TRUE(writer->append(tensor.values.data(), tensor.values.size() * 4).isOk());
    EXPECT_TRUE(writer->finish().isOk());
    return rt::layOut(headers)->offsets;
  }
  std::string import(const TestModel &model, const std::string &weights) {
    ImportOptions options;
    options.weights = weights;
    Imported imported = importing.model(model, folder, options);
    EXPECT_TRUE(imported.module) << (imported.errors.empty() ? "" : imported.errors[0]);
    return imported.module ? imported.text() : "";
  }
  std::string importError(const TestModel &model, const std::string &weights) {
    ImportOptions options;
    options.weights = weights;
    Imported imported = importing.model(model, folder, options);
    EXPECT_FALSE(imported.module);
    EXPECT_EQ(imported.errors.size(), 1u);
    return imported.errors.empty() ? "" : imported.errors[0];
  }
  static void expect(const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in\n" << text;
  }
  Importing importing;
  TestFolder folder;
  const std::vector<float> six = {1, 2, 3, 4, 5, 6}, sixTurned = {1, 4, 2, 5, 3, 6};
};

/// y = x * a + b
TestModel scaleAndShift() {
  TestModel model;
  model.input("x", {-1, 3});
  model.node("Mul", {"x", "a"}, {"m"});
  model.node("Add", {"m", "b"}, {"y"});
  model.output("y", {-1, 3});
  return model;
}

TEST_F(Checkpoint, NamesComeFromTheSafetensorsFile) {
  auto offsets = write({{"net.scale", {3}, {1, 2, 3}}, {"net.shift", {3}, {4, 5, 6}}});
  TestModel model = scaleAndShift();
  model.external("a", {3}, "model.safetensors", offsets[0], 12);
  model.external("b", {3}, "model.safetensors", offsets[1], 12);
  std::string text = import(model, "");
  expect(text, "omnibal.parameter @net.scale : tensor<3xf32> {file = \"model.safetensors\"");
  expect(text, "omnibal.get_parameter @net.shift");
}

TEST_F(Checkpoint, TiedInitialisersAreOneParameter) {
  auto offsets = write({{"net.scale", {3}, {1, 2, 3}}});
  TestModel model = scaleAndShift();
  model.external("a", {3}, "model.safetensors", offsets[0], 12);
  model.external("b", {3}, "model.safetensors", offsets[0], 12);
  std::string text = import(model, "");
  size_t first = text.find("omnibal.parameter");
  EXPECT_EQ(text.find("omnibal.parameter", first + 1), std::string::npos);
}

TEST_F(Checkpoint, PointersThatMissAreErrors) {
  auto offsets = write({{"net.scale", {3}, {1, 2, 3}}, {"net.shift", {3}, {4, 5, 6}}});
  TestModel between = scaleAndShift();
  between.external("a", {3}, "model.safetensors", offsets[0] + 4, 12);
  between.external("b", {3}, "model.safetensors", offsets[1], 12);
  expect(importError(between, ""), "no tensor lies");
  TestModel shape = scaleAndShift();
  shape.external("a", {1, 3}, "model.safetensors", offsets[0], 12);
  shape.external("b", {3}, "model.safetensors", offsets[1], 12);
  expect(importError(shape, ""), "another shape");
}

TEST_F(Checkpoint, InlineBesideExternalIsAConstant) {
  auto offsets = write({{"net.shift", {3}, {4, 5, 6}}});
  TestModel model = scaleAndShift();
  model.initialiser("a", {3}, {1, 2, 3});
  model.external("b", {3}, "model.safetensors", offsets[0], 12);
  std::string text = import(model, "");
  expect(text, "omnibal.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>");
  TestModel matrix = scaleAndShift();
  matrix.initialiser("a", {1, 3}, {1, 2, 3});
  matrix.external("b", {3}, "model.safetensors", offsets[0], 12);
  std::string error = importError(matrix, "");
  expect(error, "'a'");
  expect(error, "--weights");
}

TEST_F(Checkpoint, AllInlineWithoutCheckpointAreParameters) {
  TestModel model = scaleAndShift();
  model.initialiser("a", {3}, {1, 2, 3});
  model.initialiser("b", {1, 3}, {4, 5, 6});
  std::string text = import(model, "");
  expect(text, "omnibal.parameter @a : tensor<3xf32> {value = dense<[1.0");
  expect(text, "omnibal.parameter @b : tensor<1x3xf32>");
}

/// y = x @ w, w [2, 3] inline and nameless as optimising exporters leave it.
TestModel product(const std::vector<float> &values) {
  TestModel model;
  model.input("x", {-1, 2});
  model.initialiser("val_1", {2, 3}, values);
  model.node("MatMul", {"x", "val_1"}, {"y"});
  model.output("y", {-1, 3});
  return model;
}

TEST_F(Checkpoint, FoldedTransposeIsFoundByContent) {
  write({{"net.weight", {3, 2}, sixTurned}, {"net.other", {3, 2}, six}});
  std::string text = import(product(six), folder / "model.safetensors");
  expect(text, "omnibal.parameter @net.weight : tensor<3x2xf32>");
  expect(text, "permutation = array<i64: 1, 0>");
}

TEST_F(Checkpoint, ContentOfNoTensorIsAnError) {
  write({{"net.weight", {3, 2}, sixTurned}});
  std::string error = importError(product({1, 2, 3, 4, 5, 7}), folder / "model.safetensors");
  expect(error, "'val_1'");
  expect(error, "optimize=False");
}

TEST_F(Checkpoint, MergedParametersAreAnError) {
  write({{"layers.0.norm", {3}, {1, 1, 1}}, {"layers.1.norm", {3}, {1, 1, 1}}});
  TestModel model;
  model.input("x", {-1, 3});
  model.initialiser("layers.0.norm", {3}, {1, 1, 1}); // both norms read it
  model.node("Mul", {"x", "layers.0.norm"}, {"m"});
  model.node("Mul", {"m", "layers.0.norm"}, {"y"});
  model.output("y", {-1, 3});
  std::string error = importError(model, folder / "model.safetensors");
  expect(error, "layers.1.norm");
  expect(error, "optimize=False");
}

TEST_F(Checkpoint, EqualBytesThatWereNotMerged) {
  // Names of the graph and of the checkpoint differ in their first part only.
  write({{"net.layers.0.norm", {3}, {1, 1, 1}}, {"net.layers.1.norm", {3}, {1, 1, 1}}});
  TestModel model;
  model.input("x", {-1, 3});
  model.initialiser("model.layers.0.norm", {3}, {1, 1, 1});
  model.initialiser("model.layers.1.norm", {3}, {1, 1, 1});
  model.node("Mul", {"x", "model.layers.1.norm"}, {"m"});
  model.node("Mul", {"m", "model.layers.0.norm"}, {"y"});
  model.output("y", {-1, 3});
  std::string text = import(model, folder / "model.safetensors");
  EXPECT_LT(text.find("omnibal.get_parameter @net.layers.1.norm"),
            text.find("omnibal.get_parameter @net.layers.0.norm"));
}

TEST_F(Checkpoint, CheckpointThatIsNone) {
  expect(importError(product(six), folder / "nothing.safetensors"), "--weights");
}

} // namespace
