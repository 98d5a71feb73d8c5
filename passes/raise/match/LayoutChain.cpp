//===- LayoutChain.cpp -------------------------------------------------------------------===//
#include "passes/raise/match/LayoutChain.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace omnibal::raise {

LayoutChain::LayoutChain(ArrayRef<SymbolicDim> dims) : source(dims.begin(), dims.end()) {
  for (auto [i, dim] : llvm::enumerate(dims)) {
    target.emplace_back();
    if (!dim.isOne())
      target.back().push_back({dim, static_cast<int64_t>(i)});
  }
}

SymbolicShape LayoutChain::targetShape() const {
  SymbolicShape shape;
  for (const auto &group : target) {
    SymbolicDim size = 1;
    for (const Factor &factor : group)
      size = *multiply(size, factor.size);
    shape.push_back(size);
  }
  return shape;
}

bool LayoutChain::reshape(ArrayRef<SymbolicDim> shape) {
  SmallVector<Factor> flat;
  for (const auto &group : target)
    flat.append(group.begin(), group.end());
  // Splitting a factor keeps both parts at one place in the source; they are told apart by
  // spreading the places first.
  SmallVector<SmallVector<Factor>> groups;
  SmallVector<std::pair<int64_t, int64_t>> order; // (place, part) of each factor in `groups`
  size_t next = 0;
  std::optional<Factor> rest;
  int64_t part = 0;
  for (const SymbolicDim &dim : shape) {
    groups.emplace_back();
    SymbolicDim need = dim;
    while (!need.isOne()) {
      if (!rest) {
        if (next == flat.size())
          return false;
        rest = flat[next++];
        part = 0;
      }
      Factor taken = *rest;
      if (auto remaining = divideExactly(need, rest->size)) {
        need = *remaining;
        rest.reset();
      } else if (auto left = divideExactly(rest->size, need)) {
        taken.size = need;
        rest->size = *left;
        need = 1;
      } else {
        return false;
      }
      groups.back().push_back(taken);
      order.push_back({taken.sourceRank, part++});
    }
  }
  if (rest || next != flat.size())
    return false;
  // Number the factors by (place, part).
  auto sorted = order;
  llvm::sort(sorted);
  size_t at = 0;
  for (auto &group : groups)
    for (Factor &factor : group)
      factor.sourceRank = llvm::lower_bound(sorted, order[at++]) - sorted.begin();
  target = std::move(groups);
  return true;
}

void LayoutChain::transpose(ArrayRef<int64_t> permutation) {
  SmallVector<SmallVector<Factor>> groups;
  for (int64_t p : permutation)
    groups.push_back(target[p]);
  target = std::move(groups);
}

namespace {
/// Permutation that takes `places` sorted to `places`; dimensions without place (size 1, -1) keep
/// their index.
SmallVector<int64_t> permutationOf(ArrayRef<int64_t> places) {
  SmallVector<int64_t> sorted;
  for (int64_t place : places)
    if (place >= 0)
      sorted.push_back(place);
  llvm::sort(sorted);
  // Index of the k-th sorted place in the source: the indices that are not taken by size 1.
  SmallVector<int64_t> free;
  for (auto [i, place] : llvm::enumerate(places))
    if (place >= 0)
      free.push_back(i);
  SmallVector<int64_t> permutation;
  for (auto [i, place] : llvm::enumerate(places))
    permutation.push_back(place < 0 ? static_cast<int64_t>(i)
                                    : free[llvm::lower_bound(sorted, place) - sorted.begin()]);
  return permutation;
}
} // namespace

/// reshape, transpose: where each target dimension is one run of the source.
std::optional<LayoutChain::Steps> LayoutChain::onTargetDims() const {
  SmallVector<int64_t> places;
  for (const auto &group : target) {
    for (size_t i = 1; i < group.size(); ++i)
      if (group[i].sourceRank != group[i - 1].sourceRank + 1)
        return std::nullopt;
    places.push_back(group.empty() ? -1 : group.front().sourceRank);
  }
  Steps result;
  result.permutation = permutationOf(places);
  SymbolicShape shape = targetShape(), before(shape.size());
  for (auto [i, p] : llvm::enumerate(result.permutation))
    before[p] = shape[i];
  if (before != source)
    result.first = before;
  if (isIdentityPermutation(result.permutation))
    result.permutation.clear();
  return result;
}

/// transpose, reshape: where each source dimension stays one run in the target.
std::optional<LayoutChain::Steps> LayoutChain::onSourceDims() const {
  SmallVector<Factor> flat;
  for (const auto &group : target)
    flat.append(group.begin(), group.end());
  // Which source dimension each factor came from: the factors in source order fill them up.
  SmallVector<Factor> sorted = flat;
  llvm::sort(sorted, [](const Factor &a, const Factor &b) { return a.sourceRank < b.sourceRank; });
  // By sourceRank, which leaves dimensions of size 1 out only after a reshape.
  SmallVector<int64_t> dimOf(std::max(source.size(), flat.size()), -1);
  size_t next = 0;
  for (auto [i, dim] : llvm::enumerate(source)) {
    SymbolicDim need = dim;
    while (!need.isOne()) {
      if (next == sorted.size())
        return std::nullopt;
      auto remaining = divideExactly(need, sorted[next].size);
      if (!remaining)
        return std::nullopt;
      need = *remaining;
      dimOf[sorted[next++].sourceRank] = static_cast<int64_t>(i);
    }
  }
  SmallVector<int64_t> order; // source dimensions in target order
  int64_t previous = -2;
  for (const Factor &factor : flat) {
    int64_t dim = dimOf[factor.sourceRank];
    if (factor.sourceRank == previous + 1 && !order.empty() && order.back() == dim) {
      previous = factor.sourceRank;
      continue;
    }
    if (llvm::is_contained(order, dim))
      return std::nullopt;
    order.push_back(dim);
    previous = factor.sourceRank;
  }
  Steps result;
  SymbolicShape moved;
  size_t at = 0;
  for (auto [i, dim] : llvm::enumerate(source)) {
    result.permutation.push_back(dim.isOne() ? static_cast<int64_t>(i) : order[at++]);
    moved.push_back(source[result.permutation.back()]);
  }
  if (isIdentityPermutation(result.permutation))
    result.permutation.clear();
  SymbolicShape shape = targetShape();
  if (moved != shape)
    result.last = shape;
  return result;
}

LayoutChain::Steps LayoutChain::onMergedFactors() const {
  SmallVector<Factor> merged;
  int64_t end = -2;
  for (const auto &group : target)
    for (const Factor &factor : group) {
      if (factor.sourceRank == end + 1 && !merged.empty())
        merged.back().size = *multiply(merged.back().size, factor.size);
      else
        merged.push_back(factor);
      end = factor.sourceRank;
    }
  SmallVector<int64_t> places;
  SymbolicShape moved;
  for (const Factor &factor : merged) {
    places.push_back(factor.sourceRank);
    moved.push_back(factor.size);
  }
  Steps result;
  result.permutation = permutationOf(places);
  SymbolicShape before(moved.size());
  for (auto [i, p] : llvm::enumerate(result.permutation))
    before[p] = moved[i];
  if (isIdentityPermutation(result.permutation)) {
    result.permutation.clear();
  } else if (before != source) {
    result.first = before;
  }
  SymbolicShape shape = targetShape();
  if ((result.permutation.empty() ? source : moved) != shape)
    result.last = shape;
  return result;
}

LayoutChain::Steps LayoutChain::steps() const {
  std::optional<Steps> best;
  for (const std::optional<Steps> &way :
       {onTargetDims(), onSourceDims(), std::optional<Steps>(onMergedFactors())})
    if (way && (!best || way->count() < best->count()))
      best = way;
  return *best;
}

int LayoutChain::cost() const { return steps().count(); }

Value LayoutChain::emit(OpBuilder &builder, Location loc, Value value) const {
  Steps way = steps();
  if (way.first)
    value = reshapeTo(builder, loc, value, *way.first);
  if (!way.permutation.empty())
    value = transposed(builder, loc, value, way.permutation);
  if (way.last)
    value = reshapeTo(builder, loc, value, *way.last);
  return value;
}

namespace {
/// Ops of the chain from the value upwards.
SmallVector<Operation *> chainOps(Value value) {
  SmallVector<Operation *> ops;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp>(op) || !getSymbolicShape(typeOf(op->getOperand(0))))
      break;
    ops.push_back(op);
    value = op->getOperand(0);
  }
  return ops;
}

/// The longest composable chain that ends in the last of `ops` (root first).
std::pair<Value, LayoutChain> compose(Value value, int *length) {
  SmallVector<Operation *> ops = chainOps(value);
  for (size_t start = 0; start < ops.size(); ++start) {
    // Try from the farthest root; a reshape that arithmetic cannot follow moves the root.
    ArrayRef<Operation *> rest = ArrayRef(ops).drop_back(start);
    LayoutChain chain(shapeOf(rest.back()->getOperand(0)));
    bool composed = true;
    for (Operation *op : llvm::reverse(rest)) {
      if (auto transpose = dyn_cast<TransposeOp>(op))
        chain.transpose(transpose.getPermutation());
      else
        composed = composed && chain.reshape(shapeOf(op->getResult(0)));
      if (!composed)
        break;
    }
    if (composed) {
      *length = static_cast<int>(rest.size());
      return {rest.back()->getOperand(0), chain};
    }
  }
  *length = 0;
  return {value, LayoutChain(shapeOf(value))};
}
} // namespace

Value shortenLayout(OpBuilder &builder, Value value) {
  int length;
  auto [root, chain] = compose(value, &length);
  if (length < 2 || chain.cost() >= length)
    return value;
  return chain.emit(builder, value.getLoc(), root);
}

} // namespace omnibal::raise
