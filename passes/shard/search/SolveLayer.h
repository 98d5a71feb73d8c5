//===- SolveLayer.h - The best layouts of one layer, exactly ---------------------------------===//
#ifndef PASSES_SHARD_SEARCH_SOLVELAYER_H
#define PASSES_SHARD_SEARCH_SOLVELAYER_H

#include "passes/shard/search/LayerProblem.h"

namespace omnibal::shard {

/// States that go on after an op: in a first run, whose result is a limit, and in the search, which
/// beyond them is no longer exact. Where they lead to no legal choice, twice as many go on. Most
/// layers of models have hundreds.
struct StateLimits {
  size_t quick = 512, most = 200'000;
};

struct LayerSolution {
  LayerChoice choice;
  LayerCost cost;
  size_t mostStates = 0; ///< that the search had after an op
  bool isExact = true;   ///< no states were left out
};

/// Returns the cheapest choice, of equal ones the first by an order that depends on the problem
/// alone; none where no choice is legal.
std::optional<LayerSolution> solveLayer(const LayerProblem &problem,
                                        const StateLimits &limits = {});

/// Returns what no choice is below: the least work, moves, kept and held bytes, each as if nothing
/// else counted. None where no choice is legal, or one of the four is not known exactly.
std::optional<LayerCost> boundOf(const LayerProblem &problem, const StateLimits &limits = {});

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_SOLVELAYER_H
