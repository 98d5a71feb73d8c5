//===- LayerLetters.cpp ----------------------------------------------------------------------===//
#include "passes/shard/LayerLetters.h"

using namespace mlir;

namespace omnibal::shard {

LayerLetters::LayerLetters(LayerOp layer) {
  for (Operation &op : layer.getBody().front().without_terminator())
    addOp(&op);
}

unsigned LayerLetters::add(const SymbolicDim &size) {
  nodes.push_back({size, std::nullopt, std::nullopt});
  return static_cast<unsigned>(nodes.size() - 1);
}

void LayerLetters::addOp(Operation *op) {
  OpLetters &letters = ops[op];
  if (auto divided = dyn_cast<FactorOpInterface>(op))
    letters.rule = divided.getFactorRule();
  if (!letters.rule)
    return;
  for (const SymbolicDim &size : letters.rule->sizes)
    letters.nodes.push_back(add(size));
  joinValues(op->getOperands(), letters.rule->operands, letters);
  joinValues(op->getResults(), letters.rule->results, letters);
}

void LayerLetters::joinValues(ValueRange ofOp, ArrayRef<ValueLetters> said, OpLetters &letters) {
  for (auto [value, dims] : llvm::zip_equal(ofOp, said)) {
    ValueLetters &known = values[value];
    known.resize(dims.size());
    for (auto [list, own] : llvm::zip_equal(known, dims)) {
      DimLetters asNodes;
      for (unsigned letter : own)
        asNodes.push_back(letters.nodes[letter]);
      if (list.empty())
        list = asNodes;
      else if (!join(list, asNodes))
        letters.apart.insert(own.begin(), own.end());
    }
  }
}

void LayerLetters::appendLeaves(unsigned node, DimLetters &leaves) const {
  if (nodes[node].same)
    return appendLeaves(*nodes[node].same, leaves);
  if (!nodes[node].factors)
    return leaves.push_back(node);
  appendLeaves(nodes[node].factors->first, leaves);
  appendLeaves(nodes[node].factors->second, leaves);
}

DimLetters LayerLetters::leavesOf(ArrayRef<unsigned> list) const {
  DimLetters leaves;
  for (unsigned node : list)
    appendLeaves(node, leaves);
  return leaves;
}

/// Refines both lists from the outermost letter inwards; false where neither of two letters divides
/// the other.
bool LayerLetters::join(ArrayRef<unsigned> a, ArrayRef<unsigned> b) {
  for (size_t i = 0;; ++i) {
    const DimLetters left = leavesOf(a), right = leavesOf(b);
    if (i >= left.size() || i >= right.size())
      return left.size() == right.size();
    const unsigned x = left[i], y = right[i];
    if (x == y)
      continue;
    const SymbolicDim sizeX = nodes[x].size, sizeY = nodes[y].size;
    if (sizeX == sizeY) {
      nodes[y].same = x;
      continue;
    }
    const auto more = divideExactly(sizeX, sizeY), less = divideExactly(sizeY, sizeX);
    if (!more && !less)
      return false;
    const unsigned rest = add(more ? *more : *less);
    if (more) {
      const unsigned outer = add(sizeY);
      nodes[x].factors = {outer, rest};
      nodes[y].same = outer;
    } else {
      nodes[y].factors = {x, rest};
    }
  }
}

ValueLetters LayerLetters::of(Value value) const {
  ValueLetters letters;
  auto found = values.find(value);
  if (found != values.end())
    for (const DimLetters &list : found->second)
      letters.push_back(leavesOf(list));
  return letters;
}

DimLetters LayerLetters::ofOp(Operation *op, unsigned letter) const {
  const OpLetters &letters = ops.find(op)->second;
  return letters.apart.contains(letter) ? DimLetters() : leavesOf(letters.nodes[letter]);
}

} // namespace omnibal::shard
