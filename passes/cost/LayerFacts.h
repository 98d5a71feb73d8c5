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

/// Buffers are laid out at multiples of this many bytes.
constexpr int64_t bufferAlignment = 64;
constexpr int64_t alignBuffer(int64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

/// What the second half of a layer's backward reads, in bytes, parameters apart.
struct SecondHalf {
  int64_t saved = 0;       ///< saved values
  int64_t held = 0;        ///< what the first half leaves
  int64_t gradients = 0;   ///< of outputs
  int64_t activations = 0; ///< inputs and outputs
  int64_t bytes() const { return saved + held + gradients + activations; }
};

/// This attribute of a layer with costs is a dictionary from the name of an option to an array with
/// its SecondHalf's saved, held and gradients and the temporaries of a half. The bytes of the whole
/// are `split` of the option.
constexpr llvm::StringLiteral halvesAttrName = "omnibal.halves";

/// Work and bytes of one layer, from the functions that it calls.
struct LayerFacts {
  MicrobatchLoad load; ///< that the rest is stated for
  /// The digests of the layer's functions (FunctionDigest.h), empty where there is no function.
  std::string forwardDigest, backwardDigest, inputGradDigest, weightGradDigest;
  Work forward, inputGrad, weightGrad;
  int64_t savedBytes = 0; ///< saved values and the inputs and outputs that backward reads
  std::optional<SecondHalf> secondHalf;         ///< none where the module has no halves
  std::vector<int64_t> keptInputs, keptOutputs; ///< numbers of those inputs and outputs
  std::vector<int64_t> inputGradients;          ///< inputs that backward gives a gradient of
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
