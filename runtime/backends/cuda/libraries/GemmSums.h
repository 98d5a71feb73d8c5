//===- GemmSums.h - Sums of a product's operands, where the product does not make them --------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_GEMMSUMS_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_GEMMSUMS_H

#include "runtime/backends/cuda/kernels/matrix/Gemm.h"

namespace omnibal::rt::cuda {

/// data.sumA and data.sumB, as far as they are there.
cudaError_t launchGemmSums(const GemmShape &shape, const GemmData &data, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_GEMMSUMS_H
