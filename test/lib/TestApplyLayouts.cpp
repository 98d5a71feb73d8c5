//===- TestApplyLayouts.cpp - The functions of parts ---------------------------------------===//
#include "passes/shard/ApplyLayouts.h"
#include "passes/shard/LayerLayouts.h"
#include "test/lib/TestPasses.h"

using namespace mlir;

namespace omnibal::test {
namespace {

struct TestApplyLayouts : PassWrapper<TestApplyLayouts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestApplyLayouts)
  TestApplyLayouts() = default;
  TestApplyLayouts(const TestApplyLayouts &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-apply-layouts"; }
  StringRef getDescription() const final { return "Append what each part runs of every layer"; }

  void runOnOperation() override {
    shard::PartChoice choice;
    choice.parts = parts;
    if (tokens >= 0)
      choice.microbatch = {tiles, tokens};
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    SmallVector<LayerOp> layers;
    getOperation().walk([&](LayerOp layer) {
      if (layer->hasAttr(shard::bordersAttrName))
        layers.push_back(layer);
    });
    for (LayerOp layer : layers)
      for (choice.part = 0; choice.part < choice.parts; ++choice.part) {
        std::string name = (layer.getName() + "_part" + Twine(choice.part)).str();
        if (failed(shard::applyLayouts(builder, layer, name, choice)))
          return signalPassFailure();
      }
  }

  Option<int64_t> parts{*this, "parts", llvm::cl::init(2), llvm::cl::desc("number of parts")};
  Option<int64_t> tiles{*this, "tiles", llvm::cl::init(0),
                        llvm::cl::desc("tiles of the micro-batch, where tokens are given")};
  Option<int64_t> tokens{*this, "tokens", llvm::cl::init(-1),
                         llvm::cl::desc("tokens of a micro-batch: sizes become numbers")};
};

} // namespace

std::unique_ptr<Pass> createApplyLayouts() { return std::make_unique<TestApplyLayouts>(); }

} // namespace omnibal::test
