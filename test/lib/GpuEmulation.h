//===- GpuEmulation.h - GPU kernels as host functions, for tests without a GPU -----------===//
#ifndef TEST_LIB_GPUEMULATION_H
#define TEST_LIB_GPUEMULATION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace omnibal::test {

/// Returns the kernels of the gpu.module in `module`, which is used up, as host functions
/// `void symbol(void **parameters)` that ask a table of functions (`omnibal_device`,
/// docs/testing.md) for what a device's thread knows and waits for.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> emulateKernels(mlir::ModuleOp module);

/// Makes it the way "emulated" to make code of GPU kernels.
void registerGpuEmulation();

} // namespace omnibal::test
#endif // TEST_LIB_GPUEMULATION_H
