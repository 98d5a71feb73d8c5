//===- LowerFunction.cpp - The whole way of one function ---------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {

FailureOr<PreparedFunction> prepareFunction(func::FuncOp fn, const std::string &target) {
  if (!fn.getBody().hasOneBlock())
    return fn.emitError("a function to lower has exactly one block"), failure();
  // A copy in a module of its own: the passes change it.
  PreparedFunction prepared{ModuleOp::create(fn.getLoc()), cast<func::FuncOp>(fn->clone())};
  prepared.module->push_back(prepared.function);
  PassManager manager(fn.getContext());
  buildLowerPipeline(manager.nest<func::FuncOp>(), target);
  if (failed(manager.run(*prepared.module)))
    return failure();
  return std::move(prepared);
}

FailureOr<LoweredFunction> lowerFunction(const PreparedFunction &prepared, KernelLibrary &kernels,
                                         const LoweringOptions &options) {
  auto list = CallBuilder(prepared.function, kernels, options).run();
  if (failed(list))
    return failure();
  return assignBuffers(std::move(*list), options);
}

FailureOr<LoweredFunction> lowerFunction(func::FuncOp fn, KernelLibrary &kernels,
                                         const LoweringOptions &options) {
  FailureOr<PreparedFunction> prepared = prepareFunction(fn, options.target);
  if (failed(prepared))
    return failure();
  return lowerFunction(*prepared, kernels, options);
}

} // namespace omnibal::lower
