//===- Tidy.cpp - Dead and equal ops, names of nodes -------------------------------------===//
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "passes/specialize/Specialize.h"

using namespace mlir;

namespace omnibal {

std::string nodeName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string name = nodeName(part); !name.empty())
        return name;
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return nodeName(call.getCallee());
  return "";
}

std::string describe(Operation *op) {
  std::string name = nodeName(op->getLoc());
  std::string kind = op->getName().getStringRef().str();
  return name.empty() ? kind : "node '" + name + "' (" + kind + ")";
}

void eliminateDeadAndEqual(func::FuncOp function) {
  Block &block = function.getBody().front();
  auto eraseDead = [&] {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  };
  eraseDead();
  IRRewriter rewriter(function.getContext());
  DominanceInfo dominance;
  eliminateCommonSubExpressions(rewriter, dominance, function);
}

} // namespace omnibal
