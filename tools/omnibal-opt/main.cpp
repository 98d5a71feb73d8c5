//===- main.cpp - omnibal-opt: runs passes on the dialect's textual IR or an ONNX model --===//
#include "dialects/omnibal/ir/OmnibalStageOps.h"
#include "importers/onnx/OnnxImporter.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/driver/Pipelines.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

#ifdef OMNIBAL_INCLUDE_TESTS
namespace omnibal::test {
void registerTestPasses(); // test/lib: no product source includes it
}
#endif

namespace {

llvm::cl::OptionCategory importCategory("Options for ONNX models");
llvm::cl::opt<std::string>
    weights("weights", llvm::cl::cat(importCategory),
            llvm::cl::desc("checkpoint whose tensors are the model's parameters (safetensors file "
                           "or folder)"));
llvm::cl::list<std::string>
    allowLinks("allow-links-within", llvm::cl::cat(importCategory),
               llvm::cl::desc("folder that symbolic links of external data may lead into"));
llvm::cl::opt<bool> anyGraph("any-graph", llvm::cl::cat(importCategory),
                             llvm::cl::desc("keep every output, not the logits alone"));

/// The imported model as bytecode, which the pass driver reads like any other input.
std::unique_ptr<llvm::MemoryBuffer> importModel(llvm::StringRef path,
                                                mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  omnibal::ImportOptions options;
  options.weights = weights;
  options.linkFolders.assign(allowLinks.begin(), allowLinks.end());
  options.anyGraph = anyGraph;
  auto module = omnibal::importOnnx(path, options, context);
  if (failed(module))
    return nullptr;
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  if (failed(mlir::writeBytecodeToFile(**module, stream)))
    return nullptr;
  return llvm::MemoryBuffer::getMemBufferCopy(bytes, path);
}

int runOnModel(llvm::StringRef input, llvm::StringRef output, mlir::DialectRegistry &registry) {
  std::unique_ptr<llvm::MemoryBuffer> buffer = importModel(input, registry);
  if (!buffer)
    return EXIT_FAILURE;
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> file = mlir::openOutputFile(output, &error);
  if (!file) {
    llvm::errs() << error << "\n";
    return EXIT_FAILURE;
  }
  mlir::LogicalResult result = mlir::MlirOptMain(file->os(), std::move(buffer), registry,
                                                 mlir::MlirOptMainConfig::createFromCLOptions());
  if (succeeded(result))
    file->keep();
  return mlir::asMainReturnCode(result);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::DialectRegistry registry;
  registry.insert<omnibal::OmnibalDialect, omnibal::PlanDialect, mlir::func::FuncDialect,
                  mlir::arith::ArithDialect, mlir::math::MathDialect>();
  omnibal::registerAllPasses();
#ifdef OMNIBAL_INCLUDE_TESTS
  omnibal::test::registerTestPasses();
#endif
  mlir::registerTransformsPasses(); // canonicalize, cse, symbol-dce ...
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "omnibal optimizer and pass tester; reads MODEL.onnx, .mlir and .mlirbc\n",
      registry);
  if (llvm::StringRef(input).ends_with(".onnx"))
    return runOnModel(input, output, registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
