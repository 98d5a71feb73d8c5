//===- NodeCase.h - One of the ONNX standard's node tests --------------------------------===//
#ifndef TEST_E2E_NODE_TESTS_NODECASE_H
#define TEST_E2E_NODE_TESTS_NODECASE_H

#include "dialects/omnibal/interpreter/HostTensor.h"
#include "importers/onnx/OnnxImporter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace omnibal::test {

/// A case as run_node_tests.py writes it.
struct NodeCase {
  struct Tensor {
    std::string name, file;
    bool bound = false; ///< an input that determines shapes: a constant
  };
  std::string name, model;
  std::vector<Tensor> inputs, outputs;
  double relative = 0, absolute = 0;
  bool host = false; ///< run on the host backend too
};

/// Reads the list; exits with a message if it is damaged.
std::vector<NodeCase> readCases(const std::string &path);

/// A case ready to run: the imported module, its inputs that are not bound, its expected outputs.
struct LoadedCase {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<HostTensor> inputs, outputs;
};
/// Fails with diagnostics.
mlir::FailureOr<LoadedCase> loadCase(const NodeCase &node, mlir::MLIRContext &context);

/// "" if `got` is as `wanted` within the case's tolerance, else what differs.
std::string difference(const NodeCase &node, const HostTensor &got, const HostTensor &wanted);

} // namespace omnibal::test
#endif // TEST_E2E_NODE_TESTS_NODECASE_H
