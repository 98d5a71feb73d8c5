//===- TensorStaging.h - Copies of tensors, to be written while the originals go on -----------===//
#ifndef RUNTIME_CHECKPOINT_TENSORSTAGING_H
#define RUNTIME_CHECKPOINT_TENSORSTAGING_H

#include "runtime/checkpoint/NamedTensor.h"
#include "runtime/support/ThreadPool.h"
#include <memory>

namespace omnibal::rt {

/// Holds one set of copies at a time. A host's tensors are copied into a buffer, a device's into
/// pinned memory of its backend; either is kept for the next set.
class TensorStaging {
public:
  TensorStaging(Backend &backend, ThreadPool &pool) : backend(backend), pool(pool) {}
  TensorStaging(const TensorStaging &) = delete;

  /// What copy() takes for these tensors.
  static int64_t bytesOf(const std::vector<NamedTensor> &tensors);
  /// Returns the tensors as they are now, in host memory, which holds until release(). An
  /// OutOfMemory error leaves nothing behind.
  Result<std::vector<NamedTensor>> copy(const std::vector<NamedTensor> &tensors);
  void release();

private:
  Result<std::vector<NamedTensor>> copyOnHost(std::vector<NamedTensor> tensors);
  Result<std::vector<NamedTensor>> copyFromDevice(std::vector<NamedTensor> tensors);

  Backend &backend;
  ThreadPool &pool;
  std::unique_ptr<std::byte[]> buffer;
  int64_t bufferBytes = 0;
  std::vector<HostCopy> taken;
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_TENSORSTAGING_H
