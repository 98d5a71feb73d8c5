#include "passes/raise/match/RouterLoss.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal::raise {

llvm::DenseSet<Operation *> opsBesideLogits(func::FuncOp function) {
  Block &block = function.getBody().front();
  llvm::DenseSet<Operation *> beside;
  if (block.getTerminator()->getNumOperands() < 2)
    return beside;
  llvm::SetVector<Operation *> main = backwardOps(block.getTerminator()->getOperand(0));
  for (Operation &op : block.without_terminator())
    if (!main.contains(&op))
      beside.insert(&op);
  return beside;
}

std::optional<int64_t> reducedRows(ReduceOp op) {
  SymbolicShape shape = shapeOf(op.getInput());
  auto isReduced = [&](int64_t axis) {
    if (!op.getAxes() || op.getAxes()->empty())
      return !op.getNoopWithEmptyAxes();
    int64_t rank = shape.size();
    return llvm::any_of(*op.getAxes(), [&](int64_t a) { return (a < 0 ? a + rank : a) == axis; });
  };
  for (auto [axis, dim] : llvm::enumerate(shape))
    if (!dim.isStatic() && isReduced(axis))
      return axis;
  return std::nullopt;
}

bool sumsRealTokens(ReduceOp op) {
  auto product = op.getInput().getDefiningOp<MulOp>();
  if (op.getKind() != ReduceKind::Sum || !product)
    return false;
  Value factor = product.getRhs();
  while (Operation *maker = factor.getDefiningOp()) {
    if (auto batch = dyn_cast<BatchValueOp>(maker))
      return batch.getName() == realTokens;
    if (!isa<CastOp, ReshapeOp>(maker))
      return false;
    factor = maker->getOperand(0);
  }
  return false;
}

} // namespace omnibal::raise
