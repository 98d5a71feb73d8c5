//===- TestModel.h - Small ONNX models written by tests ----------------------------------===//
#ifndef TEST_UNIT_IMPORTERS_ONNX_TESTMODEL_H
#define TEST_UNIT_IMPORTERS_ONNX_TESTMODEL_H

#include "importers/onnx/OnnxImporter.h"
#include "importers/onnx/Schema.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include <filesystem>
#include <string>
#include <vector>

namespace omnibal::test {

/// A model under construction; `proto` may be bent further before it is imported.
class TestModel {
public:
  explicit TestModel(int64_t opset = 18);

  onnx::ModelProto proto;

  onnx::GraphProto &graph() { return *proto.mutable_graph(); }
  /// A dimension below 0 is symbolic.
  void input(const std::string &name, const std::vector<int64_t> &dims, int32_t type = 1);
  void output(const std::string &name, const std::vector<int64_t> &dims, int32_t type = 1);
  /// The node's name is its first output with "node_" in front.
  onnx::NodeProto &node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs);
  /// Float data inside the model.
  onnx::TensorProto &initializer(const std::string &name, const std::vector<int64_t> &dims,
                                 const std::vector<float> &values);
  onnx::TensorProto &ints(const std::string &name, const std::vector<int64_t> &dims,
                          const std::vector<int64_t> &values);
  /// Float data in a file.
  onnx::TensorProto &external(const std::string &name, const std::vector<int64_t> &dims,
                              const std::string &location, int64_t offset, int64_t length);
};

void setInt(onnx::NodeProto &node, const std::string &name, int64_t value);
/// The number that a Constant is.
void setConstant(onnx::NodeProto &node, float value);

/// A folder that is gone after the test.
class TestFolder {
public:
  TestFolder();
  ~TestFolder();
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  void write(const std::string &name, const std::string &bytes) const;
  std::filesystem::path path;
};

/// An import and what it said.
struct Imported {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< null if it failed
  std::vector<std::string> errors, warnings;
  std::string text() const; ///< the module printed
};

class Importing {
public:
  Imported file(const std::string &path, const ImportOptions &options = {});
  /// Through a file in `folder`.
  Imported model(const TestModel &model, const TestFolder &folder,
                 const ImportOptions &options = {});
  mlir::MLIRContext context;
};

} // namespace omnibal::test
#endif // TEST_UNIT_IMPORTERS_ONNX_TESTMODEL_H
