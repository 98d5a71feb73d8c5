#include "runtime/backends/cuda/nccl/NcclLibrary.h"
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <unistd.h>
#include <vector>

namespace omnibal::rt::cuda {
namespace {

constexpr const char *fileName = "libnccl.so.2";

Status unavailable(const std::string &message) { return {Code::Unavailable, message}; }

/// Where the library may lie; a name without a slash is the loader's to find.
std::vector<std::string> candidates() {
  std::vector<std::string> list;
  if (const char *text = std::getenv("OMNIBAL_CUDA_LIBRARIES")) {
    std::string folders = text;
    for (size_t begin = 0; begin <= folders.size();) {
      size_t end = std::min(folders.find(':', begin), folders.size());
      std::string folder = folders.substr(begin, end - begin);
      for (const char *inside : {"/", "/nccl/lib/", "/nvidia/nccl/lib/"})
        if (!folder.empty())
          list.push_back(folder + inside + fileName);
      begin = end + 1;
    }
  }
  list.push_back(fileName);
  return list;
}

template <typename Function>
bool look(void *library, const char *name, Function &function, std::string &missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    missing += (missing.empty() ? "" : ", ") + std::string(name);
  return function;
}

Status load(nccl::Functions &f) {
  void *library = nullptr;
  std::string found, looked;
  for (const std::string &path : candidates()) {
    looked += (looked.empty() ? "" : ", ") + path;
    if (path.find('/') != std::string::npos && access(path.c_str(), F_OK))
      continue;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      found = path;
      break;
    }
    if (path.find('/') != std::string::npos)
      return unavailable(path + " cannot be loaded: " + dlerror());
  }
  if (!library)
    return unavailable(std::string("ranks in several processes need NCCL, but ") + fileName +
                       " was not found (looked for " + looked +
                       "); install it (pip install nvidia-nccl-cu13) and set "
                       "OMNIBAL_CUDA_LIBRARIES to its folder");
  std::string missing;
#define OMNIBAL_LOOK(name) look(library, #name, f.name, missing)
  OMNIBAL_LOOK(ncclGetVersion);
  OMNIBAL_LOOK(ncclGetUniqueId);
  OMNIBAL_LOOK(ncclCommInitRankConfig);
  OMNIBAL_LOOK(ncclCommSplit);
  OMNIBAL_LOOK(ncclCommFinalize);
  OMNIBAL_LOOK(ncclCommDestroy);
  OMNIBAL_LOOK(ncclCommAbort);
  OMNIBAL_LOOK(ncclCommGetAsyncError);
  OMNIBAL_LOOK(ncclGetErrorString);
  OMNIBAL_LOOK(ncclGetLastError);
  OMNIBAL_LOOK(ncclGroupStart);
  OMNIBAL_LOOK(ncclGroupEnd);
  OMNIBAL_LOOK(ncclSend);
  OMNIBAL_LOOK(ncclRecv);
  OMNIBAL_LOOK(ncclAllReduce);
#undef OMNIBAL_LOOK
  int version = 0;
  if (f.ncclGetVersion)
    (void)f.ncclGetVersion(&version);
  if (!missing.empty() || version < nccl::leastVersion)
    return unavailable(found + " is NCCL " + std::to_string(version / 10000) + "." +
                       std::to_string(version / 100 % 100) + ", but 2.18 or newer is needed" +
                       (missing.empty() ? "" : " (it lacks " + missing + ")"));
  return Status::ok();
}

} // namespace

Result<const nccl::Functions *> openNccl() {
  static std::mutex mutex;
  static nccl::Functions functions;
  static bool opened = false;
  std::lock_guard lock(mutex);
  if (!opened) {
    OMNIBAL_RETURN_IF_ERROR(load(functions));
    opened = true;
  }
  return static_cast<const nccl::Functions *>(&functions);
}

} // namespace omnibal::rt::cuda
