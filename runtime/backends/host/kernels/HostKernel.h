//===- HostKernel.h - What the host backend's kernel classes share -----------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H
#define RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H

#include "runtime/backends/host/Registry.h"
#include "runtime/device/CheckedKernel.h"
#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace omnibal::rt {

/// Rows [first, second) of a sample, or of another piece that is attended by itself.
using Segments = std::vector<std::pair<int64_t, int64_t>>;

class HostKernel : public CheckedKernel {
public:
  explicit HostKernel(const BoundCall &call) : CheckedKernel(call, {.stridedLists = true}) {}

protected:
  /// Segments of `tokens` rows, in order: of `segmentRows` rows each or, where that is 0, those
  /// between the borders that `borders` lists, without empty ones. An error where borders do not
  /// rise from 0 to at most `tokens`.
  Result<Segments> segmentsOf(int64_t tokens, int64_t segmentRows, const TensorView *borders) const;
  /// An error where a thread of the pool has less scratch.
  Status needScratch(int64_t bytes, const ThreadPool &pool) const;
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
