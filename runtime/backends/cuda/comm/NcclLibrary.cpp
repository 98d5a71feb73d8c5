#include "runtime/backends/cuda/comm/NcclLibrary.h"
#include "runtime/backends/cuda/driver/SharedLibrary.h"
#include <mutex>

namespace omnibal::rt::cuda {
namespace {

std::string versionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

Status findAll(const SharedLibrary &library, nccl::Functions &f) {
  Status status;
  auto find = [&](const char *name, auto &function) {
    if (status)
      status = library.find(name, function);
  };
#define OMNIBAL_FIND(name) find(#name, f.name)
  OMNIBAL_FIND(ncclGetVersion);
  int version = 0;
  if (status && (f.ncclGetVersion(&version) != nccl::Success || version < nccl::leastVersion))
    return {Code::Unavailable, library.path() + " is NCCL " + versionText(version) + ", but " +
                                   versionText(nccl::leastVersion) + " or newer is needed"};
  OMNIBAL_FIND(ncclGetUniqueId);
  OMNIBAL_FIND(ncclCommInitRankConfig);
  OMNIBAL_FIND(ncclCommSplit);
  OMNIBAL_FIND(ncclCommFinalize);
  OMNIBAL_FIND(ncclCommDestroy);
  OMNIBAL_FIND(ncclCommAbort);
  OMNIBAL_FIND(ncclCommGetAsyncError);
  OMNIBAL_FIND(ncclGetErrorString);
  OMNIBAL_FIND(ncclGetLastError);
  OMNIBAL_FIND(ncclGroupStart);
  OMNIBAL_FIND(ncclGroupEnd);
  OMNIBAL_FIND(ncclSend);
  OMNIBAL_FIND(ncclRecv);
  OMNIBAL_FIND(ncclAllReduce);
  OMNIBAL_FIND(ncclReduce);
  OMNIBAL_FIND(ncclBroadcast);
#undef OMNIBAL_FIND
  return status;
}

} // namespace

Result<const nccl::Functions *> openNccl() {
  static std::mutex mutex;
  static nccl::Functions functions;
  static bool opened = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (!opened) {
    auto library = SharedLibrary::open("libnccl.so.2", "nccl");
    Status status = library ? findAll(**library, functions) : library.status();
    if (!status)
      return Status(Code::Unavailable, "ranks with a device each need NCCL (pip install "
                                       "nvidia-nccl-cu13, or all ranks in one process): " +
                                           status.message());
    opened = true; // never unloaded
  }
  return static_cast<const nccl::Functions *>(&functions);
}

} // namespace omnibal::rt::cuda
