//===- MemoryGraph.h - What the memory of stages is laid out from -------------------------===//
//
// Layers, the functions that they call and the activations between them, in bytes at the caps. An
// exported program gives it from its lowered functions, a plan from the attributes that costs are
// stated in; so what is predicted of a plan is what its program will need.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYOUT_MEMORYGRAPH_H
#define PASSES_LAYOUT_MEMORYGRAPH_H

#include "dialects/omnibal/ir/OmnibalStageOps.h"
#include "passes/schedule/Messages.h"
#include "runtime/program/Program.h"
#include <array>
#include <map>
#include <optional>

namespace omnibal::layout {

/// A formal of a function. Bytes of parameters, their gradients and constants are not laid out with
/// the actions and may be 0.
struct FormalMemory {
  rt::Role role = rt::Role::Input;
  int64_t index = -1;
  std::string name;
  int64_t bytes = 0;
  rt::Extent stepBytes = {}; ///< as stepBytes() has it; only for plans of single steps
};

struct FunctionMemory {
  std::string name;
  std::vector<FormalMemory> formals;
  int64_t workspaceBytes = 0;
};

/// Functions of one call, as indices into MemoryGraph::functions; -1: none, or no action of the
/// call's chunk runs it.
struct CalleeFunctions {
  int64_t forward = -1, evaluate = -1, inference = -1;
  int64_t backward = -1, inputGrad = -1, weightGrad = -1;

  std::array<int64_t, 3> gradients() const { return {backward, inputGrad, weightGrad}; }
  std::array<int64_t, 6> all() const {
    return {forward, backward, inputGrad, weightGrad, evaluate, inference};
  }
  /// That an action of this kind runs.
  int64_t of(rt::ActionKind kind, StageMode mode) const;
  /// Without the gradients that none of these kinds of actions runs.
  CalleeFunctions ofRuns(const std::set<rt::ActionKind> &kinds) const;
};

struct CallMemory {
  std::string name;
  int64_t chunk = 0;
  std::vector<int64_t> inputs, outputs; ///< edges
  std::vector<int32_t> parameters;      ///< their numbers on the call's stage
  CalleeFunctions functions;
  std::vector<CalleeFunctions> variants; ///< where plans of single steps choose; else none

  /// Ways to run the call, one at least.
  int64_t variantCount() const {
    return std::max<int64_t>(1, static_cast<int64_t>(variants.size()));
  }
  const CalleeFunctions &functionsIn(int64_t variant) const {
    return variants.empty() ? functions : variants[variant];
  }
};

struct EdgeMemory {
  int64_t producer = 0, output = 0;                   ///< call, number among its outputs
  int64_t bytes = 0;                                  ///< of the value, and of its gradient
  rt::Extent stepBytes = {};                          ///< the same, as stepBytes() has it
  std::vector<std::pair<int64_t, int64_t>> consumers; ///< call, number among its inputs
  std::optional<std::string> result;                  ///< its name where the graph puts it out
};

/// Bytes of a dense tensor as plans of single steps count them: what depends on V and N shrinks
/// with the micro-batch, and every coefficient is a multiple of the blocks' alignment, so that sums
/// of sizes are offsets. What is not affine in V and N, or would grow much, counts as at the caps.
rt::Extent stepBytes(rt::DType dtype, const std::vector<rt::Extent> &shape,
                     const rt::SymbolValues &caps);

struct MemoryGraph {
  rt::SymbolValues caps; ///< for the sizes of steps; N rounded to the row bucket
  std::vector<CallMemory> calls;
  std::vector<EdgeMemory> edges;
  std::vector<FunctionMemory> functions;
  std::vector<int64_t> chunkStage;
  /// By chunk: the variant of its calls that the mode's own actions run; empty: there are none.
  std::vector<int64_t> plannedVariant;
  /// By stage: the number of each constant that its functions read.
  std::vector<std::map<std::string, int32_t>> constantIndex;

  int64_t chunks() const { return static_cast<int64_t>(chunkStage.size()); }
  /// Ways to run the chunk, one at least.
  int64_t variantsOf(int64_t chunk) const;
  /// Whether a function has such a formal; none has where `function` is -1.
  bool reads(int64_t function, rt::Role role, int64_t index) const;
  /// Whether a backward of the call yields the gradient of its input.
  bool givesInputGradient(int64_t call, int64_t input) const;
  /// The activations as messages see them.
  std::vector<schedule::SharedValue> sharedValues() const;
  /// Fills `constantIndex`; returns the constants of each stage, one formal each, in that order.
  std::vector<std::vector<FormalMemory>> findConstants(int64_t stages);
};

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_MEMORYGRAPH_H
