//===- PlainKernel.h - What the sites of plain kernels share ----------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_CALLS_PLAINKERNEL_H
#define RUNTIME_BACKENDS_CUDA_CALLS_PLAINKERNEL_H

#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/plain/Plain.h"

namespace omnibal::rt::cuda {

PlainView plainView(const TensorView &view);

class PlainKernel : public DeviceKernel {
protected:
  using DeviceKernel::DeviceKernel;

  /// Returns the view with the result's rank and shape, as NumPy broadcasts.
  Result<PlainView> broadcast(const TensorView &view, const TensorView &to) const;
  /// Returns the same for an optional operand (-1: a view without data).
  Result<PlainView> broadcast(std::span<const TensorView> views, int operand,
                              const TensorView &to) const;
  /// Returns an axis in [0, rank); negative ones count from the end.
  Result<int> axisOf(int64_t axis, const TensorView &view) const;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CALLS_PLAINKERNEL_H
