//===- TestPasses.cpp ------------------------------------------------------------------------===//
#include "test/lib/TestPasses.h"
#include "mlir/Pass/PassRegistry.h"
#include "test/lib/GpuEmulation.h"

namespace omnibal::test {

void registerTestPasses() {
  mlir::registerPass([] { return createSelectRemat(); });
  mlir::registerPass(createEmitGpuKernels);
  mlir::registerPass(createApplyLayouts);
  registerGpuEmulation();
}

} // namespace omnibal::test
