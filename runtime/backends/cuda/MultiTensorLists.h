//===- MultiTensorLists.h - Lists of tensors that the optimizer's kernels read on the device ===//
#ifndef RUNTIME_BACKENDS_CUDA_MULTITENSORLISTS_H
#define RUNTIME_BACKENDS_CUDA_MULTITENSORLISTS_H

#include "runtime/backends/cuda/driver/Staging.h"
#include "runtime/backends/cuda/driver/WorkspaceLedger.h"
#include "runtime/backends/cuda/kernels/Update.h"
#include <deque>

namespace omnibal::rt::cuda {

/// A list in device memory, with room for the partial sums of its norm.
struct DeviceList {
  std::vector<UpdateTensor> tensors;
  std::unique_ptr<DeviceBuffer> memory;
  UpdateList list;
  double *partial = nullptr, *result = nullptr;
};

/// Every list is uploaded once: a run asks for the same few at every step.
class MultiTensorLists {
public:
  MultiTensorLists(cudaStream_t stream, Staging &staging, WorkspaceLedger &own)
      : stream(stream), staging(staging), own(own) {}
  /// Tensors without elements are left out.
  Result<const DeviceList *> get(std::vector<UpdateTensor> tensors);

private:
  cudaStream_t stream;
  Staging &staging;
  WorkspaceLedger &own;
  std::deque<DeviceList> lists; // addresses stay
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_MULTITENSORLISTS_H
