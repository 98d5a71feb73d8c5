//===- Runtime.cpp - The runtime calls of the backend's kernels by name, beside the emulation
//---===//
//
// Compiled against the declarations of test/support/fake_cuda. Device memory is ordinary memory,
// and all work is done when a call returns.
//
//===-------------------------------------------------------------------------------------------===//
#include <cstdlib>
#include <cuda_runtime_api.h>

namespace {
constexpr auto unsupported = cudaErrorInvalidValue;
}

extern "C" {
const char *cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "an error of the emulation";
}
const char *cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t) {
  *memory = std::malloc(bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t) {
  std::free(memory);
  return cudaSuccess;
}
// Of the backend's host code that comes along; no kernel calls these.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned) { return unsupported; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return unsupported; }
cudaError_t cudaEventQuery(cudaEvent_t) { return unsupported; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return unsupported; }
cudaError_t cudaFreeHost(void *) { return unsupported; }
cudaError_t cudaHostAlloc(void **, size_t, unsigned) { return unsupported; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned) { return unsupported; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return unsupported; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return unsupported; }
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *, const char *, cudaJitOption *, void **,
                                    unsigned, cudaLibraryOption *, void **, unsigned) {
  return unsupported;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return unsupported; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t *, cudaLibrary_t, const char *) {
  return unsupported;
}
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t) {
  return unsupported;
}
}
