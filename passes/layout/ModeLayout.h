//===- ModeLayout.h - Regions and bindings of every stage in one mode ---------------------===//
//
// A mode is what the program does in one use: train, evaluate, or forward (predict). This code
// decides for each stage where every activation, saved value, gradient, message and batch value
// lies, by the uses that the action list makes of them.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYOUT_MODELAYOUT_H
#define PASSES_LAYOUT_MODELAYOUT_H

#include "passes/layout/MemoryGraph.h"
#include "runtime/planner/step/StepProblem.h"

namespace omnibal::layout {

/// What the stages do in one mode.
struct ModeWork {
  StageMode purpose = StageMode::Train;
  size_t trainMode = 0; ///< which of the program's, where it trains
  int64_t microbatches = 1;
  std::vector<schedule::Message> messages;      ///< of all modes
  std::vector<std::vector<rt::Action>> actions; ///< by stage; chunks and messages by their ids
  bool stepPlanned = false; ///< plans of single steps choose order and places; `actions` are those
                            ///< that serve every step
};

/// What plans of single steps place for a unit of a chunk: by variant, in the order of the blocks'
/// numbers.
using ChunkBlocks = std::vector<std::vector<planner::Block>>;

struct LayoutError {
  int64_t stage = 0;
  std::string text;
};

/// As Stage::modes has it.
std::string modeName(StageMode purpose, size_t trainMode = 0);

/// Lays out one mode for all stages: fills stages[s].modes[name] but for types, shapes and names of
/// what lies there (StageLayout.h), and raises stages[s].arenaBytes and reservedBytes.
/// Where steps are planned, `stepBlocks` gets by chunk what plans place for a unit.
std::optional<LayoutError> layOutMode(const MemoryGraph &graph, ModeWork work,
                                      std::vector<rt::Stage> &stages,
                                      std::vector<ChunkBlocks> *stepBlocks = nullptr);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_MODELAYOUT_H
