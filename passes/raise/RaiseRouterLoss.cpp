//===- RaiseRouterLoss.cpp - omnibal-raise-router-loss -----------------------------------===//
//
// The balancing loss of routers counts what the tokens of a micro-batch choose, and adds up their
// probabilities: the only sums over the tokens of several samples that a graph may have. Kernels
// run over more rows than there are tokens, so each such sum gets a factor that is 0 there.
//
//===-------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/ir/RouterLoss.h"
#include "passes/raise/Passes.h"
#include "passes/raise/match/RouterLoss.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEROUTERLOSSPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {
LogicalResult maskRows(ReduceOp op) {
  std::optional<int64_t> axis = reducedRows(op);
  if (!axis)
    return success();
  SymbolicShape shape = shapeOf(op.getInput());
  if (op.getKind() != ReduceKind::Sum || shape[*axis] != SymbolicDim::tokens())
    return op.emitError() << describe(op) << ": the balancing loss of routers is made of something "
                          << "else than sums over the tokens, which is not supported; give "
                          << "--router-loss-coefficient 0 to train without it";
  OpBuilder builder(op);
  Location loc = op.getLoc();
  MLIRContext *context = op.getContext();
  Type element = typeOf(op.getInput()).getElementType();
  Value real = BatchValueOp::create(
      builder, loc, makeTensorType(context, {SymbolicDim::tokens()}, builder.getI32Type()),
      realTokens);
  SymbolicShape column(shape.size(), SymbolicDim(1));
  column[*axis] = SymbolicDim::tokens();
  real = reshapeTo(builder, loc, castTo(builder, loc, real, element), column);
  op.getInputMutable().assign(
      MulOp::create(builder, loc, op.getInput().getType(), op.getInput(), real));
  return success();
}

LogicalResult maskRows(func::FuncOp function) {
  llvm::DenseSet<Operation *> beside = opsBesideLogits(function);
  SmallVector<ReduceOp> sums;
  for (auto op : function.getBody().front().getOps<ReduceOp>())
    if (beside.contains(op))
      sums.push_back(op);
  for (ReduceOp op : sums)
    if (failed(maskRows(op)))
      return failure();
  return success();
}
} // namespace
} // namespace raise

namespace {
struct RaiseRouterLossPass : impl::RaiseRouterLossPassBase<RaiseRouterLossPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::maskRows(function)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
