#include "runtime/backends/host/HostBackend.h"
#include "test/conformance/BackendUnderTest.h"

namespace omnibal::rt::test {

Result<std::unique_ptr<Kernel>> createKernelUnderTest(const BoundCall &call) {
  return createHostKernel(call);
}

Status runKernelUnderTest(Kernel &kernel, std::span<const TensorView> operands, int64_t tiles,
                          int64_t tokens, int threads) {
  ThreadPool pool(threads);
  return kernel.run(operands, SymbolValues::of(tiles, tokens), pool);
}

} // namespace omnibal::rt::test
