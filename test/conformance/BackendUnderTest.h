//===- BackendUnderTest.h - What a backend gives the conformance suite ----------------------===//
//
// The suite knows kernels by docs/kernels.md and nothing of the backend that runs them. A backend
// implements these two functions in one file and links the suite with it.
//
//===----------------------------------------------------------------------------------------===//
#ifndef TEST_CONFORMANCE_BACKENDUNDERTEST_H
#define TEST_CONFORMANCE_BACKENDUNDERTEST_H

#include "runtime/device/Kernel.h"

namespace omnibal::rt::test {

Result<std::unique_ptr<Kernel>> createKernelUnderTest(const BoundCall &call);

/// Runs it on tensors in host memory, to its end. A backend with memory of its own copies all of
/// each tensor's bytes there and back, gaps between lines included.
Status runKernelUnderTest(Kernel &kernel, std::span<const TensorView> operands, int64_t tiles,
                          int64_t tokens, int threads);

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_BACKENDUNDERTEST_H
