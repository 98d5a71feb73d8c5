//===- Optimizer.h - Updates and the sums around them, over many tensors ---------------------===//
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

/// Changes the parameters p by their gradients g.
/// AdamW: p *= 1 - lr decay; m, v; p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) + eps).
/// Lion: p *= 1 - lr decay; p -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g.
/// SGD: g += decay p; m = momentum m + g; p -= lr m or, with Nesterov's momentum, lr (g + momentum
/// m).
/// Muon: AdamW, which is for what is no matrix; matrices are updateMatrix()'s.
/// Adafactor has no such update: its tensors are updateAdafactor()'s.
/// AdamW8bit: AdamW with moments that are decoded before and encoded afterwards.
void update(std::span<const UpdatedTensor> tensors, const UpdateOptions &options, ThreadPool &pool);

/// Writes every copy that exists as its parameter, rounded.
void copyParameters(std::span<const UpdatedTensor> tensors, ThreadPool &pool);

/// Every average = decay average + (1 - decay) value.
void average(std::span<const AveragedTensor> tensors, double decay, ThreadPool &pool);

/// Every average gets the place of its value, and the value that of the average.
void exchange(std::span<const AveragedTensor> tensors, ThreadPool &pool);

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
