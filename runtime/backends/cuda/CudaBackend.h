//===- CudaBackend.h - One rank's share of a CUDA device -------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_CUDABACKEND_H
#define RUNTIME_BACKENDS_CUDA_CUDABACKEND_H

#include "runtime/device/Backend.h"

namespace omnibal::rt::cuda {

/// Opens the backend on device `device` of this process; the calling thread is the one that uses
/// the backend.
Result<std::unique_ptr<Backend>> openCudaBackend(int device, const BackendOptions &options);

/// Returns the kind with the first visible device. An Unavailable error distinguishes no driver, an
/// old driver, no device, and a device that is too old.
Result<std::unique_ptr<BackendKind>> findCudaDevice();

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CUDABACKEND_H
