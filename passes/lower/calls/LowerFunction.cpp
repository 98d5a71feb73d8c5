//===- LowerFunction.cpp - The whole way of one function ---------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/lower/Passes.h"
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

void registerLowerPasses() { registerOmnibalLowerPasses(); }

FailureOr<LoweredFunction> lowerFunction(func::FuncOp fn, KernelLibrary &kernels,
                                         const LoweringOptions &options) {
  if (!fn.getBody().hasOneBlock())
    return fn.emitError("a function to lower has exactly one block");
  // A copy in a module of its own: the passes change it.
  OwningOpRef<ModuleOp> module = ModuleOp::create(fn.getLoc());
  auto copy = cast<func::FuncOp>(fn->clone());
  module->push_back(copy);
  PassManager manager(fn.getContext());
  OpPassManager &passes = manager.nest<func::FuncOp>();
  // Attention before norms and GEMMs, because it becomes both; norms next, so that equal statistics
  // become one value; GEMMs before fusion, so that bias, activation and residual go where they cost
  // nothing.
  passes.addPass(createExpandAttention());
  passes.addPass(createExpandShifts());
  passes.addPass(createExpandNorms());
  passes.addPass(createCSEPass());
  passes.addPass(createFormGemms({options.target}));
  passes.addPass(createFuse());
  passes.addPass(createCSEPass());
  if (failed(manager.run(*module)))
    return failure();
  auto list = CallBuilder(copy, kernels, options).run();
  if (failed(list))
    return failure();
  return assignBuffers(std::move(*list), options);
}

} // namespace omnibal::lower
