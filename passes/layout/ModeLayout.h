//===- ModeLayout.h - Regions, bindings and actions of every stage in one mode -----------===//
//
// A mode is what the program does in one use: train, evaluate, or forward (predict). This code
// decides for each stage where every activation, saved value, gradient, message and batch value
// lies, by the uses that the action list makes of them.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYOUT_MODELAYOUT_H
#define PASSES_LAYOUT_MODELAYOUT_H

#include "passes/layout/ReadSchedule.h"
#include "passes/lower/Lowering.h"

namespace omnibal::layout {

using analysis::Call;
using analysis::CallGraph;
using analysis::Edge;

/// Functions of one call's layer, as indices into ProgramParts::functions; -1 = none.
struct CalleeFunctions {
  int64_t forward = -1, evaluate = -1, inference = -1;
  /// The functions that actions run: a backward, or its halves, or both.
  int64_t backward = -1, inputGrad = -1, weightGrad = -1;

  std::array<int64_t, 3> gradients() const { return {backward, inputGrad, weightGrad}; }
};

/// Everything about the program that all modes share.
struct ProgramParts {
  CallGraph graph;
  std::vector<lower::LoweredFunction> functions;
  std::vector<CalleeFunctions> callees; ///< one a call
  Schedule schedule;
  std::string compute = "float32";
  int64_t tilesCap = 0, tokensCap = 0;
  std::vector<std::map<std::string, int32_t>>
      parameterIndex; ///< per stage: name -> Stage::parameters
  std::vector<std::map<std::string, int32_t>>
      constantIndex; ///< per stage: name -> Stage::constants

  /// How an activation between layers and its gradient lie.
  rt::DType dtypeOf(const Edge &edge) const {
    return compute == "bfloat16" && edge.isBFloat16 ? rt::DType::BF16 : rt::DType::F32;
  }
  /// The stage that runs a chunk.
  int64_t stageOf(int64_t chunk) const { return schedule.plan.getChunkStages()[chunk]; }
};

/// Bytes of a dense tensor at the caps.
int64_t bytesAtCaps(const ProgramParts &parts, const std::vector<rt::Extent> &shape,
                    rt::DType dtype);

/// Lays out one mode for all stages: fills stages[s].modes[name] and raises stages[s].arenaBytes
/// and reservedBytes. Adds helper functions (gradient accumulation) to parts.functions. Reports
/// on the stage's ops.
llvm::LogicalResult layOutMode(ProgramParts &parts, StageMode purpose,
                               std::vector<rt::Stage> &stages);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_MODELAYOUT_H
