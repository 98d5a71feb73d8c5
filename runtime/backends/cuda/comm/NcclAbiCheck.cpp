// NcclApi.h against NVIDIA's header. Compiled only where that is installed; nothing of it is run.
#include "runtime/backends/cuda/comm/NcclApi.h"
#include <nccl.h>
#include <type_traits>

namespace omnibal::rt::cuda::nccl {
namespace {

/// Same number of parameters, each of the same size and of the same kind (pointer, class or
/// number).
template <typename A, typename B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                       std::is_class_v<A> == std::is_class_v<B>;
template <typename... A, typename... B, typename R, typename S>
constexpr bool callable(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return (alike<A, B> && ...) && alike<R, S>;
}
#define SAME_CALL(name)                                                                            \
  static_assert(callable(decltype(Functions::name)(nullptr), decltype (&::name)(nullptr)))

SAME_CALL(ncclGetVersion);
SAME_CALL(ncclGetUniqueId);
SAME_CALL(ncclCommInitRankConfig);
SAME_CALL(ncclCommSplit);
SAME_CALL(ncclCommFinalize);
SAME_CALL(ncclCommDestroy);
SAME_CALL(ncclCommAbort);
SAME_CALL(ncclCommGetAsyncError);
SAME_CALL(ncclGetErrorString);
SAME_CALL(ncclGetLastError);
SAME_CALL(ncclGroupStart);
SAME_CALL(ncclGroupEnd);
SAME_CALL(ncclSend);
SAME_CALL(ncclRecv);
SAME_CALL(ncclAllReduce);
SAME_CALL(ncclReduce);
SAME_CALL(ncclBroadcast);

static_assert(NCCL_VERSION_CODE >= leastVersion);
static_assert(int(Success) == ncclSuccess && int(UnhandledCudaError) == ncclUnhandledCudaError &&
              int(SystemError) == ncclSystemError && int(InternalError) == ncclInternalError &&
              int(InvalidArgument) == ncclInvalidArgument &&
              int(InvalidUsage) == ncclInvalidUsage && int(RemoteError) == ncclRemoteError &&
              int(InProgress) == ncclInProgress);
static_assert(int(Bytes) == ncclUint8 && int(Float32) == ncclFloat32 && int(Sum) == ncclSum);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(noColor == NCCL_SPLIT_NOCOLOR);

// Later versions add fields behind these and read as many as `version` says there are.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
              offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
constexpr ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
static_assert(Config().magic == theirs.magic);

} // namespace
} // namespace omnibal::rt::cuda::nccl
