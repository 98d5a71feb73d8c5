//===- FunctionRun.h - Lowered functions on the host backend, call by call --------------------===//
#ifndef TEST_SUPPORT_FUNCTIONRUN_H
#define TEST_SUPPORT_FUNCTIONRUN_H

#include "dialects/omnibal/interpreter/HostTensor.h"
#include "runtime/program/Program.h"
#include <string>
#include <vector>

namespace omnibal::test {

/// A kernels.so in a temporary file, loaded; both go away with it.
class LoadedKernels {
public:
  LoadedKernels() = default;
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels &) = delete;
  LoadedKernels &operator=(const LoadedKernels &) = delete;

  /// "" or what failed.
  std::string load(const std::string &bytes);
  void *library() const { return handle; }
  /// GPU kernels for the emulated device.
  bool emulated() const { return device != nullptr; }

private:
  std::string path;
  void *handle = nullptr, *device = nullptr;
};

llvm::SmallVector<int64_t> sizesOf(const rt::Buffer &buffer, int64_t tiles, int64_t tokens);

/// Dense elements as the backend stores them, and back into a tensor of that size.
std::vector<char> toBytes(const HostTensor &tensor, rt::DType dtype);
void fromBytes(const char *bytes, rt::DType dtype, HostTensor &tensor);

/// Runs all kernel calls by the host backend, GPU kernels by the emulated device; `formals` has the
/// bytes of every formal. The workspace starts as NaN. Every view must lie within its buffer. "" or
/// what failed.
std::string runFunction(const rt::Function &function, std::vector<std::vector<char>> &formals,
                        const LoadedKernels &kernels, int64_t tiles, int64_t tokens, int threads);

} // namespace omnibal::test
#endif // TEST_SUPPORT_FUNCTIONRUN_H
