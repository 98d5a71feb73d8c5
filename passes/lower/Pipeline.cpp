//===- Pipeline.cpp - omnibal-lower ------------------------------------------------------===//
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/lower/Lowering.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace omnibal::lower {
namespace {
struct LowerOptions : PassPipelineOptions<LowerOptions> {
  Option<std::string> target{*this, "target", llvm::cl::init("host"),
                             llvm::cl::desc("host or cuda")};
};
} // namespace

void buildLowerPipeline(OpPassManager &functions, const std::string &target) {
  // Attention before norms and GEMMs, because it becomes both; norms next, so that equal statistics
  // become one value; GEMMs before fusion, so that bias, activation and residual go where they cost
  // nothing.
  functions.addPass(createExpandAttention());
  functions.addPass(createExpandShifts());
  functions.addPass(createExpandNorms());
  functions.addPass(createCSEPass());
  functions.addPass(createFormGemms({target}));
  functions.addPass(createFuse());
  functions.addPass(createCSEPass());
}

void registerLowerPasses() {
  registerOmnibalLowerPasses();
  PassPipelineRegistration<LowerOptions>(
      "omnibal-lower", "Functions of form C to what kernel calls are emitted of",
      [](OpPassManager &passes, const LowerOptions &options) {
        buildLowerPipeline(passes.nest<func::FuncOp>(), options.target);
      });
}

} // namespace omnibal::lower
