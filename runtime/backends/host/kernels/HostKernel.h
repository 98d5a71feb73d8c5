//===- HostKernel.h - What the host backend's kernel classes share -----------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H
#define RUNTIME_BACKENDS_HOST_KERNELS_HOSTKERNEL_H

#include "runtime/backends/host/Registry.h"
#include <atomic>
#include <span>
#include <string>

namespace omnibal::rt {

/// "[3, 4]"
std::string printShape(const TensorView &view);

class HostKernel : public Kernel {
public:
  explicit HostKernel(const BoundCall &call) : where("kernel '" + call.kernel + "'") {
    if (!call.label.empty())
      where += " (" + call.label + ")";
  }

protected:
  Status bad(const std::string &message) const { return invalid(where + ": " + message); }
  /// Checks an operand's rank (-1 = any) and element type.
  Status check(const TensorView &view, const char *name, int rank, DType dtype) const;
  /// Checks that an operand has the shape of another.
  Status same(const TensorView &view, const char *name, const TensorView &other,
              const char *otherName) const;

  std::string where;
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
