//===- StepSums.h - A step's loss and the scale of its update, without the host ---------------===//
//
// This is runtime/comm/StepSums.h in device memory, so that the host need not wait for a step's
// numbers before it enqueues the update and the next step.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_STEPSUMS_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_STEPSUMS_H

#include <cstdint>
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// *sum += the losses, added in double in an order that depends on `count` only.
cudaError_t launchAddLosses(const float *losses, int64_t count, double *sum, cudaStream_t stream);

/// Writes the slots of `ranks` ranks: this one's from its sums, zeros elsewhere. `losses`, one a
/// kind, become 0. `squaredNorm` null: 0.
cudaError_t launchEncodeSums(double *losses, const double *squaredNorm, int rank, int ranks,
                             float *slots, cudaStream_t stream);

/// *scale = updateScale() of everyone's sums; a scale that is not a number stays: after a step
/// without a result nothing is updated any more.
cudaError_t launchUpdateScale(const float *slots, int ranks, double labels, double clip,
                              float *scale, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_STEPSUMS_H
