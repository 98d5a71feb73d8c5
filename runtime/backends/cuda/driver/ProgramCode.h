//===- ProgramCode.h - A program's generated code on the device -------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_PROGRAMCODE_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_PROGRAMCODE_H

#include "runtime/backends/cuda/driver/Runtime.h"

namespace omnibal::rt::cuda {

/// The code of a program: a cubin, a fat binary, or PTX, which the driver then compiles.
class ProgramCode {
public:
  static Result<std::unique_ptr<ProgramCode>> load(const std::string &path);
  ~ProgramCode();
  ProgramCode(const ProgramCode &) = delete;

  /// NotFound names the symbol and the file.
  Result<cudaKernel_t> kernel(const std::string &symbol) const;

private:
  ProgramCode() = default;
  std::string path;
  cudaLibrary_t library = nullptr;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_PROGRAMCODE_H
