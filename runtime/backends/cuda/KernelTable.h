//===- KernelTable.h - The cuda backend's kernels by name
//-----------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELTABLE_H
#define RUNTIME_BACKENDS_CUDA_KERNELTABLE_H

#include "runtime/backends/cuda/ProgramCode.h"
#include "runtime/core/SiteReader.h"

namespace omnibal::rt::cuda {

/// What a kernel needs of its rank's device.
struct KernelContext {
  cudaStream_t stream = nullptr;
  const ProgramCode *code = nullptr; ///< null where the program has none
};

/// A kernel of docs/kernels.md on the device: run() enqueues.
class DeviceKernel : public Kernel {
public:
  DeviceKernel(const KernelSite &site, const KernelContext &context)
      : where("kernel '" + site.kernel + "'" + (site.label.empty() ? "" : " (" + site.label + ")")),
        context(context) {}

protected:
  Status bad(const std::string &message) const { return invalid(where + ": " + message); }
  Status launched(cudaError_t error) const { return check(error, where); }
  /// Checks that two operands have one shape.
  Status same(const TensorView &view, const char *name, const TensorView &other,
              const char *otherName) const;

  std::string where;
  KernelContext context;
};

/// InvalidArgument names the kernel and what is missing or wrong.
Result<std::unique_ptr<Kernel>> createDeviceKernel(const KernelSite &site,
                                                   const KernelContext &context);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELTABLE_H
