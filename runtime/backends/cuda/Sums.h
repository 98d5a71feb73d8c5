//===- Sums.h - A step's losses, its norm and the scale of its update in device memory -------===//
#ifndef RUNTIME_BACKENDS_CUDA_SUMS_H
#define RUNTIME_BACKENDS_CUDA_SUMS_H

#include "runtime/backends/cuda/driver/Staging.h"
#include "runtime/comm/StepSums.h"

namespace omnibal::rt::cuda {

/// Backend::addLosses and finishSums.
class Sums {
public:
  static Result<std::unique_ptr<Sums>> create(cudaStream_t stream, Staging &staging);

  Status add(std::span<const float> losses, LossKind kind);
  /// The slots of all ranks, in device memory.
  Result<std::span<float>> finish(const double *squaredNorm, Transport &transport,
                                  const SumsOptions &options);
  /// Begins again after sums that were not numbers.
  Status restart();
  const float *scale() const { return reinterpret_cast<const float *>(memory->data() + scaleAt); }

private:
  static constexpr int64_t lossesAt = 0, scaleAt = lossKinds * sizeof(double),
                           stateBytes = scaleAt + sizeof(double);

  Sums() = default;
  /// By their kind.
  double *losses() { return reinterpret_cast<double *>(memory->data() + lossesAt); }

  cudaStream_t stream = nullptr;
  Staging *staging = nullptr;
  std::unique_ptr<DeviceBuffer> memory, slots;
  int64_t slotsMade = 0; ///< floats
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_SUMS_H
