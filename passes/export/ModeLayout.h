//===- ModeLayout.h - Regions, bindings and actions of every stage in one mode
//------------------------------===//
//
// A mode is what the program does in one use: train, evaluate, or forward (predict). For each stage
// it decides where every activation, saved value, gradient, message and batch value lies, from the
// uses that the action list makes of them.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_EXPORT_MODELAYOUT_H
#define PASSES_EXPORT_MODELAYOUT_H

#include "passes/lower/Lowering.h"
#include "passes/partition/CallGraph.h"
#include "passes/planner/Plan.h"
#include "runtime/program/Program.h"
#include <map>

namespace omnibal::exporter {

using partition::Call;
using partition::CallGraph;
using partition::Edge;

enum class Purpose { Train, Evaluate, Predict };

/// Functions of one call's layer, as indices into ProgramParts::functions; -1 = none.
struct CalleeFunctions {
  int64_t forward = -1, backward = -1, evaluate = -1, predict = -1;
};

/// Everything about the program that all modes share.
struct ProgramParts {
  CallGraph graph;
  std::vector<lower::LoweredFunction> functions;
  std::vector<CalleeFunctions> callees; ///< one a call
  std::vector<int64_t> chunkStage;
  std::vector<std::vector<planner::Action>> trainActions; ///< per stage
  int64_t microbatches = 1, tilesCap = 0, tokensCap = 0;
  int64_t dataParallel = 1;
  std::vector<std::map<std::string, int32_t>>
      parameterIndex; ///< per stage: name -> Stage::parameters
  std::vector<std::map<std::string, int32_t>>
      constantIndex;                              ///< per stage: name -> Stage::constants
  std::vector<std::vector<int32_t>> sharedGroups; ///< per stage: groups it takes part in
};

/// Bytes of a dense tensor at the caps.
int64_t bytesAtCaps(const ProgramParts &parts, const std::vector<rt::Extent> &shape,
                    rt::DType dtype);

/// Lays out one mode for all stages: fills stages[s].modes[name] and raises stages[s].arenaBytes
/// and reservedBytes. Adds helper functions (gradient accumulation) to parts.functions. Returns an
/// error text, empty on success.
std::string layOutMode(ProgramParts &parts, Purpose purpose, std::vector<rt::Stage> &stages);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_MODELAYOUT_H
