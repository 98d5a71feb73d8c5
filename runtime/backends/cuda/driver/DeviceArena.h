//===- DeviceArena.h - A rank's arena in device memory ----------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_DEVICEARENA_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_DEVICEARENA_H

#include "runtime/backends/cuda/driver/Staging.h"
#include "runtime/backends/cuda/driver/WorkspaceLedger.h"

namespace omnibal::rt::cuda {

/// Allocates the arena. `staging` works on `stream`, and both outlive the arena. There must be room
/// for what `own` still expects.
Result<std::unique_ptr<Arena>> allocateDeviceArena(int64_t bytes, bool guarded, cudaStream_t stream,
                                                   Staging &staging, const WorkspaceLedger &own);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_DEVICEARENA_H
