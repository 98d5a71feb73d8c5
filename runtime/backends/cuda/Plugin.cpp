//===- Plugin.cpp - What libomnibal_cuda.so exports ------------------------------------------===//
#include "runtime/backends/cuda/CudaBackend.h"
#include "runtime/device/BackendInterface.h"

namespace {

omnibal::rt::BackendKind *create(omnibal::rt::Status &error) {
  auto kind = omnibal::rt::cuda::findCudaDevice();
  if (kind)
    return kind->release(); // lives for ever
  error = std::move(kind).status();
  return nullptr;
}

} // namespace

extern "C" __attribute__((visibility("default")))
const omnibal::rt::BackendPlugin omnibalBackendPlugin{omnibal::rt::backendInterface, create};
