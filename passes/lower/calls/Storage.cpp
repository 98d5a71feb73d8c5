#include "passes/lower/calls/Storage.h"
#include "passes/common/Views.h"

using namespace mlir;

namespace omnibal::lower {

Storage::Storage(func::FuncOp fn, StringRef compute) : enabled(compute == "bfloat16") {
  if (!enabled)
    return;
  Block &block = fn.getBody().front();
  SmallVector<Value> sources;
  for (BlockArgument argument : block.getArguments())
    if (isBFloat16Formal(fn.getArgAttrDict(argument.getArgNumber()), argument.getType()))
      sources.push_back(argument);
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  inBFloat16 = findBFloat16Values(ops, sources);
  keepGradientsInFloat32(fn);
}

/// Gradients of parameters, and sums and shapes of them, are accumulated in float32: values of a
/// constant size that lead to nothing else.
void Storage::keepGradientsInFloat32(func::FuncOp fn) {
  Block &block = fn.getBody().front();
  auto isFloat32Use = [&](OpOperand &use) {
    if (isa<func::ReturnOp>(use.getOwner())) {
      unsigned i = use.getOperandNumber();
      return !isBFloat16Formal(fn.getResultAttrDict(i), fn.getResultTypes()[i]);
    }
    return llvm::none_of(use.getOwner()->getResults(),
                         [&](Value result) { return inBFloat16.contains(result); });
  };
  auto isStatic = [](Value value) {
    return cast<RankedTensorType>(value.getType()).hasStaticShape();
  };
  for (Operation &op : llvm::reverse(block.without_terminator()))
    for (Value value : op.getResults())
      if (inBFloat16.contains(value) && !value.use_empty() && isStatic(value) &&
          llvm::all_of(value.getUses(), isFloat32Use))
        inBFloat16.erase(value);
  // A window lies as what it shows.
  for (Operation &op : block.without_terminator())
    if (isView(&op)) {
      if (inBFloat16.contains(op.getOperand(0)))
        inBFloat16.insert(op.getResult(0));
      else
        inBFloat16.erase(op.getResult(0));
    }
}

} // namespace omnibal::lower
