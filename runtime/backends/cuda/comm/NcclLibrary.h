//===- NcclLibrary.h - Finds and opens NCCL ---------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_NCCLLIBRARY_H
#define RUNTIME_BACKENDS_CUDA_COMM_NCCLLIBRARY_H

#include "runtime/backends/cuda/comm/NcclApi.h"
#include "runtime/support/Status.h"

namespace omnibal::rt::cuda {

/// Returns libnccl.so.2, which is opened once per process (SharedLibrary.h). Unavailable says where
/// it was looked for, or that it is too old.
Result<const nccl::Functions *> openNccl();

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_COMM_NCCLLIBRARY_H
