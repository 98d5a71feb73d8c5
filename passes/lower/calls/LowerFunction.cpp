//===- LowerFunction.cpp - The whole way of one function ---------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

FailureOr<LoweredFunction> lowerFunction(func::FuncOp fn, KernelLibrary &kernels,
                                         const LoweringOptions &options) {
  if (!fn.getBody().hasOneBlock())
    return fn.emitError("a function to lower has exactly one block");
  // A copy in a module of its own: the passes change it.
  OwningOpRef<ModuleOp> module = ModuleOp::create(fn.getLoc());
  auto copy = cast<func::FuncOp>(fn->clone());
  module->push_back(copy);
  PassManager manager(fn.getContext());
  buildLowerPipeline(manager.nest<func::FuncOp>(), options.target);
  if (failed(manager.run(*module)))
    return failure();
  auto list = CallBuilder(copy, kernels, options).run();
  if (failed(list))
    return failure();
  return assignBuffers(std::move(*list), options);
}

} // namespace omnibal::lower
