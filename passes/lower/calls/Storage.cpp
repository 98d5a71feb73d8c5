#include "passes/lower/calls/Storage.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

/// Ops whose result is a window of what their operand lies in.
bool isView(Operation *op) {
  return isa<ReshapeOp, SqueezeOp, UnsqueezeOp, TransposeOp, ExpandOp, SliceOp>(op);
}

} // namespace

Storage::Storage(func::FuncOp fn, StringRef compute) : enabled(compute == "bfloat16") {
  if (!enabled)
    return;
  Block &block = fn.getBody().front();
  SmallVector<Value> sources;
  for (BlockArgument argument : block.getArguments())
    if (isNarrowFormal(fn.getArgAttrDict(argument.getArgNumber()), argument.getType()))
      sources.push_back(argument);
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  narrow = findNarrowValues(ops, sources);
  keepGradientsWide(fn);
}

/// Gradients of parameters, and sums and shapes of them, are accumulated in float32: values of a
/// constant size that lead to nothing else.
void Storage::keepGradientsWide(func::FuncOp fn) {
  Block &block = fn.getBody().front();
  auto isWideUse = [&](OpOperand &use) {
    if (isa<func::ReturnOp>(use.getOwner())) {
      unsigned i = use.getOperandNumber();
      return !isNarrowFormal(fn.getResultAttrDict(i), fn.getResultTypes()[i]);
    }
    return llvm::none_of(use.getOwner()->getResults(),
                         [&](Value result) { return narrow.contains(result); });
  };
  auto isStatic = [](Value value) {
    return cast<RankedTensorType>(value.getType()).hasStaticShape();
  };
  for (Operation &op : llvm::reverse(block.without_terminator()))
    for (Value value : op.getResults())
      if (narrow.contains(value) && !value.use_empty() && isStatic(value) &&
          llvm::all_of(value.getUses(), isWideUse))
        narrow.erase(value);
  // A window lies as what it shows.
  for (Operation &op : block.without_terminator())
    if (isView(&op)) {
      if (narrow.contains(op.getOperand(0)))
        narrow.insert(op.getResult(0));
      else
        narrow.erase(op.getResult(0));
    }
}

} // namespace omnibal::lower
