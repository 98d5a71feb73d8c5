//===- ProgramLayout.h - The memory of a program from its lowered functions ---------------===//
#ifndef PASSES_LAYOUT_PROGRAMLAYOUT_H
#define PASSES_LAYOUT_PROGRAMLAYOUT_H

#include "passes/layout/ModeLayout.h"
#include "passes/layout/ReadSchedule.h"
#include "passes/lower/Lowering.h"

namespace omnibal::layout {

/// Everything about one training mode of a program, or about a program with one.
struct ProgramParts {
  size_t trainMode = 0;
  bool isLast = true; ///< evaluation and prediction run at its caps
  analysis::CallGraph graph;
  std::vector<lower::LoweredFunction> functions;
  std::vector<CalleeFunctions>
      callees; ///< one a call; gradients that some action of its chunk runs
  /// By part and call, where the parts of a stage run different functions; else none. `part` is the
  /// one that is laid out, whose `callees` are.
  std::vector<std::vector<CalleeFunctions>> calleesOfParts;
  int64_t part = 0;
  std::vector<std::vector<CalleeFunctions>> variants; ///< by call, as CallMemory::variants
  Schedule schedule;
  std::string compute = "float32";
  rt::OptimizerKind optimizer = rt::OptimizerKind::AdamW;
  bool averages = false; ///< as rt::Program's
  int64_t tilesCap = 0, tokensCap = 0;
  rt::SymbolValues caps() const {
    return rt::SymbolValues::most(tilesCap, tokensCap, schedule.plan.getParts());
  }
  /// By chunk, where steps are planned one by one: what plans place for a unit.
  std::vector<ChunkBlocks> stepBlocks;

  /// How an activation between layers and its gradient lie.
  rt::DType dtypeOf(const analysis::Edge &edge) const {
    return compute == "bfloat16" && edge.isBFloat16 ? rt::DType::BF16 : rt::DType::F32;
  }
  /// The stage that runs a chunk.
  int64_t stageOf(int64_t chunk) const { return schedule.plan.getChunkStages()[chunk]; }
};

/// Lays out parameters, constants and every mode of all stages; `modes` has the program's training
/// modes by number, with the same cuts. Adds helper functions (gradient accumulation) to their
/// functions; calls name functions by their number among those of their training mode. Reports on
/// the stages' ops.
llvm::LogicalResult layOutProgram(llvm::MutableArrayRef<ProgramParts> modes,
                                  std::vector<rt::Stage> &stages);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_PROGRAMLAYOUT_H
