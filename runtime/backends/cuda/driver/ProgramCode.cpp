#include "runtime/backends/cuda/driver/ProgramCode.h"

namespace omnibal::rt::cuda {

Result<std::unique_ptr<ProgramCode>> ProgramCode::load(const std::string &path) {
  std::unique_ptr<ProgramCode> made(new ProgramCode);
  made->path = path;
  cudaError_t error = cudaLibraryLoadFromFile(&made->library, path.c_str(), nullptr, nullptr, 0,
                                              nullptr, nullptr, 0);
  if (error != cudaSuccess) {
    made->library = nullptr;
    return check(error, "loading " + path +
                            " (compiled for this device, or holding PTX that the driver knows?)");
  }
  return made;
}

ProgramCode::~ProgramCode() {
  if (library)
    (void)cudaLibraryUnload(library);
}

Result<cudaKernel_t> ProgramCode::kernel(const std::string &symbol) const {
  cudaKernel_t found = nullptr;
  if (cudaLibraryGetKernel(&found, library, symbol.c_str()) != cudaSuccess) {
    (void)cudaGetLastError(); // reported here
    return Status(Code::NotFound, path + " has no kernel '" + symbol + "'");
  }
  return found;
}

} // namespace omnibal::rt::cuda
