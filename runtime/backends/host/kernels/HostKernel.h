//===- HostKernel.h - What the host backend's kernel classes share -----------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H
#define RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H

#include "runtime/backends/host/Registry.h"
#include "runtime/device/CheckedKernel.h"
#include <atomic>
#include <span>
#include <string>

namespace omnibal::rt {

class HostKernel : public CheckedKernel {
public:
  explicit HostKernel(const BoundCall &call) : CheckedKernel(call, {.stridedLists = true}) {}
};

/// Keeps the first error of tasks that run side by side.
class TaskStatus {
public:
  void note(Status status) {
    if (!status && !failed.exchange(true))
      first = std::move(status);
  }
  Status take() { return std::move(first); }

private:
  std::atomic<bool> failed{false};
  Status first;
};

template <typename T> T *dataOf(const TensorView &view) { return static_cast<T *>(view.data); }

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H
