//===- LayerFixture.h - The layers of layers.mlir for tests -----------------------------------===//
#ifndef TEST_UNIT_PASSES_SHARD_LAYERFIXTURE_H
#define TEST_UNIT_PASSES_SHARD_LAYERFIXTURE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/Passes.h"
#include "test/unit/passes/shard/PartsCheck.h"
#include <gtest/gtest.h>

namespace omnibal::test {

using namespace mlir;

class LayerFixture : public ::testing::Test {
protected:
  static constexpr int64_t tiles = 3;

  LayerFixture() {
    context.loadDialect<OmnibalDialect, func::FuncDialect, PlanDialect>();
    module = parseSourceFile<ModuleOp>(LAYER_CASES, &context);
  }

  LayerOp layerOf(StringRef name) {
    return *module->lookupSymbol<func::FuncOp>(name).getOps<LayerOp>().begin();
  }
  HostTensor integers(ArrayRef<int64_t> values, bool asRow) {
    SmallVector<int64_t> shape{static_cast<int64_t>(values.size())};
    if (asRow)
      shape.insert(shape.begin(), 1);
    HostTensor tensor(IntegerType::get(&context, 32), shape);
    tensor.ints.assign(values.begin(), values.end());
    return tensor;
  }
  PartsCheck checkOf(LayerOp layer, int64_t tokens = 7) {
    SmallVector<HostTensor> arguments;
    for (BlockArgument argument : layer.getBody().front().getArguments()) {
      SmallVector<int64_t> shape;
      auto type = cast<RankedTensorType>(argument.getType());
      SymbolicShape symbolic = *getSymbolicShape(type);
      for (const SymbolicDim &dim : symbolic)
        shape.push_back(dim.evaluate(tiles, tokens));
      HostTensor &value = arguments.emplace_back(type.getElementType(), shape);
      for (double &each : value.floats)
        each = std::uniform_real_distribution<double>(-1, 1)(random);
    }
    PartsCheck check(layer, arguments, tiles, tokens);
    // Two samples, the first of 3 tokens; some of them are pictures, some have targets.
    SmallVector<int64_t> borders(tokens + 1, tokens), positions, ids, rows, targets;
    borders[0] = 0;
    borders[1] = 3;
    for (int64_t token = 0; token < tokens; ++token) {
      positions.push_back(token < 3 ? token : token - 3);
      ids.push_back(token * 7 % 11);
      rows.push_back(token % 2 ? token * 5 % 12 : -1);
      targets.push_back(token % 3 ? -1 : token * 4 % 11);
    }
    check.batchValues["cu_seqlens"] = integers(borders, false);
    check.batchValues["positions"] = integers(positions, false);
    check.batchValues["input_ids"] = integers(ids, true);
    check.batchValues["image_rows"] = integers(rows, false);
    check.batchValues["targets"] = integers(targets, true);
    check.batchValues["list_of_targets"] = integers(targets, false);
    HostTensor &reference = check.batchValues["reference"] =
        HostTensor(Float64Type::get(&context), {tokens});
    for (double &each : reference.floats)
      each = std::uniform_real_distribution<double>(-9, -8)(random);
    return check;
  }
  bool verifies() {
    PassManager passes(&context);
    passes.addPass(createVerifyLayouts());
    return succeeded(passes.run(*module));
  }
  /// Runs a layer with layouts, and returns how many elements all parts sent.
  int64_t sentBy(LayerOp layer, int64_t parts, int64_t tokens) {
    EXPECT_TRUE(verifies());
    PartsCheck check = checkOf(layer, tokens);
    EXPECT_EQ(check.prepare(), "");
    EXPECT_EQ(check.run(parts), "");
    return check.sent;
  }
  void clear() {
    module->walk([](Operation *op) {
      for (StringRef name : {StringRef(shard::readsAttrName), StringRef(shard::layoutsAttrName),
                             StringRef(shard::bordersAttrName), StringRef(shard::heldAttrName)})
        op->removeAttr(name);
    });
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::mt19937 random{17};
};

} // namespace omnibal::test
#endif // TEST_UNIT_PASSES_SHARD_LAYERFIXTURE_H
