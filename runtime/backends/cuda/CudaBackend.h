//===- CudaBackend.h - One rank's share of a CUDA device -------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_CUDABACKEND_H
#define RUNTIME_BACKENDS_CUDA_CUDABACKEND_H

#include "runtime/device/Backend.h"

namespace omnibal::rt::cuda {

/// On device `device` of this process; the calling thread is the one that uses the backend.
Result<std::unique_ptr<Backend>> openCudaBackend(int device, const BackendOptions &options);

/// The kind with the first visible device. Unavailable tells no driver, an old driver, no device
/// and a device that is too old apart.
Result<std::unique_ptr<BackendKind>> findCudaDevice();

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CUDABACKEND_H
