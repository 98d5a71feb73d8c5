//===- Sums.h - A step's loss, its norm and the scale of its update in device memory ----------===//
#ifndef RUNTIME_BACKENDS_CUDA_SUMS_H
#define RUNTIME_BACKENDS_CUDA_SUMS_H

#include "runtime/backends/cuda/driver/Staging.h"

namespace omnibal::rt::cuda {

/// Backend::addLosses and finishSums.
class Sums {
public:
  static Result<std::unique_ptr<Sums>> create(cudaStream_t stream, Staging &staging);

  Status add(std::span<const float> losses);
  /// The slots of all ranks, in device memory.
  Result<std::span<float>> finish(const double *squaredNorm, Transport &transport,
                                  const SumsOptions &options);
  const float *scale() const { return reinterpret_cast<const float *>(memory->data() + scaleAt); }

private:
  static constexpr int64_t lossAt = 0, scaleAt = 8, stateBytes = 16;

  Sums() = default;
  double *loss() { return reinterpret_cast<double *>(memory->data() + lossAt); }

  cudaStream_t stream = nullptr;
  std::unique_ptr<DeviceBuffer> memory, slots;
  int64_t slotsMade = 0; ///< floats
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_SUMS_H
