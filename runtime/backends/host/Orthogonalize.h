//===- Orthogonalize.h - Muon's update of one matrix ------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_ORTHOGONALIZE_H
#define RUNTIME_BACKENDS_HOST_ORTHOGONALIZE_H

#include "runtime/device/Optimizer.h"
#include "runtime/support/Status.h"
#include "runtime/support/ThreadPool.h"
#include <span>

namespace omnibal::rt {

/// Brings the singular values of `x` [rows, cols], which has dense rows, near 1 and leaves its
/// singular vectors: five steps of a Newton-Schulz iteration of degree five, after Jordan (Muon,
/// 2024). `scratch` has orthogonalizationFloats(rows, cols) - rows * cols values. No result depends
/// on the number of threads.
Status orthogonalize(float *x, int64_t rows, int64_t cols, std::span<float> scratch,
                     ThreadPool &pool);

/// m = b m + (1 - b) g; p *= 1 - lr decay; p -= lr 0.2 sqrt(max(rows, cols)) orthogonalize(b m + (1
/// - b) g), with the momentum b. The factor gives an update the size of AdamW's, so that both take
/// the same rates (Liu et al., arXiv 2502.16982). `scratch` has orthogonalizationFloats() values.
Status updateMatrix(const UpdatedTensor &tensor, const UpdateOptions &options,
                    std::span<float> scratch, ThreadPool &pool);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_ORTHOGONALIZE_H
