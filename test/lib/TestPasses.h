//===- TestPasses.h - Passes that only tests run --------------------------------------------===//
#ifndef TEST_LIB_TESTPASSES_H
#define TEST_LIB_TESTPASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal::test {

/// `test-select-remat`: writes `omnibal.remat` ("keep", "selective-N" or "full") on every layer
/// that has none yet, in place of a plan.
std::unique_ptr<mlir::Pass> createSelectRemat(std::string choice = "keep");
/// `test-emit-gpu-kernels`: appends the kernels that a module's functions become for target cuda,
/// in a gpu.module; the functions stay as they are.
std::unique_ptr<mlir::Pass> createEmitGpuKernels();

/// `test-apply-layouts`: appends a function for each part of every layer that has layouts.
std::unique_ptr<mlir::Pass> createApplyLayouts();

/// For omnibal-opt in builds with tests: the passes, and the code of the emulated device.
void registerTestPasses();

} // namespace omnibal::test
#endif // TEST_LIB_TESTPASSES_H
