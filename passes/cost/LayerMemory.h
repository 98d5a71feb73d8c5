//===- LayerMemory.h - What the lowered functions of a layer hold ---------------------------===//
#ifndef PASSES_COST_LAYERMEMORY_H
#define PASSES_COST_LAYERMEMORY_H

#include "passes/cost/LayerFacts.h"
#include "passes/lower/Lowering.h"

namespace omnibal::cost {

/// Bytes at a load, of functions lowered for it.
struct LayerMemory {
  int64_t forwardWorkspace = 0, backwardWorkspace = 0, inferenceWorkspace = 0;
  int64_t halfWorkspace = 0;                    ///< the larger of the backward's halves
  int64_t results = 0;                          ///< losses and the like, until the end of a step
  std::map<std::string, int64_t> batch;         ///< values of the micro-batch that training reads
  std::map<std::string, int64_t> backwardBatch; ///< of these, what backward reads
  std::map<std::string, int64_t> constants;     ///< of all functions
};

/// Lowers the functions of every layer of `module` (form C) and reads what they hold; the result
/// has one entry per call, in order, for the target and as it computes there. Rewrites the
/// functions' saved values. Errors are reported at the functions.
llvm::FailureOr<std::vector<LayerMemory>>
readLayerMemory(mlir::ModuleOp module, const analysis::CallGraph &graph, MicrobatchLoad load,
                const std::string &target, const std::string &compute);

} // namespace omnibal::cost
#endif // PASSES_COST_LAYERMEMORY_H
