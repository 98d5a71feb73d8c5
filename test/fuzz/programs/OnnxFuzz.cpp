//===- OnnxFuzz.cpp - ONNX models through the importer ---------------------------------------===//
//
// A model that is refused has exactly one error, and one that is not gives IR that verifies. What
// names external data finds none.
//
//===-----------------------------------------------------------------------------------------===//
#include "importers/onnx/OnnxImporter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "test/fuzz/Fuzz.h"
#include <memory>

namespace omnibal::fuzz {

/// Types and attributes stay in the context, which is replaced now and then.
const Allowance allowance{size_t{64} << 20, 4096};

void run(std::string_view input) {
  constexpr int inputsOfContext = 500;
  static std::unique_ptr<mlir::MLIRContext> context;
  static int used = 0;
  if (used++ % inputsOfContext == 0)
    context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  static const MemoryFolder folder;
  folder.write("model.onnx", input);
  std::vector<std::string> errors;
  mlir::ScopedDiagnosticHandler handler(context.get(), [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      errors.push_back(diagnostic.str());
  });
  ImportOptions options;
  options.anyGraph = true;
  auto module = importOnnx(folder.pathOf("model.onnx"), options, *context);
  if (mlir::failed(module)) {
    std::string all;
    for (const std::string &error : errors)
      all += "\n" + error;
    if (errors.size() != 1 || errors[0].starts_with("internal error"))
      broken("a model is refused without an error, with several, or by a fault of ours:" + all);
    return;
  }
  require(errors.empty(), "a model is accepted with an error");
  require(mlir::succeeded(mlir::verify(**module)), "the IR does not verify");
}

} // namespace omnibal::fuzz
