//===- LayerMemory.h - What the lowered functions of a layer hold ---------------------------===//
#ifndef PASSES_COST_LAYERMEMORY_H
#define PASSES_COST_LAYERMEMORY_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/cost/LayerFacts.h"
#include "passes/lower/Lowering.h"

namespace omnibal::cost {

/// Its functions, as `omnibal.buffers` states them.
struct LayerMemory {
  FunctionBuffersAttr evaluate, inference;
  OptionBuffersAttr training;
  /// Temporaries of a call; of the backward as a whole.
  int64_t forwardWorkspace = 0, backwardWorkspace = 0;
};

/// Lowers the functions of every layer of `module` (form C) and reads what they hold at these caps
/// and for this target; one entry a call, in order. Rewrites the functions' saved values. Reports
/// on the functions.
llvm::FailureOr<std::vector<LayerMemory>> readLayerMemory(mlir::ModuleOp module,
                                                          const analysis::CallGraph &graph,
                                                          const lower::LoweringOptions &options);

} // namespace omnibal::cost
#endif // PASSES_COST_LAYERMEMORY_H
