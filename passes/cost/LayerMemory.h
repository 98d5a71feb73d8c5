//===- LayerMemory.h - What the lowered functions of a layer hold ---------------------------===//
#ifndef PASSES_COST_LAYERMEMORY_H
#define PASSES_COST_LAYERMEMORY_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/cost/LayerFacts.h"
#include "passes/lower/Lowering.h"
#include <array>

namespace omnibal::cost {

/// Its functions, as `omnibal.buffers` states them.
struct LayerMemory {
  FunctionBuffersAttr evaluate, inference;
  OptionBuffersAttr training;
  /// Temporaries of a call; of the backward as a whole.
  int64_t forwardWorkspace = 0, backwardWorkspace = 0;
};

/// The functions of every layer of a module (form C), lowered as far as caps do not matter.
class LayerFunctionsMemory {
public:
  /// Takes a module whose functions may be rewritten. Reports on the functions.
  static llvm::FailureOr<LayerFunctionsMemory> read(mlir::OwningOpRef<mlir::ModuleOp> module,
                                                    const std::string &target);

  /// Returns what they hold at these caps and for this target: one entry a call, in order.
  llvm::FailureOr<std::vector<LayerMemory>> at(const lower::LoweringOptions &options) const;

private:
  struct Layer {
    /// Forward, backward, input_grad, weight_grad, evaluate and inference; -1 where there is none.
    std::array<int, 6> functions = {-1, -1, -1, -1, -1, -1};
  };
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<lower::PreparedFunction> prepared;
  std::vector<Layer> layers; ///< by call
};

} // namespace omnibal::cost
#endif // PASSES_COST_LAYERMEMORY_H
