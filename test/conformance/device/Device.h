//===- Device.h - A backend whose memory is not the host's, for tests of its kernels ----------===//
//
// The backend of target cuda, from the plugin in $OMNIBAL_PLUGINS: that of a GPU, or the emulated
// one. Tests know both by the interface of runtime/device/Backend.h only.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_CONFORMANCE_DEVICE_DEVICE_H
#define TEST_CONFORMANCE_DEVICE_DEVICE_H

#include "runtime/device/Backend.h"

namespace omnibal::rt::test {

/// Opened at the first call. Ends the process with one line if there is none.
BackendKind &deviceKind();
/// One backend for all kernels of the process.
Backend &deviceBackend();

/// Copies what the views cover to the device (overlapping views share memory there too, alignment
/// to 16 bytes is kept), runs the kernel, waits, copies everything back, and checks that nothing
/// around the views' memory was written.
Status runOnDevice(Kernel &kernel, std::span<const TensorView> operands, int64_t tiles,
                   int64_t tokens);

/// The emulated device runs blocks and threads in another order from here on; 0 is the plain one. A
/// GPU chooses for itself.
void setDeviceOrder(uint64_t seed);
/// Whether the plugin is the emulated one: tests do less then.
bool deviceIsEmulated();

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_DEVICE_DEVICE_H
