//===- CheckpointTest.cpp - Parameters, their names and the checkpoint -------------------===//
#include "importers/onnx/ExternalData.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/importers/onnx/TestModel.h"
#include <cstring>
#include <gtest/gtest.h>
#include <map>

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
  /// One tensor of any type; returns the offset of its data.
  int64_t writeRaw(const std::string &name, rt::StoredType type, const std::vector<int64_t> &shape,
                   const std::string &bytes) {
    std::vector<rt::TensorHeader> headers = {{name, type, shape}};
    auto writer = rt::SafetensorsWriter::create(folder / "model.safetensors", headers);
    EXPECT_TRUE(writer.isOk());
    EXPECT_TRUE(writer->append(bytes.data(), bytes.size()).isOk());
    EXPECT_TRUE(writer->finish().isOk());
    return rt::layOut(headers)->offsets[0];
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

/// 1, 2 and 3.
const std::map<rt::StoredType, std::string> threeNumbers = {
    {rt::StoredType::BF16, std::string("\x80\x3f\0\x40\x40\x40", 6)},
    {rt::StoredType::F16, std::string("\0\x3c\0\x40\0\x42", 6)},
    {rt::StoredType::F32, std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 12)},
    {rt::StoredType::F64,
     std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\x08\x40", 24)},
};

TEST_F(Checkpoint, AnInitializerMayPointAtAnyFloatingPointType) {
  for (const auto &[type, bytes] : threeNumbers) {
    auto offset = writeRaw("net.scale", type, {3}, bytes);
    TestModel model = scaleAndShift();
    const auto length = int64_t(bytes.size());
    model.external("a", {3}, "model.safetensors", offset, length);
    model.external("b", {3}, "model.safetensors", offset, length);
    std::string text = import(model, "");
    expect(text, "omnibal.parameter @net.scale : tensor<3xf32> {file = \"model.safetensors\", "
                 "length = " +
                     std::to_string(length));
    EXPECT_EQ(text.find("omnibal.parameter", text.find("omnibal.parameter") + 1),
              std::string::npos);
    // Found by its name and by its content too.
    for (const char *name : {"net.scale", "val_1"}) {
      TestModel inlined = scaleAndShift();
      inlined.initializer(name, {3}, {1, 2, 3});
      inlined.initializer("b", {3}, {7, 8, 9}); // of no tensor: a constant
      inlined.graph().mutable_node(0)->set_input(1, name);
      expect(import(inlined, folder / "model.safetensors"), "omnibal.parameter @net.scale");
    }
  }
}

TEST_F(Checkpoint, ValuesAreConvertedWhereTheyAreNeeded) {
  for (const auto &[type, bytes] : threeNumbers) {
    auto offset = writeRaw("net.scale", type, {3}, bytes);
    onnx::ExternalFiles files(folder / "model.onnx", {}, "");
    TestModel model;
    const onnx::TensorProto &tensor =
        model.external("a", {3}, "model.safetensors", offset, int64_t(bytes.size()));
    auto value = files.value(tensor, mlir::UnknownLoc::get(&importing.context));
    ASSERT_TRUE(succeeded(value));
    EXPECT_TRUE(value->getElementType().isF32());
    EXPECT_EQ(std::vector<float>(value->value_begin<float>(), value->value_end<float>()),
              (std::vector<float>{1, 2, 3}));
  }
}

TEST_F(Checkpoint, TypesThatDoNotFitAreErrors) {
  const auto &bf16 = threeNumbers.at(rt::StoredType::BF16);
  auto offset = writeRaw("net.scale", rt::StoredType::BF16, {3}, bf16);
  auto errorOf = [&](int32_t type, int64_t at, int64_t length) {
    TestModel model = scaleAndShift();
    model.external("a", {3}, "model.safetensors", at, length).set_data_type(type);
    model.initializer("b", {3}, {1, 2, 3});
    return importError(model, "");
  };
  expect(errorOf(10, offset, 6), "'net.scale' of type BF16"); // float16
  expect(errorOf(1, offset, 12), "the file is truncated");    // as if it were float32
  expect(errorOf(1, offset, 4), "no tensor lies");            // not all of it
  expect(errorOf(1, offset + 2, 4), "no tensor lies");        // not from its start
  offset = writeRaw("net.scale", rt::StoredType::I16, {3}, bf16);
  expect(errorOf(1, offset, 6), "'net.scale' of type I16");
}

TEST_F(Checkpoint, AnAbsentCheckpointMayHaveAnyFloatingPointType) {
  for (int64_t length : {6, 12, 24}) {
    TestModel model = scaleAndShift();
    model.external("a", {3}, "model.safetensors", 100, length);
    model.external("b", {3}, "model.safetensors", 200, length);
    import(model, "");
  }
  TestModel model = scaleAndShift();
  model.external("a", {3}, "model.safetensors", 100, 9);
  model.external("b", {3}, "model.safetensors", 200, 12);
  expect(importError(model, ""), "needs 12 bytes");
}

TEST_F(Checkpoint, SnapshotOfTheHuggingFaceCache) {
  namespace fs = std::filesystem;
  const auto &bf16 = threeNumbers.at(rt::StoredType::BF16);
  auto offset = writeRaw("net.scale", rt::StoredType::BF16, {3}, bf16);
  const fs::path root = folder / "models--org--name", snapshot = root / "snapshots/0123";
  fs::create_directories(snapshot);
  fs::create_directories(root / "blobs");
  fs::rename(folder / "model.safetensors", root / "blobs/h1");
  fs::create_symlink("../../blobs/h1", snapshot / "model.safetensors");
  TestModel model = scaleAndShift();
  model.external("a", {3}, "model.safetensors", offset, 6);
  model.initializer("b", {3}, {1, 2, 3});
  folder.write("models--org--name/snapshots/0123/model.onnx", model.proto.SerializeAsString());
  Imported imported = importing.file(snapshot / "model.onnx", {});
  ASSERT_TRUE(imported.module) << imported.errors[0];
  EXPECT_TRUE(imported.warnings.empty());
  expect(imported.text(), "omnibal.parameter @net.scale");
  // A graph apart from its checkpoint finds the files there.
  fs::create_directory(folder / "graph");
  folder.write("graph/model.onnx", model.proto.SerializeAsString());
  ImportOptions options;
  options.weights = snapshot;
  imported = importing.file(folder / "graph/model.onnx", options);
  ASSERT_TRUE(imported.module) << imported.errors[0];
  EXPECT_TRUE(imported.warnings.empty());
  expect(imported.text(), "omnibal.parameter @net.scale");
  // A link out of the cache is none of it.
  fs::rename(root / "blobs/h1", folder / "h1");
  fs::create_symlink(folder / "h1", root / "blobs/h1");
  imported = importing.file(snapshot / "model.onnx", {});
  EXPECT_FALSE(imported.module);
  ASSERT_EQ(imported.errors.size(), 1u);
  expect(imported.errors[0], "outside the model's cache");
}

TEST_F(Checkpoint, TiedInitializersAreOneParameter) {
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
  model.initializer("a", {3}, {1, 2, 3});
  model.external("b", {3}, "model.safetensors", offsets[0], 12);
  std::string text = import(model, "");
  expect(text, "omnibal.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>");
  TestModel matrix = scaleAndShift();
  matrix.initializer("a", {1, 3}, {1, 2, 3});
  matrix.external("b", {3}, "model.safetensors", offsets[0], 12);
  std::string error = importError(matrix, "");
  expect(error, "'a'");
  expect(error, "--weights");
}

TEST_F(Checkpoint, AllInlineWithoutCheckpointAreParameters) {
  TestModel model = scaleAndShift();
  model.initializer("a", {3}, {1, 2, 3});
  model.initializer("b", {1, 3}, {4, 5, 6});
  std::string text = import(model, "");
  expect(text, "omnibal.parameter @a : tensor<3xf32> {value = dense<[1.0");
  expect(text, "omnibal.parameter @b : tensor<1x3xf32>");
}

/// y = x @ w, w [2, 3] inline and nameless as optimizing exporters leave it.
TestModel product(const std::vector<float> &values) {
  TestModel model;
  model.input("x", {-1, 2});
  model.initializer("val_1", {2, 3}, values);
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
  model.initializer("layers.0.norm", {3}, {1, 1, 1}); // both norms read it
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
  model.initializer("model.layers.0.norm", {3}, {1, 1, 1});
  model.initializer("model.layers.1.norm", {3}, {1, 1, 1});
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
