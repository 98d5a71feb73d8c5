//===- ModelSearch.h - The best layouts of a model's distinct layers --------------------------===//
//
// Equal layers have equal layouts, so each distinct one is solved once. A parameter that unlike
// layers share has one layout for all of them: the layers that it ties together are solved for each
// layout that it could have, and the cheapest one counts. How parts have values between layers is
// given (RowBorders.h).
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_SHARD_SEARCH_MODELSEARCH_H
#define PASSES_SHARD_SEARCH_MODELSEARCH_H

#include "passes/shard/RowBorders.h"
#include "passes/shard/search/LayerReading.h"
#include "passes/shard/search/SolveLayer.h"

namespace omnibal::shard {

/// Layers of equal body, with gradients at the same places, whose shared parameters are the same.
struct DistinctLayer {
  llvm::SmallVector<LayerOp> layers;          ///< in the order of the model
  llvm::SmallVector<mlir::Value> active;      ///< arguments of the first one's body
  llvm::SmallVector<int64_t> tied;            ///< by parameter: the tied parameter's number, or -1
  llvm::SmallVector<unsigned> orthogonalized; ///< numbers of parameters
  llvm::SmallVector<LayoutAttr> borders;      ///< of inputs, then of outputs
  std::optional<LayerReading> reading;
  LayerSolution solution;
  bool isKnown = false; ///< another search has solved it
};

struct SearchLimits {
  StateLimits states;
  /// Solutions of the layers that tied parameters connect; where each choice of layouts of these
  /// would need more, they stay whole, and the solutions are not exact.
  size_t tiedSolutions = 512;
};

class ModelSearch {
public:
  /// What `known`, a solved search of the same model with other borders, has of layers with the
  /// same borders is taken from it; null: nothing is known. A diagnostic says where a gradient
  /// cannot be built.
  static mlir::FailureOr<ModelSearch> read(const LayerGraph &graph, const MachineRates &rates,
                                           const RowBorders &borders = {},
                                           const ModelSearch *known = nullptr);

  /// The least that a micro-batch takes, in nanoseconds, if moves took no time.
  double leastNs() const;
  /// Finds the layouts of all layers at this price, which is that of the known search, if any.
  /// Fails with a diagnostic where their costs are out of range; else no layer is without any, as
  /// nothing need be divided.
  mlir::LogicalResult solve(double priceNs, const SearchLimits &limits = {});

  llvm::ArrayRef<DistinctLayer> layers() const { return distinct; }
  /// What all layers cost, once they are solved.
  double total() const;
  int64_t parts() const { return rates.parts; }
  /// The problem of a layer, with tied parameters held as they were found to be best.
  LayerProblem problemOf(const DistinctLayer &layer) const;

private:
  /// A parameter of unlike layers, or at unlike places of one.
  struct Tied {
    ParameterOp parameter;
    llvm::SmallVector<std::pair<size_t, unsigned>> places; ///< distinct layer, parameter of it
    llvm::SmallVector<LayoutAttr> candidates;
    LayoutAttr held;
  };

  const DistinctLayer *findEqual(const DistinctLayer &layer) const;
  void findDistinct(const LayerGraph &graph);
  bool findTied(const LayerGraph &graph);
  void findCandidates(Tied &tied);
  size_t choicesOf(llvm::ArrayRef<size_t> ties) const;
  bool canTryAll(llvm::ArrayRef<size_t> members, llvm::ArrayRef<size_t> ties,
                 const SearchLimits &limits) const;
  double memoryOf(const Tied &tied) const;
  mlir::LogicalResult solveTogether(llvm::ArrayRef<size_t> members, llvm::ArrayRef<size_t> ties,
                                    const SearchLimits &limits);

  MachineRates rates;
  RowBorders borders;
  std::vector<DistinctLayer> distinct;
  std::vector<Tied> tied;
};

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_MODELSEARCH_H
