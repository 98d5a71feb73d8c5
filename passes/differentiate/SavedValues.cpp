//===- SavedValues.cpp - What backward keeps of a layer's forward ------------------------===//
#include "passes/differentiate/SavedValues.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "passes/common/Views.h"
#include "passes/differentiate/MinCut.h"

using namespace mlir;
using namespace omnibal;

namespace {
constexpr int64_t keepWeight = 32, flopsPerByte = 128;
constexpr size_t mostSelective = 3;
/// Prices are fractions of integers up to this, so that capacities stay far from int64's end.
constexpr int64_t largestPrice = int64_t{1} << 16;

bool isCheap(Operation *op) {
  auto remat = dyn_cast<RematerializableOpInterface>(op);
  return op->getNumOperands() == 0 || (remat && remat.isCheapToRecompute());
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

/// Returns the work of an expensive op; samples have a quarter of the nominal tokens each.
int64_t nominalWork(Operation *op) {
  OpCost cost = cast<CostOpInterface>(op).getCost();
  int64_t flops = cost.flops.evaluate(nominalTiles, nominalTokens) +
                  cost.flopsPerSquaredToken * (nominalTokens * nominalTokens / 4) +
                  cost.flopsPerSquaredTile * (nominalTiles * nominalTiles);
  return flops / flopsPerByte + cost.bytes.evaluate(nominalTiles, nominalTokens);
}

/// Compares by position in the block; arguments come first.
bool definedBefore(Value a, Value b) {
  auto argumentA = dyn_cast<BlockArgument>(a), argumentB = dyn_cast<BlockArgument>(b);
  if (argumentA || argumentB)
    return argumentA && (!argumentB || argumentA.getArgNumber() < argumentB.getArgNumber());
  if (a.getDefiningOp() == b.getDefiningOp())
    return cast<OpResult>(a).getResultNumber() < cast<OpResult>(b).getResultNumber();
  return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
}

/// A cut: what is kept, what that costs times the price of memory, and the dear ops' work.
struct Cut {
  SmallVector<Value> kept;
  int64_t memory = 0, work = 0;
};

class ChoiceFinder {
public:
  explicit ChoiceFinder(const RematQuery &query) : query(query) {}

  /// The first choice alone.
  FailureOr<llvm::SetVector<Value>> runKeep() {
    if (failed(collectCone()))
      return failure();
    Cut keep = solve(1, std::nullopt);
    return llvm::SetVector<Value>(keep.kept.begin(), keep.kept.end());
  }

  FailureOr<std::vector<RematChoice>> run() {
    if (failed(collectCone()))
      return failure();
    Cut keep = solve(1, std::nullopt), full = fullCut();
    std::vector<Cut> cuts{keep};
    if (full.memory < keep.memory && full.work > 0) {
      // A price at which memory outweighs all work by far is the other end.
      int64_t work = std::max<int64_t>(1, 1024 * (full.work / keep.memory + 1));
      Cut last = solve(std::min(work, largestPrice), 1);
      findBetween(keep, last, cuts, 16);
      cuts.push_back(last);
    }
    std::vector<Cut> distinct{keep};
    for (size_t i = 1; i < cuts.size(); ++i)
      if (cuts[i].kept != distinct.back().kept && cuts[i].kept != full.kept)
        distinct.push_back(cuts[i]);
    distinct.push_back(full);
    thinOut(distinct);
    return named(distinct);
  }

private:
  /// Everything that `needed` depends on, operands before results.
  LogicalResult collectCone() {
    // Depth first with an explicit stack: bodies without raised ops have long chains.
    SmallVector<std::pair<Value, bool>> stack;
    for (Value value : llvm::reverse(query.needed))
      stack.push_back({value, false});
    while (!stack.empty()) {
      auto [value, expanded] = stack.pop_back_val();
      if (number.count(value) || query.available.contains(value))
        continue;
      Operation *op = value.getDefiningOp();
      if (!expanded && op && !query.held.contains(value)) {
        stack.push_back({value, true});
        for (Value operand : llvm::reverse(op->getOperands()))
          stack.push_back({operand, false});
        continue;
      }
      FailureOr<int64_t> size = nominalBytes(value);
      if (failed(size))
        return failure();
      number[value] = static_cast<int>(cone.size());
      cone.push_back(value);
      bytes.push_back(*size);
    }
    return success();
  }

  int64_t keepCost(size_t i) const {
    Operation *op = cone[i].getDefiningOp();
    bool held = query.held.contains(cone[i]);
    return bytes[i] * (keepWeight + (held ? -1 : op && isView(op) ? 1 : 0)) + 1;
  }
  /// Returns the cost of recomputing a value by a cheap op.
  int64_t recomputeCost(size_t i) const {
    Operation *op = cone[i].getDefiningOp();
    bool free = isView(op) || op->getNumOperands() == 0 || query.uncomputed.contains(cone[i]);
    return free ? 0 : bytes[i];
  }

  /// The cheapest cut where memory costs `memory` and work `work` each; no work: no dear op runs.
  Cut solve(int64_t memory, std::optional<int64_t> work) const {
    // Nodes 2i -> 2i + 1 are value i before and after "keep it"; cutting that edge keeps it. The
    // ops have nodes of their own: one that makes several values runs once.
    llvm::MapVector<Operation *, int> opNode;
    int nodes = 2 * static_cast<int>(cone.size());
    for (Value value : cone)
      if (Operation *op = value.getDefiningOp(); op && !query.held.contains(value))
        if (opNode.insert({op, nodes}).second)
          ++nodes;
    int source = nodes, sink = nodes + 1;
    MinCut graph(nodes + 2);
    for (auto [op, node] : opNode) {
      if (!isCheap(op))
        graph.addEdge(source, node,
                      work && isa<CostOpInterface>(op) ? *work * nominalWork(op)
                                                       : MinCut::infinite);
      for (Value operand : op->getOperands())
        if (auto found = number.find(operand); found != number.end())
          graph.addEdge(2 * found->second + 1, node, MinCut::infinite);
    }
    for (size_t i = 0; i < cone.size(); ++i) {
      int before = 2 * static_cast<int>(i), after = before + 1;
      Operation *op = cone[i].getDefiningOp();
      graph.addEdge(before, after, memory * keepCost(i));
      if (!op || query.held.contains(cone[i])) {
        graph.addEdge(source, before, MinCut::infinite);
      } else {
        graph.addEdge(opNode[op], before, MinCut::infinite);
        if (isCheap(op))
          graph.addEdge(source, before, memory * recomputeCost(i));
      }
      if (query.needed.contains(cone[i]))
        graph.addEdge(after, sink, MinCut::infinite);
    }
    graph.solve(source, sink);
    return read(graph.sinkSide(sink), opNode);
  }

  Cut read(const std::vector<bool> &sinkSide,
           const llvm::MapVector<Operation *, int> &opNode) const {
    Cut cut;
    for (size_t i = 0; i < cone.size(); ++i) {
      Operation *op = cone[i].getDefiningOp();
      if (!sinkSide[2 * i] && sinkSide[2 * i + 1]) {
        cut.kept.push_back(cone[i]);
        cut.memory += keepCost(i);
      } else if (sinkSide[2 * i] && op && isCheap(op)) {
        cut.memory += recomputeCost(i);
      }
    }
    for (auto [op, node] : opNode)
      if (sinkSide[node] && !isCheap(op))
        cut.work += nominalWork(op);
    llvm::sort(cut.kept, definedBefore);
    return cut;
  }

  Cut fullCut() const {
    Cut cut;
    llvm::DenseSet<Operation *> run;
    for (size_t i = 0; i < cone.size(); ++i) {
      Operation *op = cone[i].getDefiningOp();
      if (!op) {
        cut.kept.push_back(cone[i]);
        cut.memory += keepCost(i);
      } else if (isCheap(op)) {
        cut.memory += recomputeCost(i);
      } else if (isa<CostOpInterface>(op) && run.insert(op).second) {
        cut.work += nominalWork(op);
      }
    }
    llvm::sort(cut.kept, definedBefore);
    return cut;
  }

  /// Appends the cuts below the line from `left` (more memory) to `right`, in this order.
  void findBetween(const Cut &left, const Cut &right, std::vector<Cut> &cuts, int depth) const {
    if (depth == 0 || left.memory <= right.memory || right.work <= left.work)
      return;
    int64_t memory = right.work - left.work, work = left.memory - right.memory;
    while (std::max(memory, work) > largestPrice) {
      memory = (memory + 1) / 2;
      work = (work + 1) / 2;
    }
    Cut middle = solve(memory, work);
    auto cost = [&](const Cut &cut) {
      return static_cast<__int128>(cut.memory) * memory + static_cast<__int128>(cut.work) * work;
    };
    if (cost(middle) >= std::min(cost(left), cost(right)))
      return;
    findBetween(left, middle, cuts, depth - 1);
    cuts.push_back(middle);
    findBetween(middle, right, cuts, depth - 1);
  }

  /// Drops cuts between the first and the last whose corner of the hull is smallest.
  static void thinOut(std::vector<Cut> &cuts) {
    while (cuts.size() > mostSelective + 2) {
      auto corner = [&](size_t i) {
        const Cut &a = cuts[i - 1], &b = cuts[i], &c = cuts[i + 1];
        __int128 area = static_cast<__int128>(b.memory - a.memory) * (c.work - a.work) -
                        static_cast<__int128>(c.memory - a.memory) * (b.work - a.work);
        return area < 0 ? -area : area;
      };
      size_t least = 1;
      for (size_t i = 2; i + 1 < cuts.size(); ++i)
        if (corner(i) < corner(least))
          least = i;
      cuts.erase(cuts.begin() + static_cast<ptrdiff_t>(least));
    }
  }

  static std::vector<RematChoice> named(const std::vector<Cut> &cuts) {
    std::vector<RematChoice> choices;
    for (size_t i = 0; i < cuts.size(); ++i) {
      std::string name = i == 0                 ? "keep"
                         : i + 1 == cuts.size() ? "full"
                                                : "selective-" + std::to_string(i);
      choices.push_back({name, {cuts[i].kept.begin(), cuts[i].kept.end()}});
    }
    return choices;
  }

  const RematQuery &query;
  SmallVector<Value> cone;
  SmallVector<int64_t> bytes;        ///< of the cone's values
  llvm::DenseMap<Value, int> number; ///< in the cone
};
} // namespace

FailureOr<std::vector<RematChoice>> omnibal::findRematChoices(const RematQuery &query) {
  return ChoiceFinder(query).run();
}

FailureOr<llvm::SetVector<Value>> omnibal::selectSavedValues(const RematQuery &query) {
  return ChoiceFinder(query).runKeep();
}
