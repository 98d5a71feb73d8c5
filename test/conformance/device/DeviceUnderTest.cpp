//===- DeviceUnderTest.cpp - The conformance suite on the backend of target cuda --------------===//
//
// Other numbers of threads are other orders of an emulated device's blocks and threads: what the
// suite demands of the first is demanded of the second.
//
//===-------------------------------------------------------------------------------------------===//
#include "test/conformance/BackendUnderTest.h"
#include "test/conformance/device/Device.h"

namespace omnibal::rt::test {

Result<std::unique_ptr<Kernel>> createKernelUnderTest(const BoundCall &call) {
  return deviceBackend().createKernel(call);
}

Status runKernelUnderTest(Kernel &kernel, std::span<const TensorView> operands, int64_t tiles,
                          int64_t tokens, int threads) {
  setDeviceOrder(static_cast<uint64_t>(threads - 1));
  Status status = runOnDevice(kernel, operands, tiles, tokens);
  setDeviceOrder(0);
  return status;
}

} // namespace omnibal::rt::test
