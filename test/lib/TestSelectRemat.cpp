//===- TestSelectRemat.cpp - One choice for all layers -----------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "test/lib/TestPasses.h"

using namespace mlir;

namespace omnibal::test {
namespace {

struct TestSelectRemat : PassWrapper<TestSelectRemat, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestSelectRemat)
  TestSelectRemat() = default;
  explicit TestSelectRemat(std::string chosen) { choice = std::move(chosen); }
  TestSelectRemat(const TestSelectRemat &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-select-remat"; }
  StringRef getDescription() const final { return "Rematerialize all layers alike"; }

  void runOnOperation() override {
    if (!isRematName(choice)) {
      getOperation().emitError()
          << "test-select-remat: choice is '" << choice
          << "'; known are 'keep', 'selective-1', 'selective-2' .. and 'full'";
      return signalPassFailure();
    }
    auto attribute = StringAttr::get(&getContext(), choice);
    getOperation().walk([&](LayerOp layer) {
      if (!layer->hasAttr(rematAttrName))
        layer->setAttr(rematAttrName, attribute);
      return WalkResult::skip();
    });
  }

  Option<std::string> choice{*this, "choice", llvm::cl::init("keep"),
                             llvm::cl::desc("keep, selective-N or full")};
};

} // namespace

std::unique_ptr<Pass> createSelectRemat(std::string choice) {
  return std::make_unique<TestSelectRemat>(std::move(choice));
}

} // namespace omnibal::test
