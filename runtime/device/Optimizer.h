//===- Optimizer.h - AdamW and the sums around it, over many tensors ---------------------===//
//
// These are functions that a backend offers in addition to kernels; the executor's update and
// scalar reduction call them. All tensors of a call are treated as one sequence of fixed blocks
// that depends on the sizes only, so no result depends on the number of threads. Pointers need only
// the alignment of float.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_OPTIMIZER_H
#define RUNTIME_DEVICE_OPTIMIZER_H

#include "runtime/support/BFloat16.h"
#include "runtime/support/ThreadPool.h"
#include <cstdint>
#include <span>

namespace omnibal::rt {

/// One parameter of an update.
struct AdamWTensor {
  float *param = nullptr;
  float *grad = nullptr;
  float *moment1 = nullptr;
  float *moment2 = nullptr;
  int64_t elements = 0;
  bool decay = true;        ///< false: weightDecay is 0 for this tensor
  BFloat16 *copy = nullptr; ///< receives `param` rounded, if there is one
};

struct AdamWOptions {
  double learningRate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0.01;
  int64_t step = 1;          ///< 1 at the first update; sets the bias corrections
  double gradientScale = 1;  ///< multiplies every gradient first (1 / count, clipping)
  bool zeroGradients = true; ///< leaves zeros in `grad`, ready for the next step's sums
  bool scaleOfStep = false;  ///< see Backend::adamW
};

/// A run of float32 values; gradients of squaredNorm and scale.
struct FloatRun {
  float *data = nullptr;
  int64_t elements = 0;
};

/// Computes PyTorch's AdamW: p *= 1 - lr * decay; m, v; p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) +
/// eps).
void adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options, ThreadPool &pool);

/// Writes every copy that exists as its parameter, rounded.
void copyParameters(std::span<const AdamWTensor> tensors, ThreadPool &pool);

/// Returns the sum of squares in double: blocks of fixed size are added in order of run and
/// position.
double squaredNorm(std::span<const FloatRun> runs, ThreadPool &pool);

/// Multiplies every value.
void scale(std::span<const FloatRun> runs, double factor, ThreadPool &pool);

/// Writes zeros.
void fillZero(std::span<const FloatRun> runs, ThreadPool &pool);

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_OPTIMIZER_H
