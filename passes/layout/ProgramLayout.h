//===- ProgramLayout.h - The memory of a program from its lowered functions ---------------===//
#ifndef PASSES_LAYOUT_PROGRAMLAYOUT_H
#define PASSES_LAYOUT_PROGRAMLAYOUT_H

#include "passes/layout/ModeLayout.h"
#include "passes/layout/ReadSchedule.h"
#include "passes/lower/Lowering.h"

namespace omnibal::layout {

/// Everything about a program that all of its modes share.
struct ProgramParts {
  analysis::CallGraph graph;
  std::vector<lower::LoweredFunction> functions;
  std::vector<CalleeFunctions>
      callees; ///< one a call; gradients that some action of its chunk runs
  std::vector<std::vector<CalleeFunctions>> variants; ///< by call, as CallMemory::variants
  Schedule schedule;
  std::string compute = "float32";
  int64_t tilesCap = 0, tokensCap = 0;
  /// By chunk, where steps are planned one by one: what plans place for a unit.
  std::vector<ChunkBlocks> stepBlocks;

  /// How an activation between layers and its gradient lie.
  rt::DType dtypeOf(const analysis::Edge &edge) const {
    return compute == "bfloat16" && edge.isBFloat16 ? rt::DType::BF16 : rt::DType::F32;
  }
  /// The stage that runs a chunk.
  int64_t stageOf(int64_t chunk) const { return schedule.plan.getChunkStages()[chunk]; }
};

/// Lays out parameters, constants and every mode of all stages. Adds helper functions (gradient
/// accumulation) to parts.functions. Reports on the stages' ops.
llvm::LogicalResult layOutProgram(ProgramParts &parts, std::vector<rt::Stage> &stages);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_PROGRAMLAYOUT_H
