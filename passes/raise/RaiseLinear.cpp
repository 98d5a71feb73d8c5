//===- RaiseLinear.cpp - omnibal-raise-linear --------------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISELINEARPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

void raiseProduct(OpBuilder &builder, MatMulOp op) {
  Value weight = op.getRhs();
  if (op.getTransposeLhs() || rankOf(op.getLhs()) < 2 || rankOf(weight) != 2 ||
      !readsParameter(weight) || isParameterLike(op.getLhs()))
    return;
  bool inOut = !op.getTransposeRhs();
  if (auto transpose = weight.getDefiningOp<TransposeOp>()) { // of rank 2: swaps
    weight = transpose.getInput();
    inOut = !inOut;
  }
  builder.setInsertionPoint(op);
  Value linear =
      LinearOp::create(builder, op.getLoc(), op.getType(), op.getLhs(), weight, Value(), inOut);
  op.getResult().replaceAllUsesWith(linear);
}

void attachBias(OpBuilder &builder, AddOp op) {
  for (auto [product, bias] :
       {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
    auto linear = product.getDefiningOp<LinearOp>();
    if (!linear || linear.getBias() || !product.hasOneUse() || product.getType() != op.getType())
      continue;
    if (isConstant(bias, 0) && op.getType() == product.getType()) {
      op.getResult().replaceAllUsesWith(product);
      return;
    }
    if (!isParameterLike(bias) || rankOf(bias) != 1 ||
        shapeOf(bias).front() != shapeOf(product).back())
      continue;
    builder.setInsertionPoint(op);
    Value biased = LinearOp::create(builder, op.getLoc(), op.getType(), linear.getInput(),
                                    linear.getWeight(), bias, linear.getInOut());
    op.getResult().replaceAllUsesWith(biased);
    return;
  }
}
} // namespace
} // namespace raise

namespace {
struct RaiseLinearPass : impl::RaiseLinearPassBase<RaiseLinearPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(function);
      raise::forEachOp(function, [&](Operation *op) {
        if (auto matmul = dyn_cast<MatMulOp>(op))
          raise::raiseProduct(builder, matmul);
      });
      raise::forEachOp(function, [&](Operation *op) {
        if (auto add = dyn_cast<AddOp>(op))
          raise::attachBias(builder, add);
      });
    }
  }
};
} // namespace
} // namespace omnibal
