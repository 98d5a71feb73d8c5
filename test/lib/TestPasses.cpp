//===- TestPasses.cpp ------------------------------------------------------------------------===//
#include "test/lib/TestPasses.h"
#include "mlir/Pass/PassRegistry.h"

namespace omnibal::test {

void registerTestPasses() {
  mlir::registerPass([] { return createSelectRemat(); });
  mlir::registerPass(createEmitGpuKernels);
}

} // namespace omnibal::test
