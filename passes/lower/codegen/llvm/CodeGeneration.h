//===- CodeGeneration.h - From LLVM's IR to the code of a target -----------------------------===//
#ifndef PASSES_LOWER_CODEGEN_LLVM_CODEGENERATION_H
#define PASSES_LOWER_CODEGEN_LLVM_CODEGENERATION_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/CodeGen.h"
#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace omnibal::lower {

/// Optimizes `code` for `target` and returns it as an object file or as text. Errors are reported
/// at `module`; `unable` is the message of a target that cannot write that.
llvm::FailureOr<std::string> generateCode(mlir::ModuleOp module, llvm::Module &code,
                                          llvm::TargetMachine &target, llvm::CodeGenFileType type,
                                          llvm::StringRef unable);

} // namespace omnibal::lower
#endif // PASSES_LOWER_CODEGEN_LLVM_CODEGENERATION_H
