//===- Optimizer.h - AdamW and the sums around it, over many tensors ---------------------===//
//
// All tensors of a call are treated as one sequence of fixed blocks that depends on the sizes only,
// so no result depends on the number of threads. Pointers need only the alignment of float.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_OPTIMIZER_H
#define RUNTIME_BACKENDS_HOST_OPTIMIZER_H

#include "runtime/device/Optimizer.h"
#include "runtime/support/ThreadPool.h"
#include <span>
#include <vector>

namespace omnibal::rt {

/// Computes PyTorch's AdamW: p *= 1 - lr * decay; m, v; p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) +
/// eps).
void adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options, ThreadPool &pool);

/// Writes every copy that exists as its parameter, rounded.
void copyParameters(std::span<const AdamWTensor> tensors, ThreadPool &pool);

/// Returns the sums of squares of the runs' blocks, in order of run and position; 0 where a run has
/// no data.
std::vector<double> squaresOfBlocks(std::span<const FloatRun> runs, ThreadPool &pool);

/// Returns the sum of these.
double squaredNorm(std::span<const FloatRun> runs, ThreadPool &pool);

/// Multiplies every value.
void scale(std::span<const FloatRun> runs, double factor, ThreadPool &pool);

/// Writes zeros.
void fillZero(std::span<const FloatRun> runs, ThreadPool &pool);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_OPTIMIZER_H
