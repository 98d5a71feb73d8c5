//===- BackwardSplit.cpp - The two halves of a layer's backward --------------------------===//
#include "passes/differentiate/BackwardSplit.h"
#include "passes/differentiate/SavedValues.h"

using namespace mlir;
using namespace omnibal;

namespace {
bool isMatrixProduct(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.getCost().isMatrixProduct;
}

class Splitter {
public:
  explicit Splitter(const BackwardQuery &query) : query(query) {}

  FailureOr<BackwardSplit> run() {
    BackwardSplit split;
    split.waits.assign(query.parameters.size(), query.urgent.empty());
    if (query.urgent.empty())
      return split;
    // First half: what is urgent, and parameters that need no product of their own.
    llvm::SetVector<Value> urgent(query.kept);
    for (Value value : collectSlice(query.urgent, query.kept))
      if (Operation *op = value.getDefiningOp())
        urgent.insert(op->result_begin(), op->result_end()); // an op gives all of its results
    SmallVector<Value> first = query.urgent, second;
    for (auto [i, gradient] : llvm::enumerate(query.parameters)) {
      split.waits[i] = needsProduct(gradient, urgent);
      (split.waits[i] ? second : first).push_back(gradient);
    }
    if (second.empty())
      return split;
    firstSlice = collectSlice(first, query.kept);
    if (failed(selectRead(second, split.read)))
      return failure();
    return split;
  }

private:
  /// Whether the gradient hangs on a product of its own, not only on what is `there` anyway.
  bool needsProduct(Value gradient, const llvm::SetVector<Value> &there) {
    for (Value value : collectSlice(gradient, there))
      if (Operation *op = value.getDefiningOp();
          op && !there.contains(value) && !query.forwardOps.contains(op) && isMatrixProduct(op))
        return true;
    return false;
  }

  LogicalResult selectRead(ArrayRef<Value> second, llvm::SetVector<Value> &read) {
    llvm::DenseSet<Value> slice = collectSlice(second, query.kept);
    // Products of W and what follows them; their other operands are what W needs.
    llvm::DenseSet<Operation *> own;
    RematQuery remat;
    Value any = second.front();
    Block *block = any.getParentBlock();
    for (Operation &op : *block) {
      if (query.forwardOps.contains(&op) ||
          llvm::none_of(op.getResults(), [&](Value v) { return slice.contains(v); }) ||
          llvm::any_of(op.getResults(), [&](Value v) { return firstSlice.contains(v); }))
        continue;
      auto isOwn = [&](Value operand) { return own.contains(operand.getDefiningOp()); };
      if (!isMatrixProduct(&op) && llvm::none_of(op.getOperands(), isOwn))
        continue;
      own.insert(&op);
      for (Value operand : op.getOperands())
        if (!isOwn(operand))
          remat.needed.insert(operand);
    }
    remat.available = query.available;
    remat.held.insert(query.kept.begin(), query.kept.end());
    for (BlockArgument argument : block->getArguments())
      if (!query.available.contains(argument))
        remat.held.insert(argument); // gradients of outputs
    for (Value value : slice)
      if (!firstSlice.contains(value))
        remat.uncomputed.insert(value);
    FailureOr<llvm::SetVector<Value>> selected = selectSavedValues(remat);
    if (failed(selected))
      return failure();
    read = std::move(*selected);
    return success();
  }

  const BackwardQuery &query;
  llvm::DenseSet<Value> firstSlice;
};
} // namespace

llvm::DenseSet<Value> omnibal::collectSlice(ArrayRef<Value> results,
                                            const llvm::SetVector<Value> &stop) {
  llvm::DenseSet<Value> slice;
  SmallVector<Value> stack(results);
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    if (!slice.insert(value).second || stop.contains(value) || isa<BlockArgument>(value))
      continue;
    llvm::append_range(stack, value.getDefiningOp()->getOperands());
  }
  return slice;
}

FailureOr<BackwardSplit> omnibal::splitBackward(const BackwardQuery &query) {
  return Splitter(query).run();
}
