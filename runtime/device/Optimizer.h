//===- Optimizer.h - What an update and the sums around it work on ------------------------===//
#ifndef RUNTIME_DEVICE_OPTIMIZER_H
#define RUNTIME_DEVICE_OPTIMIZER_H

#include "runtime/device/NormBlocks.h"
#include "runtime/device/UpdateOptions.h"
#include "runtime/support/BFloat16.h"
#include <cstdint>

namespace omnibal::rt {

/// One parameter of an update, with as many moments as its optimizer has.
struct UpdatedTensor {
  float *param = nullptr;
  float *grad = nullptr;
  float *moment1 = nullptr;
  float *moment2 = nullptr;
  int64_t elements = 0;
  int32_t rate = 0;         ///< number in UpdateOptions::rates
  BFloat16 *copy = nullptr; ///< receives `param` rounded, if there is one
  /// Of a matrix whose update is orthogonalized, as it lies in memory, or of one of the matrices of
  /// a tensor whose variance is factored: then the moments are the variances of rows and of
  /// columns. Else 0.
  int64_t rows = 0, cols = 0;
  /// In place of the moments, where the optimizer keeps codes.
  CodedMoment coded1 = {}, coded2 = {};
};

/// Values that train, and their moving average.
struct AveragedTensor {
  float *value = nullptr, *average = nullptr;
  int64_t elements = 0;
};

/// A run of float32 values; gradients of squaredNorm and scale.
struct FloatRun {
  float *data = nullptr;
  int64_t elements = 0;
  /// Values of its first block that lie before it, in other runs: they have sums of their own.
  int64_t phase = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_OPTIMIZER_H
