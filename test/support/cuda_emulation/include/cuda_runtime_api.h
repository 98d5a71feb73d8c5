//===- cuda_runtime_api.h - The part of CUDA's runtime API that the kernels' launchers use ---===//
#ifndef TEST_SUPPORT_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H
#define TEST_SUPPORT_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H

#include "test/support/cuda_emulation/Emulation.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorLaunchFailure = 719
};
using cudaStream_t = struct CUstream_st *;

inline cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(omnibal::emulation::lastError(true));
}
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  omnibal::emulation::submit(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

#endif // TEST_SUPPORT_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H
