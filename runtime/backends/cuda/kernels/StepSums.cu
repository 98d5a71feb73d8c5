//===- StepSums.cu - One block, or one thread, a launch ---------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/StepSums.h"
#include "runtime/comm/StepSums.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    addLosses(const float *losses, int64_t count, double *sum) {
  double mine = 0;
  for (int64_t i = threadIdx.x; i < count; i += threads)
    mine += static_cast<double>(losses[i]);
  mine = blockSum<threads>(mine);
  if (threadIdx.x == 0)
    *sum += mine;
}

__global__ void __launch_bounds__(threads)
    encodeRank(double *losses, const double *squaredNorm, int rank, int ranks, float *slots) {
  for (int i = threadIdx.x; i < ranks * slotFloats; i += threads)
    if (i / slotFloats != rank)
      slots[i] = 0;
  if (threadIdx.x == 0) {
    encodeSums(sumsOf(losses, squaredNorm ? *squaredNorm : 0), slots + rank * slotFloats);
    for (int kind = 0; kind < lossKinds; ++kind)
      losses[kind] = 0;
  }
}

__global__ void __launch_bounds__(32)
    scaleOf(const float *slots, int ranks, double labels, double clip, float *scale) {
  if (threadIdx.x == 0 && *scale == *scale)
    *scale = updateScale(totalOf(slots, ranks), labels, clip);
}

} // namespace

cudaError_t launchAddLosses(const float *losses, int64_t count, double *sum, cudaStream_t stream) {
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(addLosses, dim3(1), dim3(threads), stream, losses, count, sum);
  return cudaGetLastError();
}

cudaError_t launchEncodeSums(double *losses, const double *squaredNorm, int rank, int ranks,
                             float *slots, cudaStream_t stream) {
  OMNIBAL_LAUNCH(encodeRank, dim3(1), dim3(threads), stream, losses, squaredNorm, rank, ranks, slots);
  return cudaGetLastError();
}

cudaError_t launchUpdateScale(const float *slots, int ranks, double labels, double clip,
                              float *scale, cudaStream_t stream) {
  OMNIBAL_LAUNCH(scaleOf, dim3(1), dim3(32), stream, slots, ranks, labels, clip, scale);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
