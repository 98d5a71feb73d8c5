//===- LayerFacts.h - What each layer of form C costs ---------------------------------------===//
#ifndef PASSES_COST_LAYERFACTS_H
#define PASSES_COST_LAYERFACTS_H

#include "dialects/omnibal/analysis/CallGraph.h"
#include "passes/cost/Device.h"
#include <map>
#include <optional>

namespace omnibal::cost {

/// The micro-batch that costs are stated for.
struct MicrobatchLoad {
  int64_t tiles = 0, tokens = 0;
  std::optional<int64_t> squaredTokens = std::nullopt; ///< sum over samples of length^2; none: one
                                                       ///< sample of all the tokens
  int64_t squares() const { return squaredTokens.value_or(tokens * tokens); }
  /// Sum over pictures of units^2 where pictures have sizes of their own: one picture of all units.
  int64_t tileSquares() const { return tiles * tiles; }
};

/// Work and bytes of one layer, from the functions that it calls.
struct LayerFacts {
  MicrobatchLoad load; ///< that the rest is stated for
  /// The digests of the layer's functions (FunctionDigest.h), empty where there is no function.
  std::string forwardDigest, backwardDigest, inputGradDigest, weightGradDigest;
  Work forward, inputGrad, weightGrad;
  int64_t savedBytes = 0; ///< saved values and the inputs and outputs that backward reads
  /// What the second half of a backward reads, parameters apart; none where the module has no
  /// halves.
  std::optional<int64_t> secondHalfBytes;
  std::vector<int64_t> inputGradients; ///< inputs that backward gives a gradient of
  int64_t gradientBytes = 0; ///< gradients of outputs and inputs that backward reads and writes
};

/// Returns one entry per call, in order. Where a backward has halves, their work is inputGrad and
/// weightGrad; otherwise backward work whose result is needed for the gradient of an input counts
/// as inputGrad, and the rest as weightGrad. An element of a float activation is `floatBytes` wide
/// unless it stays in float32; digests are those of functions by these kernels (digestKernels()).
std::vector<LayerFacts> readLayerFacts(mlir::ModuleOp module, const analysis::CallGraph &graph,
                                       MicrobatchLoad load, int64_t floatBytes = 4,
                                       const std::string &kernels = "float32");

} // namespace omnibal::cost
#endif // PASSES_COST_LAYERFACTS_H
