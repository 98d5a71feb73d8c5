//===- SpecializePass.cpp - omnibal-specialize -------------------------------------------===//
#include "mlir/IR/BuiltinOps.h"
#include "passes/specialize/Passes.h"
#include "passes/specialize/Specialize.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SPECIALIZEPASS
#include "passes/specialize/Passes.h.inc"

namespace {
/// "name=2x3" into its parts; an empty list of sizes is a scalar ("name=").
LogicalResult parseDims(StringRef text, SpecializeOptions &options) {
  auto [name, sizes] = text.rsplit('=');
  SmallVector<int64_t> dims;
  while (!sizes.empty()) {
    StringRef first;
    std::tie(first, sizes) = sizes.split('x');
    int64_t size;
    if (first.getAsInteger(10, size) || size < 0)
      return failure();
    dims.push_back(size);
  }
  options.inputDims[name] = dims;
  return success(text.contains('='));
}

struct SpecializePass : impl::SpecializePassBase<SpecializePass> {
  using SpecializePassBase::SpecializePassBase;

  void runOnOperation() override {
    SpecializeOptions options;
    options.staticInputs = staticInputs;
    options.foldLimitElements = foldLimit;
    for (const std::string &text : inputDims)
      if (failed(parseDims(text, options))) {
        getOperation().emitError("--input-dims '") << text << "': expected name=2x3x4";
        return signalPassFailure();
      }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(specialize(function, options)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
