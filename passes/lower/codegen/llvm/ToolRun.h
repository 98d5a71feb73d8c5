//===- ToolRun.h - Programs of the system that turn code into files ----------------------===//
#ifndef PASSES_LOWER_CODEGEN_LLVM_TOOLRUN_H
#define PASSES_LOWER_CODEGEN_LLVM_TOOLRUN_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallString.h"

namespace omnibal::lower {

/// A folder in the system's temporary folder that goes away with its files.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string file(llvm::StringRef name) const { return (path + "/" + name).str(); }
  /// Writes a file; reports on `module`.
  llvm::LogicalResult write(mlir::ModuleOp module, llvm::StringRef name,
                            llvm::StringRef bytes) const;

private:
  llvm::SmallString<128> path;
  std::error_code error;
};

/// Runs `program`, which writes `output` in `folder`, and returns its bytes. `what` begins the
/// message at `module` when it fails.
llvm::FailureOr<std::string> runTool(mlir::ModuleOp module, const TemporaryFolder &folder,
                                     llvm::StringRef what, const std::string &program,
                                     const std::vector<std::string> &arguments,
                                     llvm::StringRef output);

} // namespace omnibal::lower
#endif // PASSES_LOWER_CODEGEN_LLVM_TOOLRUN_H
