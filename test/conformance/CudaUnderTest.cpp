//===- CudaUnderTest.cpp - The cuda backend's kernels, emulated
//---------------------------------===//
//
// Other numbers of threads are other orders of the device's blocks and threads: what the suite
// demands of the first is here demanded of the second.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/KernelTable.h"
#include "test/conformance/BackendUnderTest.h"
#include "test/support/cuda_emulation/Control.h"

namespace omnibal::rt::test {

Result<std::unique_ptr<Kernel>> createKernelUnderTest(const KernelSite &site) {
  return cuda::createDeviceKernel(site, {});
}

Status runKernelUnderTest(Kernel &kernel, std::span<const TensorView> operands, int64_t tiles,
                          int64_t tokens, int threads) {
  ThreadPool pool(1);
  emulation::setOrder(static_cast<uint64_t>(threads - 1));
  Status status = kernel.run(operands, tiles, tokens, pool);
  emulation::setOrder(0);
  const std::string failure = emulation::takeFailure();
  return failure.empty() ? status : Status(Code::Internal, failure);
}

} // namespace omnibal::rt::test
