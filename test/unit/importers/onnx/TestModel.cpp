//===- TestModel.cpp - Small ONNX models written by tests --------------------------------===//
#include "test/unit/importers/onnx/TestModel.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <fstream>

namespace omnibal::test {

TestModel::TestModel(int64_t opset) {
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(opset);
  proto.mutable_graph()->set_name("test");
}

static void declare(onnx::ValueInfoProto &info, const std::string &name,
                    const std::vector<int64_t> &dims, int32_t type) {
  info.set_name(name);
  auto &tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (int64_t dim : dims) {
    auto &added = *tensor.mutable_shape()->add_dim();
    if (dim < 0)
      added.set_dim_param("s" + std::to_string(-dim));
    else
      added.set_dim_value(dim);
  }
}

void TestModel::input(const std::string &name, const std::vector<int64_t> &dims, int32_t type) {
  declare(*graph().add_input(), name, dims, type);
}

void TestModel::output(const std::string &name, const std::vector<int64_t> &dims, int32_t type) {
  declare(*graph().add_output(), name, dims, type);
}

onnx::NodeProto &TestModel::node(const std::string &op, const std::vector<std::string> &inputs,
                                 const std::vector<std::string> &outputs) {
  onnx::NodeProto &node = *graph().add_node();
  node.set_op_type(op);
  node.set_name("node_" + outputs.front());
  node.mutable_input()->Add(inputs.begin(), inputs.end());
  node.mutable_output()->Add(outputs.begin(), outputs.end());
  return node;
}

onnx::TensorProto &TestModel::initializer(const std::string &name, const std::vector<int64_t> &dims,
                                          const std::vector<float> &values) {
  onnx::TensorProto &tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(1);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

onnx::TensorProto &TestModel::ints(const std::string &name, const std::vector<int64_t> &dims,
                                   const std::vector<int64_t> &values) {
  onnx::TensorProto &tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(7);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  tensor.mutable_int64_data()->Add(values.begin(), values.end());
  return tensor;
}

onnx::TensorProto &TestModel::external(const std::string &name, const std::vector<int64_t> &dims,
                                       const std::string &location, int64_t offset,
                                       int64_t length) {
  onnx::TensorProto &tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(1);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto set = [&](const char *key, const std::string &value) {
    auto &entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  set("location", location);
  set("offset", std::to_string(offset));
  set("length", std::to_string(length));
  return tensor;
}

void setInt(onnx::NodeProto &node, const std::string &name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void setConstant(onnx::NodeProto &node, float value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name("value_float");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

TestFolder::TestFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "omnibal-import-XXXXXX").string();
  path = mkdtemp(pattern.data());
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void TestFolder::write(const std::string &name, const std::string &bytes) const {
  std::ofstream(path / name, std::ios::binary) << bytes;
}

std::string Imported::text() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.get()->print(stream, mlir::OpPrintingFlags().enableDebugInfo(true, false));
  return text;
}

Imported Importing::file(const std::string &path, const ImportOptions &options) {
  Imported result;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    bool error = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    (error ? result.errors : result.warnings).push_back(diagnostic.str());
    return mlir::success();
  });
  auto module = importOnnx(path, options, context);
  if (succeeded(module))
    result.module = std::move(*module);
  return result;
}

Imported Importing::model(const TestModel &model, const TestFolder &folder,
                          const ImportOptions &options) {
  folder.write("model.onnx", model.proto.SerializeAsString());
  return file(folder / "model.onnx", options);
}

} // namespace omnibal::test
