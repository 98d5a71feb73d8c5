#include "passes/lower/codegen/llvm/CodeGeneration.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

namespace omnibal::lower {

FailureOr<std::string> generateCode(ModuleOp module, llvm::Module &code,
                                    llvm::TargetMachine &target, llvm::CodeGenFileType type,
                                    StringRef unable) {
  if (llvm::Error error = makeOptimizingTransformer(3, 0, &target)(&code))
    return module.emitError("optimizing the generated kernels failed: ")
           << llvm::toString(std::move(error));
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (target.addPassesToEmitFile(passes, stream, nullptr, type))
    return module.emitError() << unable;
  passes.run(code);
  return bytes.str().str();
}

} // namespace omnibal::lower
