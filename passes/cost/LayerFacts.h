//===- LayerFacts.h - What each layer of form C costs ---------------------------------------===//
#ifndef PASSES_COST_LAYERFACTS_H
#define PASSES_COST_LAYERFACTS_H

#include "dialects/omnibal/analysis/CallGraph.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/cost/Device.h"
#include "passes/cost/MicrobatchLoad.h"
#include <map>

namespace omnibal::cost {

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

/// Bytes of a value of this type with this load, where an element of an activation is `floatBytes`
/// wide.
int64_t bytesOf(mlir::Type type, MicrobatchLoad load, int64_t floatBytes);
/// The same of what one of several parts holds of it at most.
int64_t heldBytes(mlir::RankedTensorType whole, LayoutAttr layout, int64_t parts,
                  MicrobatchLoad load, int64_t floatBytes);
/// Adds what a part does to move a value of this type, which is the whole one's: what it sends
/// where shares are even, and what it reads and writes.
void addMove(mlir::RankedTensorType whole, LayoutAttr from, LayoutAttr to, int64_t parts,
             MicrobatchLoad load, int64_t floatBytes, Work &work);
/// Adds what an op does with this load, where an element of an activation is `floatBytes` wide.
void addWork(mlir::Operation &op, MicrobatchLoad load, int64_t floatBytes, Work &work);

/// Returns one entry per call, in order. Where a backward has halves, their work is inputGrad and
/// weightGrad; otherwise backward work whose result is needed for the gradient of an input counts
/// as inputGrad, and the rest as weightGrad. An element of a float activation is `floatBytes` wide
/// unless it stays in float32; digests are those of functions by these kernels (digestKernels()).
std::vector<LayerFacts> readLayerFacts(mlir::ModuleOp module, const analysis::CallGraph &graph,
                                       MicrobatchLoad load, int64_t floatBytes = 4,
                                       const std::string &kernels = "float32");

/// Whether the functions of a call's parts make the same moves in the same order, which they wait
/// for each other in. Parts of unlike shares may weigh otherwise what to recompute.
bool partsMeet(mlir::ModuleOp module, const analysis::Call &call);

} // namespace omnibal::cost
#endif // PASSES_COST_LAYERFACTS_H
