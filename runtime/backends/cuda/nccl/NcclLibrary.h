//===- NcclLibrary.h - Finds and opens NCCL ---------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_NCCL_NCCLLIBRARY_H
#define RUNTIME_BACKENDS_CUDA_NCCL_NCCLLIBRARY_H

#include "runtime/backends/cuda/nccl/NcclApi.h"
#include "runtime/core/Status.h"

namespace omnibal::rt::cuda {

/// libnccl.so.2, opened once a process (SharedLibrary.h). Unavailable says where it was looked for,
/// or that it is too old.
Result<const nccl::Functions *> openNccl();

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_NCCL_NCCLLIBRARY_H
