//===- NcclApi.h - What of NCCL's interface is used -------------------------------------------===//
//
// These are the facts of nccl.h that hold from NCCL 2.18 on, so that the plugin builds without NCCL
// and uses whichever version the machine has. The configuration has the layout of version 2.14,
// which its fields say and which later versions read.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_NCCLAPI_H
#define RUNTIME_BACKENDS_CUDA_COMM_NCCLAPI_H

#include <cstddef>
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda::nccl {

using Communicator = struct ncclComm *;

enum Result : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7
};
enum DataType : int { Bytes = 1, Float32 = 7 };
enum Operation : int { Sum = 0 };

struct UniqueId {
  char internal[128];
};

struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

constexpr int noColor = -1;         ///< takes no part in a split
constexpr int leastVersion = 21800; ///< ncclCommSplit

/// The functions, as they are named.
struct Functions {
  Result (*ncclGetVersion)(int *version);
  Result (*ncclGetUniqueId)(UniqueId *id);
  Result (*ncclCommInitRankConfig)(Communicator *made, int ranks, UniqueId id, int rank,
                                   Config *config);
  Result (*ncclCommSplit)(Communicator parent, int color, int key, Communicator *made,
                          Config *config);
  Result (*ncclCommFinalize)(Communicator communicator);
  Result (*ncclCommDestroy)(Communicator communicator);
  Result (*ncclCommAbort)(Communicator communicator);
  Result (*ncclCommGetAsyncError)(Communicator communicator, Result *error);
  const char *(*ncclGetErrorString)(Result result);
  const char *(*ncclGetLastError)(Communicator communicator);
  Result (*ncclGroupStart)();
  Result (*ncclGroupEnd)();
  Result (*ncclSend)(const void *from, size_t count, DataType type, int peer,
                     Communicator communicator, cudaStream_t stream);
  Result (*ncclRecv)(void *to, size_t count, DataType type, int peer, Communicator communicator,
                     cudaStream_t stream);
  Result (*ncclBroadcast)(const void *from, void *to, size_t count, DataType type, int root,
                          Communicator communicator, cudaStream_t stream);
  Result (*ncclReduce)(const void *from, void *to, size_t count, DataType type, Operation operation,
                       int root, Communicator communicator, cudaStream_t stream);
  Result (*ncclAllReduce)(const void *from, void *to, size_t count, DataType type,
                          Operation operation, Communicator communicator, cudaStream_t stream);
};

} // namespace omnibal::rt::cuda::nccl
#endif // RUNTIME_BACKENDS_CUDA_COMM_NCCLAPI_H
