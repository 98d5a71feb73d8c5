//===- NodeCase.cpp - One of the ONNX standard's node tests ------------------------------===//
#include "test/e2e/node_tests/NodeCase.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace mlir;

namespace omnibal::test {

std::vector<NodeCase> readCases(const std::string &path) {
  std::ifstream file(path);
  nlohmann::json list = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) {
    llvm::errs() << path << ": not a list of cases\n";
    std::exit(2);
  }
  std::vector<NodeCase> cases;
  for (const nlohmann::json &entry : list) {
    NodeCase node;
    node.name = entry.at("name");
    node.model = entry.at("model");
    for (const nlohmann::json &input : entry.at("inputs"))
      node.inputs.push_back({input.at("name"), input.at("file"), input.at("bound")});
    for (const nlohmann::json &output : entry.at("outputs"))
      node.outputs.push_back({output.at("name"), output.at("file"), false});
    node.relative = entry.at("rtol");
    node.absolute = entry.at("atol");
    node.host = entry.at("host");
    cases.push_back(std::move(node));
  }
  return cases;
}

static FailureOr<HostTensor> readTensor(const std::string &path, MLIRContext &context) {
  FailureOr<DenseElementsAttr> elements = importOnnxTensor(path, context);
  if (failed(elements))
    return failure();
  return fromAttribute(*elements);
}

FailureOr<LoadedCase> loadCase(const NodeCase &node, MLIRContext &context) {
  ImportOptions options;
  options.anyGraph = true;
  LoadedCase loaded;
  std::vector<const NodeCase::Tensor *> arguments;
  for (const NodeCase::Tensor &input : node.inputs) {
    if (input.bound) {
      FailureOr<DenseElementsAttr> elements = importOnnxTensor(input.file, context);
      if (failed(elements))
        return failure();
      options.boundInputs[input.name] = *elements;
      continue;
    }
    FailureOr<HostTensor> tensor = readTensor(input.file, context);
    if (failed(tensor))
      return failure();
    loaded.inputs.push_back(std::move(*tensor));
  }
  for (const NodeCase::Tensor &output : node.outputs) {
    FailureOr<HostTensor> tensor = readTensor(output.file, context);
    if (failed(tensor))
      return failure();
    loaded.outputs.push_back(std::move(*tensor));
  }
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(node.model, options, context);
  if (failed(module))
    return failure();
  loaded.module = std::move(*module);
  return loaded;
}

std::string difference(const NodeCase &node, const HostTensor &got, const HostTensor &wanted) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (got.shape != wanted.shape) {
    out << "shape [";
    llvm::interleaveComma(got.shape, out);
    out << "] instead of [";
    llvm::interleaveComma(wanted.shape, out);
    out << "]";
    return text;
  }
  for (int64_t i = 0; i < wanted.size(); ++i) {
    double a = got.at(i), b = wanted.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (wanted.isFloat() && std::abs(a - b) <= node.absolute + node.relative * std::abs(b))
      continue;
    out << "element " << i << " is " << a << " instead of " << b;
    return text;
  }
  return {};
}

} // namespace omnibal::test
