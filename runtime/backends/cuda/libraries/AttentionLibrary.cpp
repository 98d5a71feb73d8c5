#include "runtime/backends/cuda/libraries/AttentionLibrary.h"
#include "runtime/backends/cuda/driver/SharedLibrary.h"
#include "runtime/backends/cuda/libraries/AttentionInterface.h"
#include <dlfcn.h>

namespace omnibal::rt::cuda {
namespace {

/// The shared object that a function is in.
template <typename F> std::string fileOf(F *function) {
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<const void *>(function), &info) && info.dli_fname;
  return found ? info.dli_fname : "";
}

std::string ownFolder() {
  const std::string file = fileOf(ownFolder);
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

} // namespace

Result<std::unique_ptr<AttentionLibrary>> openAttentionLibrary(AttentionDevice device) {
  device.runtime = fileOf(cudaSetDevice);
  OMNIBAL_ASSIGN_OR_RETURN(auto library,
                           SharedLibrary::openOurs("libomnibal_cudnn.so", ownFolder()));
  const AttentionPlugin *plugin = nullptr;
  OMNIBAL_RETURN_IF_ERROR(library->find("omnibalAttentionPlugin", plugin));
  if (plugin->interface != std::string(attentionInterface))
    return Status(Code::Unavailable, library->path() + " is of another build (" +
                                         plugin->interface + "); this one needs " +
                                         attentionInterface);
  Status error;
  std::unique_ptr<AttentionLibrary> opened(plugin->open(device, error));
  if (!opened)
    return error;
  return opened;
}

} // namespace omnibal::rt::cuda
