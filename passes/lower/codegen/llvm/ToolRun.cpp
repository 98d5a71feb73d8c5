//===- ToolRun.cpp -----------------------------------------------------------------------===//
#include "passes/lower/codegen/llvm/ToolRun.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace mlir;

namespace omnibal::lower {

constexpr unsigned toolSeconds = 120;

TemporaryFolder::TemporaryFolder() {
  error = llvm::sys::fs::createUniqueDirectory("omnibal-kernels", path);
}

TemporaryFolder::~TemporaryFolder() {
  if (error)
    return;
  [[maybe_unused]] const std::error_code left = llvm::sys::fs::remove_directories(path);
}

LogicalResult TemporaryFolder::write(ModuleOp module, StringRef name, StringRef bytes) const {
  std::error_code failed = error;
  if (!failed) {
    llvm::raw_fd_ostream stream(file(name), failed);
    if (!failed) {
      stream << bytes;
      stream.close();
      failed = stream.error();
      stream.clear_error(); // or its destructor ends the process
    }
  }
  if (!failed)
    return success();
  return module.emitError("cannot write the temporary file ")
         << file(name) << ": " << failed.message()
         << " (free some space or set TMPDIR to another folder)";
}

FailureOr<std::string> runTool(ModuleOp module, const TemporaryFolder &folder, StringRef what,
                               const std::string &program,
                               const std::vector<std::string> &arguments, StringRef output) {
  std::string log = folder.file("log"), message;
  SmallVector<StringRef> words{program};
  words.append(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  int status = llvm::sys::ExecuteAndWait(program, words, std::nullopt, redirects, toolSeconds,
                                         /*MemoryLimit=*/0, &message);
  auto bytes = llvm::MemoryBuffer::getFile(folder.file(output), /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (status == 0 && bytes)
    return (*bytes)->getBuffer().str();
  auto said = llvm::MemoryBuffer::getFile(log);
  return module.emitError() << what << " with " << program << " failed: " << message
                            << (said ? (*said)->getBuffer() : "");
}

} // namespace omnibal::lower
