//===- SavedValues.cpp - What backward keeps of a layer's forward ------------------------===//
#include "passes/remat/SavedValues.h"
#include "dialects/omnibal/OmnibalOps.h"
#include "passes/remat/MinCut.h"

using namespace mlir;
using namespace omnibal;

namespace {
constexpr int64_t keepWeight = 32, recomputeWeight = 1;

bool isView(Operation *op) {
  return isa<ReshapeOp, SqueezeOp, UnsqueezeOp, TransposeOp, SliceOp, ExpandOp>(op);
}

bool isRecomputable(Operation *op, bool recomputeAll) {
  if (recomputeAll || op->getNumOperands() == 0)
    return true;
  auto remat = dyn_cast<RematerialisableOpInterface>(op);
  return remat && remat.isCheapToRecompute();
}

FailureOr<int64_t> nominalBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<SymbolicShape> shape = getSymbolicShape(type);
  if (!shape)
    return emitError(value.getLoc())
           << "a value that backward needs has a dimension that is not affine in the numbers of "
              "tiles and tokens: "
           << type;
  int64_t bytes = std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
  for (const SymbolicDim &dim : *shape)
    bytes *= std::max<int64_t>(0, dim.evaluate(nominalTiles, nominalTokens));
  return bytes;
}

/// Everything that `needed` depends on through recomputable ops, operands before results.
llvm::SetVector<Value> collectCone(const RematQuery &query) {
  llvm::SetVector<Value> cone;
  // Depth first with an explicit stack: bodies without raised ops have long chains.
  SmallVector<std::pair<Value, bool>> stack;
  for (Value value : llvm::reverse(query.needed))
    stack.push_back({value, false});
  while (!stack.empty()) {
    auto [value, expanded] = stack.pop_back_val();
    if (cone.contains(value) || query.available.contains(value))
      continue;
    Operation *op = value.getDefiningOp();
    if (expanded || !op || !isRecomputable(op, query.recomputeAll)) {
      cone.insert(value);
      continue;
    }
    stack.push_back({value, true});
    for (Value operand : llvm::reverse(op->getOperands()))
      stack.push_back({operand, false});
  }
  return cone;
}

/// By position in the block: arguments first.
bool definedBefore(Value a, Value b) {
  auto argumentA = dyn_cast<BlockArgument>(a), argumentB = dyn_cast<BlockArgument>(b);
  if (argumentA || argumentB)
    return argumentA && (!argumentB || argumentA.getArgNumber() < argumentB.getArgNumber());
  if (a.getDefiningOp() == b.getDefiningOp())
    return cast<OpResult>(a).getResultNumber() < cast<OpResult>(b).getResultNumber();
  return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
}
} // namespace

FailureOr<llvm::SetVector<Value>> omnibal::selectSavedValues(const RematQuery &query) {
  llvm::SetVector<Value> cone = collectCone(query);
  SmallVector<Value> saved;
  if (query.recomputeAll) {
    llvm::copy_if(cone, std::back_inserter(saved), llvm::IsaPred<BlockArgument>);
  } else {
    // Nodes 2i -> 2i + 1 are value i before and after "keep it"; cutting that edge keeps it.
    int source = 2 * static_cast<int>(cone.size()), sink = source + 1;
    MinCut graph(sink + 1);
    llvm::DenseMap<Value, int> number;
    for (auto [index, value] : llvm::enumerate(cone))
      number[value] = static_cast<int>(index);
    for (auto [index, value] : llvm::enumerate(cone)) {
      FailureOr<int64_t> bytes = nominalBytes(value);
      if (failed(bytes))
        return failure();
      int before = 2 * static_cast<int>(index), after = before + 1;
      Operation *op = value.getDefiningOp();
      bool view = op && isView(op);
      graph.addEdge(before, after, *bytes * (keepWeight + (view ? 1 : 0)) + 1);
      if (!op || !isRecomputable(op, false)) {
        graph.addEdge(source, before, MinCut::infinite);
      } else if (op->getNumOperands() != 0) {
        if (!view)
          graph.addEdge(source, before, *bytes * recomputeWeight);
        for (Value operand : op->getOperands())
          if (auto found = number.find(operand); found != number.end())
            graph.addEdge(2 * found->second + 1, before, MinCut::infinite);
      }
      if (query.needed.contains(value))
        graph.addEdge(after, sink, MinCut::infinite);
    }
    graph.solve(source, sink);
    std::vector<bool> sinkSide = graph.sinkSide(sink);
    for (auto [index, value] : llvm::enumerate(cone))
      if (!sinkSide[2 * index] && sinkSide[2 * index + 1])
        saved.push_back(value);
  }
  llvm::sort(saved, definedBefore);
  return llvm::SetVector<Value>(saved.begin(), saved.end());
}
